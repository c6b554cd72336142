"""The command `status`."""

import json

import pytest

from bench.cli import INCOMPLETE
from bench.cli.main import main
from bench.cli.plan import LONGEST_LINE, MOST_PRINTED
from bench.core.reasons import message_reason
from bench.core.store import Store
from bench.plan.trained_runs import Selection, trained_runs
from bench.run.recording import empty_record


def test_status_says_what_is_missing_or_stale(tmp_path, capsys, monkeypatch):
    choice = ["uniform", "--profile", "smoke", "--results", str(tmp_path)]

    def status():
        code = main(["status", *choice, "--json"])
        return code, [row["state"] for row in json.loads(capsys.readouterr().out)]

    assert status() == (INCOMPLETE, ["missing"])
    main(["run", *choice, "--executor", "inline", "--quiet"])
    capsys.readouterr()
    assert status() == (0, ["done"])
    monkeypatch.setattr("bench.cli.plan.is_stale", lambda record: True)
    assert status() == (INCOMPLETE, ["done, made at other versions"])


def test_status_shows_what_a_failed_trained_run_printed_escaped_and_bounded(tmp_path, capsys):
    """The trained run printed 100 lines: long ones, one that would clear the screen, and a very long one."""
    place = ["status", "uniform", "--profile", "smoke", "--results", str(tmp_path)]
    (trained_run,) = trained_runs(Selection(approaches=("uniform",), profile="smoke"))
    printed = [f"line {number}: {'y' * 2 * LONGEST_LINE}" for number in range(98)]
    detail = "\n".join([*printed, "\x1b[2J\u202etxt", "x" * 50_000])
    Store(tmp_path).write(empty_record(trained_run, "failed", message_reason("text", "it fell"), 1, detail))
    assert main(place) == INCOMPLETE
    shown = capsys.readouterr().out
    assert "traceback and output, last 8 of " in shown
    assert r"  \x1b[2J\u202etxt" in shown
    assert "line 97" in shown
    assert "line 80" not in shown
    assert shown.count("x") < LONGEST_LINE + 100  # the others are letters of words and of the folder's name
    assert main([*place, "--json"]) == INCOMPLETE
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["detail"][-3:], len(row["detail"])) == ("xxx", MOST_PRINTED)


@pytest.mark.parametrize(("wide", "named"), [((), 3), (("--wide",), 5)])
def test_status_shows_the_ends_of_few_failures_unless_all_are_asked_for(tmp_path, capsys, monkeypatch, wide, named):
    monkeypatch.setenv("COLUMNS", "120")  # which --wide changes
    chosen = trained_runs(Selection(approaches=("uniform",), profile="smoke", seeds=tuple(range(5))))
    for trained_run in chosen:
        text = f"the words of seed {trained_run.seed}"
        Store(tmp_path).write(empty_record(trained_run, "failed", message_reason("text", "it fell"), 1, text))
    main(["status", "uniform", "--seeds", "5", "--profile", "smoke", "--results", str(tmp_path), *wide])
    shown = capsys.readouterr().out
    assert shown.count("the words of seed") == named
    assert ("2 more trained runs failed; --wide shows" in shown) == (named == 3)
