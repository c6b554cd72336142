"""The gate on made-up records: unchanged code passes, and everything else fails with its reason."""

import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bench.cli import FAILED, INCOMPLETE, USAGE
from bench.cli.main import main
from bench.core.canonical import plain
from bench.core.errors import StoreError
from bench.core.store import Store
from bench.judge.comparison import holm_over, independent
from bench.judge.gate.config import load_gate
from bench.judge.gate.judge import DIVERGED, divergence_p
from bench.judge.samples import Samples
from tests.gate_folders import baseline_folder, folders, fresh_folder, gate_file, planned_records, write
from tests.synthetic import changed, read_record

PUBLISHED, LOSS = "mlp/published/common", "last epoch/mnist/{train}/train_loss"
TOY_TRAINED_RUN = "toy_bbb/published/common"
TOY, TOY_DIVERGED = f"{TOY_TRAINED_RUN} toy/rmse", f"{TOY_TRAINED_RUN} {DIVERGED}"
LOST = {"outcome": "diverged", "reason": "loss is nan"}


def command(tmp_path, path, *more):
    places = ["--baseline", str(tmp_path / "baseline"), "--fresh", str(tmp_path / "fresh")]
    return main(["gate", "--gate", str(path), *places, *more])


def judged(tmp_path, path, capsys):
    code = command(tmp_path, path, "--json")
    found = json.loads(capsys.readouterr().out)
    states = {f"{row['trained run']} {row['metric']}": row["state"] for row in found["checks"]}
    return code, {name: state for name, state in states.items() if state != "pass"}, found


def change(store, pattern, **changes):
    """Change fields of the records whose files fit a pattern; a dict updates the field."""
    for old in chosen(store, pattern):
        fields = plain(old)
        new = {name: {**fields[name], **value} if isinstance(value, dict) else value for name, value in changes.items()}
        replaced(store, changed(old, **new))


def replace(store, pattern, **changes):
    """Replace fields of the records whose files fit a pattern."""
    for old in chosen(store, pattern):
        replaced(store, changed(old, **changes))


def replaced(store, record):
    store.record_path(record).unlink()  # a record without numbers would not replace a finished one
    store.write(record)


def chosen(store, pattern):
    paths = sorted(store.records.glob(f"{pattern}.json"))
    assert paths
    return [read_record(path) for path in paths]


def test_an_unchanged_rerun_passes(tmp_path, capsys):
    path, _, _, _ = folders(tmp_path)
    code, bad, found = judged(tmp_path, path, capsys)
    assert (code, bad) == (0, {})
    assert found["passed"]
    for row in found["checks"]:
        assert row["low"] < row["baseline_mean"] < row["high"]
        # the fresh mean is seen at 80 % far outside of the interval of one metric, at a fifth of its level and less
        assert row["resolution"] > row["high"] - row["baseline_mean"]


@pytest.mark.parametrize(
    ("margin", "shift", "expected"),
    [
        (0.02, 0.2, (FAILED, {f"{PUBLISHED} {name}": "fail" for name in ("mnist/nll", LOSS)})),  # 20 sd, 10 margins
        (0.5, 0.2, (0, {})),
        (1e-9, 0.0, (0, {})),  # every difference is beyond the margin, and only the interval protects
    ],
)
def test_only_a_shift_beyond_interval_and_margin_fails(tmp_path, margin, shift, expected, capsys):
    path, gate, _, _ = folders(tmp_path)
    path.write_text(path.read_text().replace("margin = 0.02", f"margin = {margin}"))
    fresh_folder(tmp_path / "fresh", gate, shift=shift)
    *said, found = judged(tmp_path, path, capsys)
    assert tuple(said) == expected
    texts = {row["text"] for row in found["checks"]}
    assert ("beyond the interval, within the margin" in texts) == (margin == 0.5)


@pytest.mark.parametrize("n_seeds", [0, 7])
def test_too_small_a_baseline_is_not_green(tmp_path, n_seeds, capsys):
    path = gate_file(tmp_path)
    gate = load_gate(path)
    baseline_folder(tmp_path / "baseline", gate, n_seeds)
    fresh_folder(tmp_path / "fresh", gate)
    code, bad, _ = judged(tmp_path, path, capsys)
    assert code == INCOMPLETE
    assert bad[f"{PUBLISHED} mnist/nll"] == "missing"


def test_a_failed_baseline_seed_is_not_dropped(tmp_path, capsys):
    path, gate, baseline, _ = folders(tmp_path)
    for made in planned_records(gate, gate.trained_run(PUBLISHED), range(9))[8:]:
        write(baseline, changed(made, outcome="failed", reason="out of memory"))
    code, bad, _ = judged(tmp_path, path, capsys)
    assert (code, bad[f"{PUBLISHED} mnist/nll"]) == (INCOMPLETE, "missing")


def test_a_baseline_with_fresh_seeds_is_not_green(tmp_path, capsys):
    path, gate, baseline, _ = folders(tmp_path)
    write(baseline, planned_records(gate, gate.trained_run(PUBLISHED), [1000])[0])
    code, bad, found = judged(tmp_path, path, capsys)
    assert code != 0
    assert bad[f"{PUBLISHED} mnist/nll"] == "missing"
    assert "seed 1000 is a baseline seed" in json.dumps(found)


def lose(fresh):
    for file in fresh.records.glob("toy_bbb/*seed1001*"):
        file.unlink()


def skip(fresh):
    replace(fresh, "toy_bbb/*", outcome="skipped", reason="no framework", metrics={})


def of_another_plan(fresh):
    for old in chosen(fresh, "toy_bbb/*"):
        fresh.record_path(old).unlink()
        write(fresh, changed(old, key="0" * 64))


@pytest.mark.parametrize("fault", [lose, skip, of_another_plan])
def test_a_trained_run_without_numbers_is_not_green(tmp_path, fault, capsys):
    path, _, _, fresh = folders(tmp_path)
    fault(fresh)
    assert judged(tmp_path, path, capsys)[:2] == (INCOMPLETE, {TOY: "missing"})


@pytest.mark.parametrize("changes", [{"metrics": {"toy/rmse": None}}, LOST])
def test_what_is_not_finite_fails(tmp_path, changes, capsys):
    path, _, _, fresh = folders(tmp_path)
    change(fresh, "toy_bbb/*seed1001*", **changes)
    assert judged(tmp_path, path, capsys)[:2] == (FAILED, {TOY: "fail"})


def diverging(tmp_path, fresh_seeds="", baseline_seeds="8", n_baseline=9, **options):
    """Return a gate file, and folders in which a ninth baseline seed and fresh ones diverged."""
    path, gate, baseline, fresh = folders(tmp_path, **options)
    for seed in range(8, n_baseline):
        write(baseline, *planned_records(gate, gate.trained_run(TOY_TRAINED_RUN), [seed]))
    for store, seeds in ((baseline, baseline_seeds), (fresh, fresh_seeds)):
        if seeds:
            change(store, f"toy_bbb/*seed{seeds}__*", **LOST)
    return path


def test_a_seed_may_diverge_where_some_of_the_baseline_did(tmp_path, capsys):
    # 1 of 2 fresh seeds beside 1 of 9: of 11 seeds 2 diverged, both in the baseline with C(9,2)/C(11,2) = 36/55, so
    # that p = 19/55 = .345, adjusted it is more
    assert divergence_p(1, 9, 1, 2) == pytest.approx(19 / 55)
    code, bad, found = judged(tmp_path, diverging(tmp_path, fresh_seeds="1001"), capsys)
    assert (code, bad) == (0, {})
    row, counts = (row for row in found["checks"] if row["trained run"] == TOY_TRAINED_RUN)
    assert (row["text"], row["k"], row["m"]) == ("1 of 2 fresh seeds diverged", 8, 1)
    assert counts["text"].startswith("1 of 2 fresh seeds, 1 of 9 of the baseline, adjusted p ")


# 2 of 3 fresh seeds beside 1 of 50: of 53 seeds 3 diverged, of which the fresh ones have two or three with
# (C(3,2) 50 + 1) / C(53,3) = 151/23426 = .0064, times 6 p-values .039
TWO_OF_THREE = {"old": "seeds = 2", "new": "", "n_baseline": 50, "fresh_seeds": "100[01]"}


@pytest.mark.parametrize(
    ("options", "code", "bad", "words"),
    [
        ({"fresh_seeds": "100*"}, FAILED, {TOY: "fail", TOY_DIVERGED: "fail"}, "every fresh seed diverged"),
        (TWO_OF_THREE, FAILED, {TOY_DIVERGED: "fail"}, "adjusted p 0.039"),
        ({"baseline_seeds": "3", "n_baseline": 8}, INCOMPLETE, {TOY: "missing"}, "7 of 8 seeds"),
    ],
    ids=["all fresh seeds", "more than the baseline", "leaves too few"],
)
def test_what_diverged_seeds_of_the_baseline_excuse(tmp_path, options, code, bad, words, capsys):
    *said, found = judged(tmp_path, diverging(tmp_path, **options), capsys)
    assert said == [code, bad]
    assert words in json.dumps(found)


def test_diverged_seeds_of_the_baseline_excuse_no_absence(tmp_path, capsys):
    path = diverging(tmp_path)
    lose(Store(tmp_path / "fresh"))
    assert judged(tmp_path, path, capsys)[:2] == (INCOMPLETE, {TOY: "missing"})


@given(st.integers(0, 9), st.integers(0, 4))
def test_the_test_of_diverged_seeds_is_scipys(of_baseline, of_fresh):
    table = [[of_fresh, 4 - of_fresh], [of_baseline, 9 - of_baseline]]
    expected = stats.fisher_exact(table, alternative="greater").pvalue
    assert divergence_p(of_baseline, 9, of_fresh, 4) == pytest.approx(expected)


def test_false_alarms_are_as_rare_as_said():
    # 2,000 gates of 12 metrics, 8 baseline and 3 fresh seeds, unchanged code: standard error of .05 is .0049
    source, alarms = np.random.default_rng(3), 0
    for _ in range(2_000):
        runs = [Samples.of(row) for row in source.normal(size=(12, 11)).tolist()]
        found = {n: independent(Samples.of(one.values[:8]), Samples.of(one.values[8:])) for n, one in enumerate(runs)}
        alarms += any(p < 0.05 for p in holm_over(found).values())
    assert abs(alarms / 2_000 - 0.05) < 4 * 0.0049


def test_an_unreadable_record_leaves_a_hole_that_is_seen(tmp_path, capsys):
    path, _, _, fresh = folders(tmp_path)
    file = next(fresh.records.glob("toy_bbb/*seed1000*"))
    file.write_text("{")
    code, bad, found = judged(tmp_path, path, capsys)
    assert (code, bad) == (INCOMPLETE, {TOY: "missing"})
    assert any(str(file) in note for note in found["notes"])


def test_junit_and_summary(tmp_path, capsys):
    path, gate, _, _ = folders(tmp_path)
    fresh = fresh_folder(tmp_path / "fresh", gate, shift=0.2)
    lose(fresh)
    summary = tmp_path / "summary.md"
    summary.write_text("of an earlier step\n")
    files = ["--junit", str(tmp_path / "gate.xml"), "--summary", str(summary)]
    assert command(tmp_path, path, *files) == FAILED
    suite = ET.parse(tmp_path / "gate.xml").getroot()
    cases = suite.findall("testcase")
    assert int(suite.get("tests")) == len(cases)
    assert int(suite.get("failures")) == sum(case.find("failure") is not None for case in cases) == 2
    assert int(suite.get("errors")) == sum(case.find("error") is not None for case in cases) == 1
    text = summary.read_text()
    assert text.startswith("of an earlier step\n## gate NOT PASSED")
    assert "fail: mlp/published/common mnist/nll" in text
    assert "at most 5% of first runs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "place", "message"),
    [
        ("--junit", "file/x", "error: --junit: cannot write .*; free space or choose another folder"),
        ("--junit", "", "error: --junit .* is a folder; give a file"),
        ("--summary", "file/x", "error: cannot write .*; give another --summary"),
        ("--summary", "", "error: cannot write .*; give another --summary"),
    ],
)
def test_files_that_cannot_be_written_are_told_before_the_run(tmp_path, option, place, message, monkeypatch, capsys):
    def never(*_, **__):
        raise AssertionError("the fresh run began")

    monkeypatch.setattr("bench.cli.gate.run_fresh", never)
    (tmp_path / "file").write_text("")
    assert main(["gate", "--gate", str(gate_file(tmp_path)), option, str(tmp_path / place)]) == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert re.fullmatch(message, line)


def test_the_report_is_printed_before_files_are_written(tmp_path, monkeypatch, capsys):
    def full(path, content):
        del content
        raise StoreError(f"cannot write {path}: No space left on device; free space or choose another folder")

    path, _, _, _ = folders(tmp_path)
    monkeypatch.setattr("bench.cli.gate.write_atomically", full)
    assert command(tmp_path, path, "--junit", str(tmp_path / "gate.xml")) == USAGE
    answer = capsys.readouterr()
    assert "gate passed" in answer.out
    assert "No space left" in answer.err


def test_a_reason_with_control_characters(tmp_path, capsys):
    path, _, _, fresh = folders(tmp_path)
    reason = "\x1b[31mboom\x00 | <b> ]]> \ufffe\x9b end"
    replace(fresh, "toy_bbb/*seed1001__*", outcome="failed", reason=reason, metrics={})
    junit, summary = tmp_path / "new" / "gate.xml", tmp_path / "other" / "gate.md"  # whose folders are made
    assert command(tmp_path, path, "--junit", str(junit), "--summary", str(summary)) == INCOMPLETE
    cases = ET.parse(junit).getroot().findall("testcase")
    errors = [case.find("error").get("message") for case in cases if case.find("error") is not None]
    shown = r"\x1b[31mboom\x00 | <b> ]]> \ufffe\x9b end"
    assert any(shown in error for error in errors)
    for text in (capsys.readouterr().out, summary.read_text()):
        assert "boom" in text
        assert not {"\x1b", "\x00", "\x9b", "\ufffe"} & {*text}


def test_a_used_folder_is_not_taken_for_fresh(tmp_path, capsys):
    path, _, _, _ = folders(tmp_path)
    assert main(["gate", "--gate", str(path), "--results", str(tmp_path / "fresh")]) == USAGE
    assert "--fresh" in capsys.readouterr().err
