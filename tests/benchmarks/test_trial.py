"""Tools of benchmarks: the trial of the rule of verdicts, and pieces that need a GPU, of which done ones stay done."""

import json
import sys
import time

import numpy as np
import pytest
from msgspec import structs

from bench.cli import INCOMPLETE
from bench.judge.alternatives.named import CORRECTED
from bench.judge.claims import print_interval
from bench.judge.comparison import CANNOT_TELL, CONFIRMED, CONTRADICTED
from benchmarks.gpu import __main__ as day
from benchmarks.gpu.__main__ import Piece, pieces
from benchmarks.trial import TRUE, as_printed, main, trial_table, trials
from tests.judge.claims import BY_ID, Z, results
from tests.synthetic import record

FORCED = BY_ID["chopra2018.random_module.forced_accuracy"]  # truncated to .01, margin .02


def seeds(values, recipe="published", protocol="published", first=0, key="mnist/test10k/accuracy", **changes):
    return [
        record("pyro_random_module", recipe, protocol, seed=first + place, metrics={key: value}, **changes)
        for place, value in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("kind", "precision", "value", "printed"),
    [
        ("truncated", 0.01, 0.8979, "0.89"),
        ("rounded", 0.01, 0.8979, "0.90"),
        ("rounded", 0.0001, 0.14461, "0.1446"),
        ("rounded", 1.0, -13.6, "-14"),
        ("exact", 0.0001, 0.97754, "0.97754"),
        ("count", 0.0001, 0.1271, "0.1271"),
    ],
)
def test_a_report_has_the_digits_that_the_document_prints(kind, precision, value, printed):
    claim = as_printed(structs.replace(FORCED, precision_kind=kind, precision=precision), value)
    assert float(claim.printed) == pytest.approx(float(printed))
    assert claim.value == float(claim.printed)
    assert value in print_interval(claim)


def test_true_reports_agree_and_those_of_a_recipe_far_away_differ():
    # ten seeds .890 +- .003 against ten of .962: 24 standard deviations
    source = np.random.default_rng(1)
    ours, theirs = (0.89 + 0.003 * source.normal(size=10)).tolist(), (0.962 + 0.003 * source.normal(size=10)).tolist()
    true, false = trials(results(seeds(ours), seeds(theirs, "corrected")), [FORCED])
    assert (true.kind, true.protocol, len(true.reports), true.n_told) == (TRUE, "published", 10, 0)
    assert true.count(CONFIRMED) + true.count(CANNOT_TELL) == 10
    assert (false.kind, false.truth, len(false.reports)) == (CORRECTED, "pyro_random_module corrected", 10)
    assert (false.n_told, false.count(CONTRADICTED)) == (10, 10)


def test_the_seed_of_the_same_number_does_not_judge_its_own_report():
    # Five seeds lie close together, a sixth is far away. Its report differs if five judge it, but not if all six do.
    values = [0.8951 + 0.001 * z for z in Z]
    claim = structs.replace(FORCED, precision_kind="exact")
    (true,) = trials(results(seeds([*values, 0.93])), [claim])
    assert true.reports[5] == (CONTRADICTED,)
    # a false report of seed 5 is also judged by the five others
    _, false = trials(results(seeds([*values, 0.93]), seeds([0.93], "corrected", first=5)), [claim])
    assert false.reports == ((CONTRADICTED,),)


def test_five_seeds_are_too_few_for_true_reports_and_just_enough_for_false_ones():
    (found,) = trials(results(seeds([0.89 + 0.003 * z for z in Z]), seeds([0.96], "corrected")), [FORCED])
    assert (found.kind, found.n_told) == (CORRECTED, 1)


def test_the_protocol_that_measured_more_seeds_of_an_alternative_is_taken():
    ours = seeds([0.89 + 0.003 * z for z in Z])
    common = {"protocol": "common", "key": "mnist/accuracy"}
    both = [*seeds([0.9 + 0.003 * z for z in Z], **common), *seeds([0.96, 0.961], "corrected", **common)]
    (found,) = trials(results(ours, both), [FORCED])
    assert (found.protocol, len(found.reports)) == ("common", 2)
    (found,) = trials(results(ours, both, seeds([0.96, 0.961], "corrected")), [FORCED])
    assert found.protocol == "published"


def test_a_repeated_number_is_one_claim_and_another_run_of_the_document_none():
    again = BY_ID["chopra2018.prose.forced_accuracy"]
    other = structs.replace(FORCED, id="x", source="chopra2018-first-run")
    (found,) = trials(results(seeds([0.89 + 0.003 * z for z in Z]), seeds([0.96], "corrected")), [FORCED, again, other])
    assert [len(outcomes) for outcomes in found.reports] == [1]


def test_the_table_counts_reports_and_claims():
    ours, theirs = [0.89 + 0.003 * z for z in (*Z, 0.1)], [0.96, 0.961]
    found = results(seeds(ours), seeds(theirs, "corrected"))
    table = trial_table(trials(found, [FORCED]))
    first, second = table.texts()
    assert first[:3] == ["pyro_random_module", "true: published", "0/6"]
    assert second[1:] == ["corrected", "2/2", "2", "0", "0"]
    assert table.own_notes == ("In all, told apart: true 0 of 6; corrected 2 of 2.",)


def test_the_command_prints_markdown_and_says_if_nothing_can_be_judged(tmp_path, capsys):
    assert main([str(tmp_path)]) == 0
    assert "- No approach has enough seeds." in capsys.readouterr().out.splitlines()


def code(text):
    return (sys.executable, "-c", text)


def call(monkeypatch, tmp_path, made, *words):
    monkeypatch.setattr(day, "pieces", lambda device, results, small: made)
    monkeypatch.setattr(sys, "argv", ["gpu", "--device", "cpu", "--results", str(tmp_path), *words])
    return day.main()


def test_a_piece_that_is_done_is_not_done_again_and_one_that_failed_is(monkeypatch, tmp_path, capsys):
    made = [
        Piece("a/1", "good", code(f"open({str(tmp_path / 'ran')!r}, 'a').write('x')")),
        Piece("a/2", "bad", code("import sys; print('why'); sys.exit(3)")),
    ]
    assert call(monkeypatch, tmp_path, made) == INCOMPLETE
    assert call(monkeypatch, tmp_path, made) == INCOMPLETE
    assert (tmp_path / "ran").read_text() == "x"
    assert (tmp_path / "gpu" / "a-2.log").read_text() == "why\nwhy\n"
    assert "not done: a/2; the same command goes on with them" in capsys.readouterr().err
    assert call(monkeypatch, tmp_path, made, "a/1") == 0


def test_a_piece_that_is_out_of_time_is_told_to_stop_and_goes_on_later(monkeypatch, tmp_path):
    started, file = tmp_path / "started", tmp_path / "checkpoint"
    text = (
        "import signal, sys, pathlib\n"
        f"started, file = pathlib.Path({str(started)!r}), pathlib.Path({str(file)!r})\n"
        "if file.exists(): sys.exit(0)\n"
        "signal.signal(signal.SIGINT, lambda *_: (file.write_text('half'), sys.exit(130)))\n"
        "started.touch()\n"
        "signal.pause()"
    )
    made = [Piece("slow/1", "waits", code(text))]
    wait, over = day.subprocess.Popen.wait, []

    def ends_when_it_waits(process, timeout=None):
        if over:
            return wait(process)
        over.append(timeout)
        while not started.exists():
            time.sleep(0.01)
        raise day.subprocess.TimeoutExpired(process.args, timeout)

    monkeypatch.setattr(day.subprocess.Popen, "wait", ends_when_it_waits)
    assert call(monkeypatch, tmp_path, made) == INCOMPLETE
    assert json.loads((tmp_path / "gpu" / "pieces-cpu.json").read_text())["slow/1"].get("exit_code") is None
    assert file.read_text() == "half"
    assert call(monkeypatch, tmp_path, made) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [(["nope"], "unknown piece 'nope'"), (["--device", "tpu"], "known: cpu, cuda"), (["--minutes", "x"], "x")],
)
def test_what_is_wrong_ends_in_one_line(words, message, monkeypatch, tmp_path, capsys):
    assert call(monkeypatch, tmp_path, pieces("cpu", tmp_path, small=True), *words) == 2
    assert message in capsys.readouterr().err


def test_a_damaged_file_of_states_says_what_to_do(monkeypatch, tmp_path, capsys):
    (tmp_path / "gpu").mkdir()
    (tmp_path / "gpu" / "pieces-cpu.json").write_text('{"a/1": 7}')
    assert call(monkeypatch, tmp_path, [Piece("a/1", "good", code(""))]) == 2
    assert "remove it, and every piece runs again" in capsys.readouterr().err
