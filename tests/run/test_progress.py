"""What a run shows: redrawn lines on a terminal, plain ones in a pipe; nothing where it is to be quiet; the end."""

import argparse
import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from bench.cli.ending import ending
from bench.plan.cells import Cell
from bench.plan.costs import CostEstimate
from bench.run import progress
from bench.run.runner import Result


def cell(seed: int, protocol: str = "common", fit: str | None = None) -> Cell:
    return Cell(
        approach="mlp",
        recipe="published",
        protocol=protocol,
        profile="full",
        seed=seed,
        device="cpu",
        precision="float32",
        split="train60k",
        fit_key=fit or f"fit{seed}",
        key=f"{protocol}{seed}",
        values={},
        corrections=(),
    )


def epoch(number: int, of: int = 10) -> dict:
    return {"kind": "epoch", "epoch": number, "of": of, "trace": {"mnist/train60k/train_loss": 0.25}, "seeds": 1}


def record(made: Cell, outcome: str = "done", reason: str = "") -> dict:
    return {"kind": "record", "key": made.key, "outcome": outcome, "reason": reason}


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests move by hand."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


class Terminal(io.StringIO):
    """A stream that is a terminal of 80 x 24, with no file behind it."""

    def isatty(self) -> bool:
        return True


def screen(text: str, columns: int = 80) -> list[str]:
    """Return the lines that a terminal shows after `text`: the few control sequences that Progress may use."""
    lines, row, column = [""], 0, 0
    for part in re.findall(r"\x1b\[\d*[A-Za-z]|\r|\n|[^\x1b\r\n]", text):
        if part == "\r":
            column = 0
        elif part == "\n":
            row, column = row + 1, 0
        elif part.startswith("\x1b"):
            count, kind = int(part[2:-1] or 0), part[-1]
            assert kind in "AKJm", f"{part!r} is none of the sequences that are allowed"
            if kind == "A":
                row -= count
                assert row >= 0
            elif kind in "KJ":
                lines[row] = lines[row][:column]
                del lines[row + 1 if kind == "J" else len(lines) :]
        else:
            assert column < columns, "a redrawn line must not wrap"
            lines[row] = lines[row][:column].ljust(column) + part + lines[row][column + 1 :]
            column += 1
        lines += [""] * (row + 1 - len(lines))
    return lines


def test_a_terminal_shows_cell_epoch_loss_and_what_remains_and_lines_that_stay(clock):
    first, second = cell(0), cell(1)
    out = Terminal()
    # 10 epochs of 6 s and 4 s of measuring a fit: 2 x 64 s = 128 s, which are 2 minutes.
    shown = progress.Progress({made.key: CostEstimate(60, 4, "") for made in (first, second)}, stream=out)
    shown.begin([[first], [second]], done=1)
    assert screen(out.getvalue())[0] == "3 cells, 1 done already, 2 to do; expected 2 min"
    clock[0] += 1
    shown.event([first], {"kind": "start", "key": first.key})
    clock[0] += 5
    shown.event([first], epoch(1))
    # 9 epochs of 5 s, 4 s of measuring, and 64 s of the other fit: 45 + 4 + 64 = 113 s.
    assert screen(out.getvalue())[1:] == [
        "mlp published x common, seed 0",
        "    epoch 1/10, train_loss 0.25, training 45 s more",
        "[1/3], 6 s so far, 2 min left",
        "",
    ]
    clock[0] += 60
    shown.event([first], {"kind": "tick"})
    # Nothing has come for a minute: the 49 s of this fit are over, the other one's 64 s are left.
    assert screen(out.getvalue())[3] == "[1/3], 66 s so far, 64 s left"
    shown.event([first], record(first, "failed", "no memory"))
    shown.event([second], {"kind": "start", "key": second.key})
    clock[0] += 1
    shown.event([second], {"kind": "measure", "key": second.key})
    assert screen(out.getvalue())[1:] == [
        "[2/3] mlp published x common, seed 0: failed: no memory",
        "mlp published x common, seed 1",
        "    measuring",
        "[2/3], 1 not done, 67 s so far, 63 s left",
        "",
    ]
    shown.event([second], record(second))
    shown.finish()
    shown.finish()
    assert screen(out.getvalue())[2:] == ["[3/3] mlp published x common, seed 1: done", ""]


def test_fits_that_run_at_once_are_all_shown_and_share_what_remains(clock):
    cells = [cell(seed) for seed in range(3)]
    out = Terminal()
    shown = progress.Progress({made.key: CostEstimate(60, 0, "") for made in cells}, stream=out)
    shown.begin([[made] for made in cells], done=0)
    for made in cells[:2]:
        clock[0] += 1
        shown.event([made], {"kind": "start", "key": made.key})
    lines = screen(out.getvalue())
    assert [line for line in lines if line.startswith("mlp")] == [made.title() for made in cells[:2]]
    # 3 x 60 s less the second that the first has worked, by two at once: 89.5 s.
    assert lines[-2].endswith("90 s left")
    shown.event([cells[2]], {"kind": "waiting"})
    clock[0] += 1
    shown.event([cells[2]], {"kind": "waiting"})
    assert "    another process works on it" in screen(out.getvalue())


def test_what_is_expected_of_fits_that_will_run_at_once(clock):
    """3 x 40 s in room for two: 60 s; of one fit alone, no room makes it shorter."""
    cells = [cell(seed) for seed in range(3)]
    for chosen, words in ((cells, "expected 60 s"), (cells[:1], "expected 40 s")):
        out = Terminal()
        shown = progress.Progress({made.key: CostEstimate(40, 0, "") for made in cells}, stream=out, at_once=2)
        shown.begin([[made] for made in chosen], done=0)
        assert screen(out.getvalue())[0].endswith(words)


def test_a_screen_that_is_too_low_or_narrow_is_not_left(clock, monkeypatch):
    monkeypatch.setattr(progress, "screen_size", lambda stream: (30, 5))
    cells = [cell(seed) for seed in range(9)]
    out = Terminal()
    shown = progress.Progress({}, stream=out)
    shown.begin([[made] for made in cells], done=0)
    for made in cells:
        clock[0] += 1
        shown.event([made], epoch(1))
    block = out.getvalue().rsplit("A", 1)[1]
    assert block.count("\n") == 4  # 5 rows less that of the cursor
    assert all(len(line) < 30 for line in screen(block, 30))


def test_redraws_are_few(clock):
    made = cell(0)
    out = Terminal()
    shown = progress.Progress({}, stream=out)
    shown.begin([[made]], done=0)
    before = out.getvalue().count("\x1b[J")
    for number in range(1000):
        clock[0] += 0.001
        shown.event([made], epoch(number + 1, 1000))
    # A second has passed: at most 10 redraws of a tenth of one.
    assert 5 <= out.getvalue().count("\x1b[J") - before <= 10


@pytest.mark.parametrize(("quiet", "terminal"), [(True, True), (True, False), (False, False)])
def test_no_control_codes_but_on_a_terminal_and_nothing_at_all_when_quiet(quiet, terminal, clock):
    made = cell(0)
    out = Terminal() if terminal else io.StringIO()
    shown = progress.Progress({}, quiet=quiet, stream=out)
    shown.begin([[made]], done=0)
    for number in range(1, 4):
        clock[0] += 10
        shown.event([made], epoch(number))
    shown.event([made], record(made))
    shown.finish()
    assert "\x1b" not in out.getvalue()
    # Every 15 s a line: after 20 s of the 30.
    expected = ["1 cells, 0 done already, 1 to do; expected an unknown time"]
    detail = "epoch 2/10, train_loss 0.25, training 80 s more; in all an unknown time left"
    expected += [f"[1/1] mlp published x common, seed 0: {detail}", "[1/1] mlp published x common, seed 0: done"]
    assert out.getvalue().splitlines() == ([] if quiet else expected)


@pytest.mark.parametrize(
    ("setting", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"NO_COLOR": ""}, True)],
)
def test_colours_are_for_terminals_that_want_them(setting, coloured, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    assert progress.outcome_text("failed", Terminal()) == ("\x1b[31mfailed\x1b[0m" if coloured else "failed")
    assert progress.outcome_text("failed", io.StringIO()) == "failed"


# the end of a run


def arguments(**changes) -> argparse.Namespace:
    usual = {
        "approaches": ["mlp"],
        "all": False,
        "recipe": [],
        "protocol": [],
        "seeds": (0,),
        "apart": False,
        "results": Path("results"),
        "profile": "full",
        "device": "cpu",
        "precision": "float32",
    }
    return argparse.Namespace(**{**usual, **changes})


def test_the_end_says_what_comes_next():
    results = [Result(cell(0), "done", "", was_there=True), Result(cell(1), "done", "", was_there=False)]
    assert ending(results, 100, arguments(results=Path("my results")), None) == [
        "2 of 2 cells done, 1 of them in this call, in 2 min",
        "next: python -m bench verdict --results 'my results'",
    ]


def test_the_end_groups_what_failed_and_says_how_to_see_it():
    results = [Result(cell(0), "done", "", was_there=False)]
    results += [Result(cell(seed), "failed", "no memory left on this machine", was_there=False) for seed in (1, 2)]
    results += [Result(cell(3), "diverged", "loss is nan", was_there=True)]
    results += [Result(cell(seed), "skipped", f"reason {seed}", was_there=False) for seed in (4, 5)]
    chosen = arguments(all=True, seeds=(0, 1, 2, 3, 4, 5), recipe=["corrected"], profile="smoke")
    assert ending(results, 3, chosen, 60) == [
        "failed: mlp published x common, seed 1 and 1 more: no memor…",
        "diverged: mlp published x common, seed 3: loss is nan",
        "2 more cells, for 2 other reasons",
        "1 of 6 cells done, 5 of them in this call, in 3 s",
        "next: python -m bench status --all --recipe corrected --seeds 6 --profile smoke lists all",
        "the same command tries again what is failed or skipped",
    ]


def on_terminal(command: list[str], environment: dict[str, str], columns: int = 80, rows: int = 24) -> tuple[int, str]:
    """Run a command on a terminal of its own; return its exit code and all that it wrote."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    written = bytearray()
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        while part := _read(ours):
            written += part
    os.close(ours)
    return process.returncode, written.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # EIO: nobody is left at the other end
        return b""


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS", "LINES")}
    return {**kept, "TERM": "xterm", "PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}


RUN = [sys.executable, "-m", "bench", "run", "uniform", "toy_mlp", "--profile", "smoke", "--executor", "inline"]


def test_a_real_run_on_a_terminal_ends_within_its_screen(tmp_path, environment):
    code, text = on_terminal([*RUN, "--results", str(tmp_path)], environment)
    assert code == 0
    assert "\x1b[32mdone\x1b[0m" in text
    lines = screen(re.sub(r"\x1b\[\d*m", "", text), 1000)
    start = lines.index("Accuracy against the reported numbers")
    assert len(lines[start:]) <= 24  # with the empty one of the prompt
    assert max(map(len, lines[start:-2])) <= 80  # the last but one names a folder of any length
    assert all(line.endswith(": done") for line in lines[1:start])  # nothing of the redrawn lines is left


def test_a_real_run_in_a_pipe_has_no_control_codes_and_a_quiet_one_no_progress(tmp_path, environment):
    piped = subprocess.run([*RUN, "--results", str(tmp_path / "a")], env=environment, capture_output=True, check=True)
    assert b"\x1b" not in piped.stdout + piped.stderr
    assert piped.stderr.count(b": done\n") == 3
    code, text = on_terminal([*RUN, "--quiet", "--results", str(tmp_path / "b")], environment | {"NO_COLOR": "1"})
    assert code == 0
    assert "\x1b" not in text
    assert text.startswith("Accuracy against")
