"""The gate on records with made-up numbers: unchanged code passes, everything else does not, and says why."""

import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from msgspec import structs

from bench.cli.main import main
from bench.cli.options import FAILED, INCOMPLETE, USAGE
from bench.core.canonical import plain
from bench.core.errors import StoreError
from bench.core.store import Store, read_record
from bench.judge.gate.config import load_gate
from bench.judge.gate.fresh import AGAIN
from tests.gate_folders import folders, fresh_folder, gate_file, numbers, planned_records, reference_folder, write
from tests.synthetic import changed

PUBLISHED = "mlp/published/common"


def command(tmp_path, path, *more):
    places = ["--reference", str(tmp_path / "reference"), "--fresh", str(tmp_path / "fresh")]
    return main(["gate", "--gate", str(path), *places, *more])


def judged(tmp_path, path, capsys):
    code = command(tmp_path, path, "--json")
    found = json.loads(capsys.readouterr().out)
    states = {f"{row['cell']} {row['metric']}": row["state"] for row in found["metrics"]}
    states |= {check["name"]: check["state"] for check in found["checks"]}
    return code, {name: state for name, state in states.items() if state not in ("pass", "not comparable")}, found


def change(store, pattern, **changes):
    """Change fields of the records whose files fit a pattern; a dict updates the field."""
    paths = sorted(store.records.glob(f"{pattern}.json"))
    assert paths
    for path in paths:
        old = read_record(path)
        fields = plain(old)
        new = {name: {**fields[name], **value} if isinstance(value, dict) else value for name, value in changes.items()}
        store.write(changed(old, **new))


def test_an_unchanged_rerun_passes(tmp_path, capsys):
    path, _, _, _ = folders(tmp_path)
    code, bad, found = judged(tmp_path, path, capsys)
    assert (code, bad) == (0, {})
    assert found["passed"]
    assert 0 < found["false_alarm_rate"] < 0.05
    for row in found["metrics"]:
        low, high = row["interval"]
        assert low < row["reference_mean"] < high
        assert row["smallest_shift"] > row["margin"]


def test_a_shift_beyond_interval_and_margin_fails(tmp_path, capsys):
    path, gate, _, _ = folders(tmp_path)
    fresh_folder(tmp_path / "fresh", gate, shift=0.2)  # 20 standard deviations, 10 margins
    code, bad, _ = judged(tmp_path, path, capsys)
    assert code == FAILED
    assert bad == {
        f"{PUBLISHED} mnist/nll": "fail",
        f"{PUBLISHED} last epoch/mnist/{{train}}/train_loss": "fail",
    }


def test_a_shift_within_the_margin_passes(tmp_path, capsys):
    path, gate, _, _ = folders(tmp_path)
    path.write_text(path.read_text().replace("margin = 0.02", "margin = 0.5"))
    fresh_folder(tmp_path / "fresh", gate, shift=0.2)
    code, bad, found = judged(tmp_path, path, capsys)
    assert (code, bad) == (0, {})
    assert any(row["text"] == "beyond the interval, within the margin" for row in found["metrics"])


def test_seed_noise_beyond_the_margin_passes(tmp_path, capsys):
    # margin 1e-9: every difference is beyond it, and only the interval protects
    text = gate_file(tmp_path).read_text().replace("margin = 0.02", "margin = 1e-9")
    folders(tmp_path)
    (tmp_path / "gate.toml").write_text(text)
    assert judged(tmp_path, tmp_path / "gate.toml", capsys)[:2] == (0, {})


@pytest.mark.parametrize("n_seeds", [0, 7])
def test_too_small_a_reference_is_not_green(tmp_path, n_seeds, capsys):
    path = gate_file(tmp_path)
    gate = load_gate(path)
    reference_folder(tmp_path / "reference", gate, n_seeds)
    fresh_folder(tmp_path / "fresh", gate)
    code, bad, _ = judged(tmp_path, path, capsys)
    assert code == INCOMPLETE
    assert bad[f"{PUBLISHED} mnist/nll"] == "missing"


def test_a_failed_reference_seed_is_not_dropped(tmp_path, capsys):
    path, gate, reference, _ = folders(tmp_path)
    for made in planned_records(gate, gate.cell(PUBLISHED), range(9))[8:]:
        write(reference, changed(made, outcome="failed", reason="out of memory"))
    code, bad, _ = judged(tmp_path, path, capsys)
    assert (code, bad[f"{PUBLISHED} mnist/nll"]) == (INCOMPLETE, "missing")


def test_a_reference_with_fresh_seeds_is_not_green(tmp_path, capsys):
    path, gate, reference, _ = folders(tmp_path)
    write(reference, planned_records(gate, gate.cell(PUBLISHED), [1000])[0])
    code, bad, found = judged(tmp_path, path, capsys)
    assert code != 0
    assert bad[f"{PUBLISHED} mnist/nll"] == "missing"
    assert "seed 1000 is in the reference" in json.dumps(found)


def lose(fresh):
    for file in fresh.records.glob("toy_bbb/*seed1001*"):
        file.unlink()


def skip(fresh):
    for file in sorted(fresh.records.glob("toy_bbb/*.json")):
        fresh.write(changed(read_record(file), outcome="skipped", reason="no framework", metrics={}))


WAIVER = '[[waiver]]\ncell = "toy_bbb/published/common"\nuntil = {}\nreason = "a known hole"\n'


@pytest.mark.parametrize("fault", [lose, skip])
@pytest.mark.parametrize(("until", "expected"), [(None, INCOMPLETE), ("2020-01-01", INCOMPLETE), ("2999-01-01", 0)])
def test_a_cell_without_numbers_needs_a_waiver_that_has_not_ended(tmp_path, fault, until, expected, capsys):
    path, _, _, fresh = folders(tmp_path, more="" if until is None else WAIVER.format(until))
    fault(fresh)
    code, bad, found = judged(tmp_path, path, capsys)
    state = "missing" if expected else "waived"
    assert code == expected
    assert bad == {TOY: state} | ({TOY_SEEDS: state} if fault is skip else {})
    text = json.dumps(found)
    assert ("its waiver ended on 2020-01-01" in text) == (until == "2020-01-01")
    assert ("a known hole" in text) == (until == "2999-01-01")


def test_a_waiver_excuses_no_shift(tmp_path, capsys):
    path, gate, _, _ = folders(tmp_path, more=WAIVER.format("2999-01-01"))
    fresh_folder(tmp_path / "fresh", gate, shift=5.0, shifted="toy_bbb/published/common")
    assert judged(tmp_path, path, capsys)[:2] == (FAILED, {"toy_bbb/published/common toy/rmse": "fail"})


def test_a_waiver_that_is_not_needed_is_told(tmp_path, capsys):
    path, _, _, _ = folders(tmp_path, more=WAIVER.format("2999-01-01"))
    _, _, found = judged(tmp_path, path, capsys)
    assert any("not needed any more" in note for note in found["notes"])


@pytest.mark.parametrize("changes", [{"metrics": {"toy/rmse": None}}, {"outcome": "diverged", "reason": "loss is nan"}])
def test_what_is_not_finite_fails(tmp_path, changes, capsys):
    path, _, _, fresh = folders(tmp_path)
    change(fresh, "toy_bbb/*seed1001*", **changes)
    assert judged(tmp_path, path, capsys)[:2] == (FAILED, {"toy_bbb/published/common toy/rmse": "fail"})


TOY_SEEDS = "seeds toy_bbb/published/common"
DIVERGED = {"outcome": "diverged", "reason": "loss is nan"}
DIVERGING = WAIVER.replace("until", "diverged = [8]\nuntil")  # the ninth seed of the reference
TOY, TOY_DIVERGED = "toy_bbb/published/common toy/rmse", "diverged seeds toy_bbb/published/common"


def diverging_folders(tmp_path, until="2999-01-01", fresh_seeds="", reference_seed=8):
    """Return a gate file whose waiver names the reference's ninth seed, and folders in which seeds diverged."""
    path, gate, reference, fresh = folders(tmp_path, more=DIVERGING.format(until))
    made = planned_records(gate, gate.cell("toy_bbb/published/common"), range(9))
    write(reference, made[8])
    change(reference, f"toy_bbb/*seed{reference_seed}*", **DIVERGED)
    if fresh_seeds:
        change(fresh, f"toy_bbb/{fresh_seeds}", **DIVERGED)
    return path


def test_a_seed_may_diverge_by_a_waiver(tmp_path, capsys):
    # 1 of 2 fresh seeds beside 1 of 9: of 11 seeds 2 diverged, both in the reference with C(9,2)/C(11,2) = 36/55, so
    # that p = 19/55 = .345, adjusted it is more
    code, bad, found = judged(tmp_path, diverging_folders(tmp_path, fresh_seeds="*seed1001*"), capsys)
    assert (code, bad) == (0, {TOY_DIVERGED: "waived"})
    (row,) = [row for row in found["metrics"] if row["metric"] == "toy/rmse"]
    assert (row["text"], row["k"], row["m"]) == ("1 of 2 fresh seeds diverged", 8, 1)
    (check,) = [check for check in found["checks"] if check["name"] == TOY_DIVERGED]
    assert check["text"].startswith("1 of 2 fresh seeds, 1 of 9 of the reference, adjusted p ")
    assert check["text"].endswith("(until 2999-01-01: a known hole)")
    # unchanged code lets both fresh seeds diverge in (1/9)^2 of the runs
    by_metrics = found["false_alarm_rate_by_metrics"]
    assert found["false_alarm_rate"] == pytest.approx(1 - (1 - by_metrics) * (1 - 1 / 81))


def test_a_waiver_lets_not_all_fresh_seeds_diverge(tmp_path, capsys):
    code, bad, _ = judged(tmp_path, diverging_folders(tmp_path, fresh_seeds="*seed100*"), capsys)
    assert (code, bad) == (FAILED, {TOY: "fail", TOY_DIVERGED: "fail", TOY_SEEDS: "missing"})


def test_more_fresh_seeds_that_diverge_than_the_reference_fail(tmp_path, capsys):
    # 2 of 3 fresh seeds beside 1 of 50: of 53 seeds 3 diverged, of which the fresh ones have two or three with
    # (C(3,2) 50 + 1) / C(53,3) = 151/23426 = .0064, times 6 p-values .039
    options = {"old": "seeds = 2", "new": "", "more": DIVERGING.format("2999-01-01")}
    path, gate, reference, fresh = folders(tmp_path, **options)
    for made in planned_records(gate, gate.cell("toy_bbb/published/common"), range(8, 50)):
        write(reference, made)
    change(reference, "toy_bbb/*seed8__*", **DIVERGED)
    change(fresh, "toy_bbb/*seed1000*", **DIVERGED)
    change(fresh, "toy_bbb/*seed1001*", **DIVERGED)
    code, bad, found = judged(tmp_path, path, capsys)
    assert (code, bad) == (FAILED, {TOY_DIVERGED: "fail"})
    assert any(check["text"].endswith("adjusted p 0.039") for check in found["checks"])


def test_a_waiver_of_diverged_seeds_that_has_ended(tmp_path, capsys):
    path = diverging_folders(tmp_path, until="2020-01-01", fresh_seeds="*seed1001*")
    code, bad, found = judged(tmp_path, path, capsys)
    assert (code, bad) == (INCOMPLETE, {TOY: "missing", TOY_DIVERGED: "missing"})
    assert "their waiver ended on 2020-01-01" in json.dumps(found)


def test_a_waiver_of_diverged_seeds_excuses_no_other_seed_of_the_reference(tmp_path, capsys):
    path = diverging_folders(tmp_path, reference_seed=3)
    assert judged(tmp_path, path, capsys)[:2] == (INCOMPLETE, {TOY: "missing"})


def test_a_waiver_of_diverged_seeds_excuses_no_absence(tmp_path, capsys):
    path = diverging_folders(tmp_path)
    lose(Store(tmp_path / "fresh"))
    assert judged(tmp_path, path, capsys)[:2] == (INCOMPLETE, {TOY: "missing"})


def test_a_diverged_reference_seed_leaves_too_few(tmp_path, capsys):
    path, _, reference, _ = folders(tmp_path, more=DIVERGING.format("2999-01-01").replace("[8]", "[3]"))
    change(reference, "toy_bbb/*seed3*", **DIVERGED)
    assert judged(tmp_path, path, capsys)[:2] == (INCOMPLETE, {TOY: "missing"})


def test_a_waiver_of_diverged_seeds_that_is_not_needed_is_told(tmp_path, capsys):
    path, _, _, _ = folders(tmp_path, more=DIVERGING.format("2999-01-01"))
    code, bad, found = judged(tmp_path, path, capsys)
    assert (code, bad) == (0, {})
    assert any("not needed any more" in note for note in found["notes"])


def test_two_seeds_that_agree(tmp_path, capsys):
    path, gate, _, fresh = folders(tmp_path)
    cell = gate.cell("toy_bbb/published/common")
    metrics, _ = numbers(cell, 1000)
    change(fresh, "toy_bbb/*seed1001*", metrics=metrics)
    assert judged(tmp_path, path, capsys)[:2] == (FAILED, {"seeds toy_bbb/published/common": "fail"})


def test_a_repeated_seed_that_differs_in_the_last_bit(tmp_path, capsys):
    path, gate, _, _ = folders(tmp_path)
    value = numbers(gate.cell(PUBLISHED), 0)[0]["mnist/nll"]
    change(Store(tmp_path / "fresh" / AGAIN), "mlp/*", metrics={"mnist/nll": float(np.nextafter(value, 1))})
    assert judged(tmp_path, path, capsys)[:2] == (FAILED, {f"repeat {PUBLISHED}": "fail"})


def test_a_seed_that_was_not_repeated(tmp_path, capsys):
    path, _, _, _ = folders(tmp_path)
    for file in (tmp_path / "fresh" / AGAIN).rglob("*.json"):
        file.unlink()
    assert judged(tmp_path, path, capsys)[:2] == (INCOMPLETE, {f"repeat {PUBLISHED}": "missing"})


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"metrics": {"mnist/nll": 0.123}}, "fail"),
        ({"metrics": {"mnist/nll": 0.123}, "provenance": {"cpu": "another"}}, "not comparable"),
        ({"metrics": {"mnist/nll": 0.123}, "provenance": {"source_sha256": "older"}}, "not comparable"),
        ({}, "pass"),
    ],
)
def test_the_stored_seed_comes_out_again_where_it_can(tmp_path, changes, state, capsys):
    path, _, reference, _ = folders(tmp_path)
    change(reference, "mlp/published__*seed0__*", **changes)
    _, _, found = judged(tmp_path, path, capsys)
    assert {c["state"] for c in found["checks"] if c["name"] == f"as stored {PUBLISHED}"} == {state}


def test_other_data_files(tmp_path, capsys):
    path, _, reference, _ = folders(tmp_path)
    change(reference, "mlp/corrected__*seed3__*", provenance={"data_sha256": {"mnist/train-images": "0" * 64}})
    code, bad, found = judged(tmp_path, path, capsys)
    assert (code, bad) == (FAILED, {"data": "fail"})
    assert "mnist/train-images" in json.dumps(found)


def test_other_training_rows(tmp_path, capsys):
    path, _, _, fresh = folders(tmp_path)
    change(fresh, "mlp/corrected__*seed1001__*", provenance={"train_sha256": "0" * 64})
    name = "rows learnt from, mlp/corrected/common"
    assert judged(tmp_path, path, capsys)[:2] == (FAILED, {name: "fail"})


def test_another_split_than_the_pinned_one(tmp_path, capsys):
    path, _, _, _ = folders(tmp_path)
    path.write_text(path.read_text().replace("test10k = ", f'test10k = "{"0" * 64}"\n"train50k/1" = '))
    code, bad, _ = judged(tmp_path, path, capsys)
    assert code == FAILED
    assert bad == {"split test10k": "fail", "split train50k/1": "fail"}


def test_other_rows_measured(tmp_path, capsys):
    path, gate, _, fresh = folders(tmp_path)
    made = planned_records(gate, gate.cell("mlp/corrected/common"), [1001])[0]
    fresh.write(made, {"mnist/label": np.zeros(40, dtype=np.int8)})
    _, bad, _ = judged(tmp_path, path, capsys)
    assert bad["rows measured"] == "fail"


def test_an_edited_recipe_is_another_plan(tmp_path, capsys):
    path, gate, reference, _ = folders(tmp_path)
    for made in planned_records(gate, gate.cell(PUBLISHED), range(8)):
        old = {**made.recipe_values, "learning_rate": 5e-4}
        reference.record_path(made).unlink()
        write(reference, changed(made, key="0" * 64, fit_key="0" * 64, recipe_values=old))
    code, bad, found = judged(tmp_path, path, capsys)
    assert (code, bad) == (FAILED, {f"plan {PUBLISHED}": "fail"})
    assert "learning_rate was 0.0005, is 0.001" in json.dumps(found)


def test_fresh_records_of_another_plan_do_not_count(tmp_path, capsys):
    path, gate, _, fresh = folders(tmp_path)
    for made in planned_records(gate, gate.cell("toy_bbb/published/common"), [1000, 1001]):
        fresh.record_path(made).unlink()
        write(fresh, changed(made, key="0" * 64))
    assert judged(tmp_path, path, capsys)[:2] == (INCOMPLETE, {TOY: "missing", TOY_SEEDS: "missing"})


ZEROS = {"fraction": 1, "network": "mean", "accuracy": 0.5, "nll": 2.302585}


@pytest.mark.parametrize(
    ("pattern", "changes", "check"),
    [
        ("uniform/*", {"metrics": {"mnist/nll": 2.31}}, "uniform"),
        ("mlp/corrected__*seed1000__*", {"arrays": {"pruning": {"rows": [ZEROS]}}}, "network of zeros"),
    ],
)
def test_closed_forms(tmp_path, pattern, changes, check, capsys):
    path, _, _, fresh = folders(tmp_path)
    change(fresh, pattern, **changes)
    assert judged(tmp_path, path, capsys)[:2] == (FAILED, {check: "fail"})


def replace(store, pattern, **changes):
    """Replace fields of the records whose files fit a pattern."""
    paths = sorted(store.records.glob(f"{pattern}.json"))
    assert paths
    for path in paths:
        store.write(changed(read_record(path), **changes))


def test_every_fresh_record_is_pruned_where_the_reference_is(tmp_path, capsys):
    path, _, _, fresh = folders(tmp_path)
    change(fresh, "mlp/corrected__*seed1000__*", arrays={"pruning": {"rows": []}})
    code, bad, found = judged(tmp_path, path, capsys)
    assert (code, bad) == (INCOMPLETE, {"network of zeros": "missing"})
    assert "1 fresh records without pruned network or labels, first mlp/corrected/common, seed 1000" in json.dumps(
        found
    )


def test_an_approach_that_cannot_be_pruned_need_not_be(tmp_path, capsys):
    path, _, reference, fresh = folders(tmp_path)
    for store in (reference, fresh):
        replace(store, "mlp/corrected__*", arrays={})
    code, bad, found = judged(tmp_path, path, capsys)
    assert (code, bad) == (0, {})
    assert "3 networks answer class 0" in json.dumps(found)


def test_a_blind_network_without_its_entropies(tmp_path, capsys):
    path, _, _, fresh = folders(tmp_path)
    replace(fresh, "uniform/*", metrics={"mnist/nll": float(np.log(10))})
    assert judged(tmp_path, path, capsys)[:2] == (INCOMPLETE, {"uniform": "missing"})


UNSEEN = {"rows measured": "missing", "network of zeros": "missing"}  # both look at the labels


def test_every_fresh_record_has_its_per_row_scores(tmp_path, capsys):
    path, _, _, fresh = folders(tmp_path)
    files = sorted(fresh.records.glob("mlp/*seed100*.npz"))
    for file in files[1:]:
        file.unlink()
    code, bad, found = judged(tmp_path, path, capsys)
    assert (len(files), code, bad) == (6, INCOMPLETE, UNSEEN)
    assert "5 of 6 fresh records without its per-row scores, first mlp/published/common, seed 1000" in json.dumps(found)


@pytest.mark.parametrize("labels", [None, np.zeros(0, dtype=np.int8)], ids=["no hash", "no rows"])
def test_per_row_scores_that_say_nothing(tmp_path, labels, capsys):
    path, _, _, fresh = folders(tmp_path)
    (file,) = fresh.records.glob("mlp/corrected__*seed1001__*.json")
    made = read_record(file)
    if labels is None:  # a file beside a record that does not vouch for it
        fresh.write(structs.replace(made, scores_sha256=None))
    else:
        fresh.write(made, {"mnist/label": labels})
    assert judged(tmp_path, path, capsys)[:2] == (INCOMPLETE, UNSEEN)


@pytest.mark.parametrize("hashes", [{}, {"mnist/train-images": "kept"}], ids=["none", "one"])
def test_every_fresh_record_names_its_data_files(tmp_path, hashes, capsys):
    path, _, _, fresh = folders(tmp_path)
    (file,) = fresh.records.glob("toy_bbb/*seed1001__*.json")
    old = read_record(file).provenance
    kept = {name: old.data_sha256[name] for name in hashes}
    replace(fresh, "toy_bbb/*seed1001__*", provenance=structs.replace(old, data_sha256=kept))
    code, bad, found = judged(tmp_path, path, capsys)
    assert (code, bad) == (INCOMPLETE, {"data": "missing"})
    assert "first toy_bbb/published/common, seed 1001" in json.dumps(found)


def test_a_cell_without_fresh_records_passes_no_check(tmp_path, capsys):
    path, _, _, fresh = folders(tmp_path)
    for file in fresh.records.glob("mlp/corrected__*seed100*"):
        file.unlink()
    command(tmp_path, path, "--junit", str(tmp_path / "gate.xml"))
    capsys.readouterr()
    code, bad, _ = judged(tmp_path, path, capsys)
    cell = "mlp/corrected/common"
    names = ["last epoch/mnist/{train}/train_loss", "mnist/nll"]
    wanted = {f"{cell} {name}" for name in names} | {f"rows learnt from, {cell}", f"seeds {cell}"}
    assert (code, bad) == (INCOMPLETE, dict.fromkeys(wanted, "missing"))
    cases = {case.get("name"): case for case in ET.parse(tmp_path / "gate.xml").getroot().findall("testcase")}
    assert cases[f"rows learnt from, {cell}"].find("error") is not None


def test_a_gate_without_fresh_records_passes_no_check_of_them(tmp_path, capsys):
    path = gate_file(tmp_path)
    reference_folder(tmp_path / "reference", load_gate(path))
    (tmp_path / "fresh").mkdir()
    code, _, found = judged(tmp_path, path, capsys)
    assert code == INCOMPLETE
    assert {row["state"] for row in found["metrics"]} == {"missing"}
    passed = {check["name"] for check in found["checks"] if check["state"] == "pass"}
    assert all(name.startswith(("plan ", "split ", "worked example")) for name in passed), passed


def test_a_worked_example_that_is_wrong(tmp_path, monkeypatch, capsys):
    import implementations.worked_example

    true = implementations.worked_example.worked_example()
    monkeypatch.setattr(implementations.worked_example, "worked_example", lambda: {**true, "w": 4.6})
    path, _, _, _ = folders(tmp_path)
    assert judged(tmp_path, path, capsys)[:2] == (FAILED, {"worked example": "fail"})


def test_an_unreadable_record_leaves_a_hole_that_is_seen(tmp_path, capsys):
    path, _, _, fresh = folders(tmp_path)
    file = next(fresh.records.glob("toy_bbb/*seed1000*"))
    file.write_text("{")
    code, bad, found = judged(tmp_path, path, capsys)
    assert (code, bad) == (INCOMPLETE, {"toy_bbb/published/common toy/rmse": "missing"})
    assert any(str(file) in note for note in found["notes"])


def test_junit_and_summary(tmp_path, capsys):
    path, gate, _, _ = folders(tmp_path, more=WAIVER.format("2999-01-01"))
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
    assert int(suite.get("errors")) == 0
    assert int(suite.get("skipped")) == sum(case.find("skipped") is not None for case in cases)
    assert any("waived" in case.find("skipped").get("message") for case in cases if case.find("skipped") is not None)
    text = summary.read_text()
    assert text.startswith("of an earlier step\n## gate NOT PASSED")
    assert "fail: mlp/published/common mnist/nll" in text
    assert "of first runs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "place", "message"),
    [
        ("--junit", "file/x", "error: --junit .*x: cannot write .*; free space or choose another folder"),
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


def test_folders_of_the_files_are_made(tmp_path, capsys):
    path, _, _, _ = folders(tmp_path)
    files = [tmp_path / "new" / "gate.xml", tmp_path / "other" / "gate.md"]
    assert command(tmp_path, path, "--junit", str(files[0]), "--summary", str(files[1])) == 0
    assert "gate passed" in capsys.readouterr().out
    assert all(file.stat().st_size for file in files)


def test_the_report_is_printed_before_files_are_written(tmp_path, monkeypatch, capsys):
    def full(path, content):
        del content
        raise StoreError(f"cannot write {path}: No space left on device; free space or choose another folder")

    path, _, _, _ = folders(tmp_path)
    monkeypatch.setattr("bench.cli.gate.write_atomically", full)
    assert command(tmp_path, path, "--junit", str(tmp_path / "gate.xml")) == USAGE
    told = capsys.readouterr()
    assert "gate passed" in told.out
    assert "No space left" in told.err


def test_a_reason_with_control_characters(tmp_path, capsys):
    path, _, _, fresh = folders(tmp_path)
    reason = "\x1b[31mboom\x00 | <b> ]]> \ud800\ufffe\x9b end"
    replace(fresh, "toy_bbb/*seed1001__*", outcome="failed", reason=reason, metrics={})
    files = ["--junit", str(tmp_path / "gate.xml"), "--summary", str(tmp_path / "gate.md")]
    assert command(tmp_path, path, *files) == INCOMPLETE
    cases = ET.parse(tmp_path / "gate.xml").getroot().findall("testcase")
    errors = [case.find("error").get("message") for case in cases if case.find("error") is not None]
    shown = "\ufffd[31mboom\ufffd | <b> ]]> \ufffd\ufffd\ufffd end"
    assert any(shown in error for error in errors)
    for text in (capsys.readouterr().out, (tmp_path / "gate.md").read_text()):
        assert "boom" in text
        assert not {"\x1b", "\x00", "\x9b", "\ufffe"} & {*text}


def test_a_used_folder_is_not_taken_for_fresh(tmp_path, capsys):
    path, _, _, _ = folders(tmp_path)
    assert main(["gate", "--gate", str(path), "--results", str(tmp_path / "fresh")]) == USAGE
    assert "--fresh" in capsys.readouterr().err


def effects_file(tmp_path):
    """Return a file of effects: two that nothing hides, one of no size."""
    effects = tmp_path / "planted.csv"
    effects.write_text(
        "fault,cell,metric,seeds,mean,made,commit\n"
        f"kl-scale,{PUBLISHED},mnist/nll,3,0.9,2026-01-01,abc\n"
        f"learning-rate,{PUBLISHED},mnist/nll,3,0.3,2026-01-01,abc\n"
        f"dropout-on,{PUBLISHED},mnist/nll,3,0.9,2026-01-01,abc\n"
        f"dropout-on,{PUBLISHED},not gated any more,3,0.9,2026-01-01,abc\n"
    )
    return effects


def test_a_gate_prints_how_surely_each_planted_fault_is_caught(tmp_path, capsys):
    path, _, _, _ = folders(tmp_path)
    effects = effects_file(tmp_path)
    assert command(tmp_path, path, "--effects", str(effects), "--json") == 0
    found = json.loads(capsys.readouterr().out)["planted_faults"]
    power = {row["fault"]: row["power"] for row in found["by_metrics"]}
    assert power["kl-scale"] > 0.999 > 0.05 > power["learning-rate"]
    assert found["by_exact_checks"] == {"wrong-split": "rows learnt from", "seed-ignored": "seeds"}
    assert found["not_measured"] == []
    summary = tmp_path / "summary.md"
    assert command(tmp_path, path, "--effects", str(effects), "--summary", str(summary)) == 0
    for text in (capsys.readouterr().out, summary.read_text()):
        (line,) = [line for line in text.splitlines() if "kl-scale" in line]
        assert "100.0%" in line
        assert "wrong-split: always caught, by the exact check 'rows learnt from'" in text


def test_a_gate_without_measured_effects_says_so(tmp_path, capsys):
    path, _, _, _ = folders(tmp_path)
    assert command(tmp_path, path, "--effects", str(tmp_path / "none.csv")) == 0
    assert "kl-scale: not measured yet; python -m benchmarks.power kl-scale --save does" in capsys.readouterr().out


def test_the_power_of_saved_effects(tmp_path, capsys):
    path, _, reference, _ = folders(tmp_path)
    effects = effects_file(tmp_path)
    places = ["--reference", str(reference.root), "--gate", str(path), "--effects", str(effects)]
    assert main(["gate", "--power", "--json", *places]) == 0
    found = {row["fault"]: row["power"] for row in json.loads(capsys.readouterr().out)}
    assert found["kl-scale"] > 0.999
    assert found["learning-rate"] < 0.05
    effects.write_text(effects.read_text().replace("kl-scale", "kl-scales"))
    assert main(["gate", "--power", *places]) == USAGE
    assert "row 2" in capsys.readouterr().err
