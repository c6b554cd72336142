"""What a run shows: bars on a terminal, plain lines in a pipe, nothing with --quiet; and its last lines."""

import argparse
import dataclasses
import io
import re
import sys
from pathlib import Path

import pytest
from msgspec import structs

from bench.cli.ending import ending
from bench.cli.main import main
from bench.core.project import RESULTS
from bench.core.store import Store
from bench.plan.costs import CostEstimate
from bench.plan.trained_runs import TrainedRun
from bench.run import progress
from bench.run.events import EpochEnded, Noted, Recorded, Started, Tick, Waiting, Warned, recorded
from bench.run.runner import Result
from tests.run.toys import chosen
from tests.synthetic import record

STYLES = re.compile(r"\x1b\[[0-9;]*m")


def trained_run(seed: int) -> TrainedRun:
    (found,) = chosen("mlp", seeds=(seed,))
    return found


def epoch(number: int, of: int = 10) -> EpochEnded:
    return EpochEnded(number, of, {"mnist/train60k/train_loss": 0.25}, 1)


@pytest.fixture
def in_xterm(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def clock(in_xterm, monkeypatch):
    """The time, as a list of one number that the test changes."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


class Terminal(io.StringIO):
    """A stream in memory that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def begun(groups, done=0, seconds=None, **options):
    """Return a Progress that has begun, and its stream; `seconds`: estimates of training and measuring a run."""
    out = options.setdefault("stream", io.StringIO())
    costs = {} if seconds is None else {made.key: CostEstimate(*seconds, "") for group in groups for made in group}
    shown = progress.Progress(costs, **options)
    shown.begin(groups, done)
    return shown, out


def test_a_pipe_sometimes_gets_a_line_with_trained_run_epoch_loss_and_time_left(clock):
    first, second = trained_run(0), trained_run(1)
    # 60 s of training and 4 s of measuring a fit: 2 x 64 s = 128 s, which are 2 minutes.
    shown, out = begun([[first], [second]], done=1, seconds=(60, 4))
    shown.event([first], Started(first.key))
    clock[0] += 16
    shown.event([first], epoch(6))
    shown.event([first], epoch(7))
    clock[0] += 60
    shown.event([first], Tick())
    shown.event([first], Recorded(first.key, "failed", "no memory"))
    shown.event([second], Warned("the disk is full"))
    for each in (first, second):
        shown.event([each], Noted("loops are compiled"))
    shown.finish()
    assert out.getvalue().splitlines() == [
        "3 trained runs, 1 done already, 2 to do; expected 2 min",
        # 4 epochs of 16 s, 4 s of measuring, and 64 s of the other fit: 64 + 4 + 64 = 132 s
        "[2/3] mlp published x common, seed 0: epoch 6/10, training 64 s more, train_loss 0.25; 2 min left in total",
        # The seventh epoch took no time, so that none is left of this training; its 4 s of measuring are over.
        "[2/3] mlp published x common, seed 0: epoch 7/10, training 0 s more, train_loss 0.25; 64 s left in total",
        "[2/3] mlp published x common, seed 0: failed: no memory",
        "warning: the disk is full",
        "loops are compiled",
    ]


def test_a_done_trained_run_has_its_time_and_result_and_no_line_comes_twice(clock):
    made = trained_run(0)
    shown, out = begun([[made]], seconds=(60, 4))
    shown.event([made], Started(made.key))
    for _ in range(3):
        clock[0] += 16
        shown.event([made], Tick())
    shown.event([made], Recorded(made.key, "done", "", result="accuracy 0.9800"))
    assert out.getvalue().splitlines()[1:] == [
        "[1/1] mlp published x common, seed 0: starting; 48 s left in total",
        "[1/1] mlp published x common, seed 0: done in 48 s, accuracy 0.9800",
    ]


def test_the_estimate_learns_from_what_finished_fits_took(clock):
    made = [trained_run(seed) for seed in range(3)]
    # 64 s are expected of each fit, and the first takes 128: so each of the others, not begun, is expected to take 128
    shown, out = begun([[one] for one in made], seconds=(60, 4))
    shown.event([made[0]], Started(made[0].key))
    clock[0] += 128
    shown.event([made[0]], Recorded(made[0].key, "done", ""))
    # the second has begun: until its first epoch, its estimate counts: 64 + 128 s
    clock[0] += 16
    shown.event([made[1]], Started(made[1].key))
    assert out.getvalue().splitlines()[-1].endswith("seed 1: starting; 3 min left in total")


def test_the_result_of_short_epochs_is_not_shown():
    metrics = {"mnist/test10k/nll": 0.1, "mnist/test10k/accuracy": 0.98}
    assert recorded("k", record("mlp", metrics=metrics)).result == "accuracy 0.9800"
    assert recorded("k", record("mlp", metrics=metrics, profile="smoke")).result == ""
    assert recorded("k", record("toy_mlp", metrics={"toy/rmse": 2.0})).result == "rmse 2.0000"


def test_without_estimates_the_time_is_not_guessed(clock):
    shown, out = begun([[trained_run(0)]])
    shown.event([trained_run(0)], Started(trained_run(0).key))
    clock[0] += 20
    shown.event([trained_run(0)], EpochEnded(1, 2, {"a/loss": None}, 8))
    said = "8 seeds together, epoch 1/2, training 20 s more, loss not finite; no estimate yet"
    first = "1 trained run, 0 done already, 1 to do; no estimate yet"
    assert out.getvalue().splitlines() == [first, f"[1/1] mlp published x common, seed 0: {said}"]


@pytest.mark.parametrize(("n", "words"), [(3, "expected 60 s"), (1, "expected 40 s")])
def test_fits_that_will_run_at_once_share_the_expected_time(n, words, clock):
    """Three fits of 40 s, two at a time: 60 s. One fit takes 40 s, however many could run."""
    _, out = begun([[trained_run(seed)] for seed in range(n)], seconds=(40, 0), at_once=2)
    assert out.getvalue().endswith(f"{words}\n")


def test_fits_that_run_at_once_share_the_time_left_and_a_waiting_one_does_not_count(clock):
    trained_runs = [trained_run(seed) for seed in range(3)]
    shown, out = begun([[made] for made in trained_runs], seconds=(60, 0))
    for made in trained_runs[:2]:
        shown.event([made], Started(made.key))
    shown.event([trained_runs[2]], Waiting())
    clock[0] += 20
    shown.event([trained_runs[0]], Tick())
    # 3 x 60 s, less 20 s of each (also of the waiting one, on which another process works), by two at once: 60 s.
    lines = out.getvalue().splitlines()[1:]
    assert [line.split(": ")[1] for line in lines] == [
        "starting; 60 s left in total",
        "starting; 60 s left in total",
        "another process works on it; 60 s left in total",
    ]


def test_a_terminal_has_bars_that_disappear_and_lines_that_stay(clock):
    made = trained_run(0)
    shown, out = begun([[made]], stream=Terminal())
    shown.event([made], epoch(1))
    shown.event([made], Recorded(made.key, "failed", "no memory"))
    shown.finish()
    shown.finish()
    text = out.getvalue()
    assert text.startswith("1 trained run, 0 done already")
    assert "[1/1] mlp published x common, seed 0: \x1b[31mfailed\x1b[0m: no memory\n" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")  # the cursor is back
    assert text.endswith("\x1b[2K")  # and the bars are gone


@pytest.mark.parametrize("terminal", [True, False])
def test_control_characters_of_a_reason_do_not_reach_the_terminal(terminal, clock, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    made = trained_run(0)
    shown, out = begun([[made]], stream=Terminal() if terminal else io.StringIO())
    shown.event([made], Warned("full\x1b[2J"))
    shown.event([made], Recorded(made.key, "failed", "\x1b]0;title\x07 and\na second line"))
    shown.finish()
    assert r"failed: \x1b]0;title\x07 and a second line" in out.getvalue()
    assert r"warning: full\x1b[2J" in out.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_nothing_at_all_is_shown_when_quiet(terminal, clock):
    made = trained_run(0)
    shown, out = begun([[made]], quiet=True, stream=Terminal() if terminal else io.StringIO())
    clock[0] += 20
    shown.event([made], epoch(1))
    shown.event([made], Recorded(made.key, "done", ""))
    shown.finish()
    assert out.getvalue() == ""


@pytest.mark.parametrize(
    ("setting", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"NO_COLOR": ""}, True)],
)
def test_colours_are_for_terminals_that_want_them(setting, coloured, clock, monkeypatch):
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    for stream, escapes in ((Terminal(), coloured), (io.StringIO(), False)):
        progress.console_of(stream).print(progress.outcome_text("failed"))
        assert stream.getvalue() == ("\x1b[31mfailed\x1b[0m\n" if escapes else "failed\n")


# the end of a run


def arguments(**changes) -> argparse.Namespace:
    usual = {
        "approaches": ["mlp"],
        "all": False,
        "group": None,
        "recipe": [],
        "protocol": [],
        "seeds": (0,),
        "apart": False,
        "results": Path("results"),
        "profile": "full",
        "device": "cpu",
        "precision": "float32",
        "approach_path": None,
    }
    return argparse.Namespace(**{**usual, **changes})


def test_the_end_says_what_comes_next():
    results = [Result(trained_run(0), "done", "", was_there=True), Result(trained_run(1), "done", "", was_there=False)]
    lines = ending(results, 100, arguments(results=Path("my results")))
    assert [line.plain for line in lines] == [
        "2 of 2 trained runs done, 1 of them in this call, in 2 min",
        "next: python -m bench verdict --results 'my results'",
    ]


def test_the_next_command_has_the_seed_and_the_approach_path():
    """The seed has a comma: `--seeds 4` would mean seeds 0 to 3."""
    failed = Result(trained_run(4), "failed", "it raised", was_there=False)
    lines = ending([failed], 1, arguments(seeds=(4,), approach_path="examples"))
    assert lines[-2].plain == "next: python -m bench status mlp --seeds 4, --approach-path examples lists all"


def test_the_end_says_whether_the_end_results_are_like_the_shipped_ones(tmp_path):
    shipped = [one for one in Store(RESULTS).records_of(["mlp"])[0] if one.profile == "full"]
    mine = {one.seed: one for one in shipped if one.combination == ("mlp", "published", "published")}
    Store(tmp_path).write(mine[3])
    done = [Result(trained_run(3), "done", "", was_there=False)]
    lines = [line.plain for line in ending(done, 1, arguments(results=tmp_path))]
    assert lines[1] == "2 of 2 end results like the shipped seeds"
    assert lines[2] == f"next: python -m bench verdict --results {tmp_path}"
    wrong = {key: 0.5 * value for key, value in mine[4].metrics.items() if value is not None}
    epochs = [structs.replace(one, metrics=dict.fromkeys(one.metrics, 0.5)) for one in mine[4].epochs]
    Store(tmp_path).write(structs.replace(mine[4], metrics=wrong, epochs=epochs))
    (told,) = [line.plain for line in ending(done, 1, arguments(results=tmp_path))[1:-1]]
    assert told.startswith("0 of 2 end results like the shipped seeds; unlike: accuracy, no Bayes (feldman2018)")


@pytest.mark.parametrize(
    ("approach", "shown"),
    [("mlp", "verdict"), ("blundell_bbb", "verdict blundell2015"), ("deep_ensemble", "table methods")],
)
def test_the_end_names_the_command_that_shows_the_numbers(approach, shown):
    done = Result(dataclasses.replace(trained_run(0), approach=approach), "done", "", was_there=False)
    assert ending([done], 1, arguments())[-1].plain == f"next: python -m bench {shown}"


def test_the_end_groups_failures_and_names_the_command_that_lists_them():
    results = [Result(trained_run(0), "done", "", was_there=False)]
    results += [
        Result(trained_run(seed), "failed", "no memory left on this machine", was_there=False) for seed in (1, 2)
    ]
    results += [Result(trained_run(3), "diverged", "loss is nan", was_there=True)]
    results += [Result(trained_run(seed), "skipped", f"reason {seed}", was_there=False) for seed in (4, 5)]
    chosen = arguments(all=True, seeds=(0, 1, 2, 3, 4, 5), recipe=["corrected"], profile="smoke")
    assert [line.plain for line in ending(results, 3, chosen)] == [
        "failed: mlp published x common, seed 1 and 1 more: no memory left on this machine",
        "diverged: mlp published x common, seed 3: loss is nan",
        "2 more trained runs ended for 2 other reasons",
        "1 of 6 trained runs done, 1 of them in this call, in 3 s",
        "next: python -m bench status --all --recipe corrected --seeds 6 --profile smoke lists all",
        "run the same command again to retry the trained runs with outcome failed or skipped",
    ]


def test_a_real_run_on_a_terminal_ends_within_its_screen(tmp_path, in_xterm, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    how = ["--profile", "smoke", "--executor", "inline", "--threads", "1", "--results", str(tmp_path)]
    assert main(["run", "uniform", "toy_mlp", *how]) == 0
    text = screen.getvalue()
    assert len(re.findall(r": \x1b\[32mdone\x1b\[0m in \d+ s\n", text)) == 3
    assert re.search(r"\nwiring fine: 3 of 3, in [^\n]+\n$", STYLES.sub("", text))
    assert "ccuracy" not in text  # after two steps, accuracy says nothing
