"""Screens: the short form of the gate, what a shell completes, the line of a silent command, colours."""

import contextlib
import io
import os
import pty
import re
import shutil
import subprocess
import sys
import threading

import pytest

from bench.cli import FAILED, INCOMPLETE, waiting
from bench.cli.main import main
from bench.cli.waiting import Line, doing, watched
from bench.judge.stats.rule import OUTCOMES
from bench.plan.recipes import recipe_names
from bench.plan.registry import manifests
from bench.show.outcomes import tone
from bench.show.terminal import TONES, toned
from tests.gate_folders import folders, fresh_folder

LOSS = "last epoch/mnist/{train}/train_loss"
PASSED = "mlp/corrected/common"


def test_a_gate_begins_with_the_outcome_and_has_a_line_for_each_trained_run_that_passes(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    path, gate, _, _ = folders(tmp_path)
    fresh = fresh_folder(tmp_path / "fresh", gate, shift=0.2)
    command = ["gate", "--gate", str(path), "--baseline", str(tmp_path / "baseline"), "--fresh", str(fresh.root)]
    assert main(command) == FAILED
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "gate NOT PASSED: 3 pass, 2 fail"
    assert [line[:4] for line in lines[2:7]] == ["fail"] * 2 + ["pass"] * 2 + [""]  # three checks of two trained runs
    assert f"pass: {PASSED}: {LOSS}, mnist/nll" in lines
    assert not any("sees at" in line for line in lines)  # a column of the table, which is not there
    assert lines[-1] == "--all shows the numbers of every check."
    assert main([*command, "--all"]) == FAILED
    whole = capsys.readouterr().out.splitlines()
    rows = [place for place, line in enumerate(whole) if line.startswith("mlp/")]
    assert len(rows) == 4
    assert whole.index(lines[0]) > max(rows)  # the outcome follows the table
    for file in fresh.records.glob("mlp/published*"):
        file.unlink()
    assert main(command) == INCOMPLETE
    (together,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("missing")]
    assert together.endswith("(2 checks of mlp/published/common)")


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("completion") / "bnn-bench"
    with path.open("w") as file, contextlib.redirect_stdout(file):
        assert main(["completion", "bash"]) == 0
    return path


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("verd", ["verdict"]),
        ("run linear", ["linear_bbb"]),
        ("audit recor", ["records"]),
        ("run mlp --recipe publ", None),
        ("run mlp --time-l", ["--time-limit"]),
        ("run mlp --time-limit ", []),  # a number, so neither approaches nor options
        ("run mlp --results ", []),  # a file, which the shell completes itself
        ("table verdict_s", ["verdict_summary"]),
        ("table --data-set lett", ["letters"]),
        ("verdict feldman2018.bbb.epoch20.test_a", ["feldman2018.bbb.epoch20.test_accuracy"]),
        ("data ver", ["verify"]),
        ("uci yac", ["yacht"]),
    ],
)
def test_a_shell_completes_commands_options_and_names_without_python(script, typed, expected):
    words = ["bnn-bench", *typed.split(" ")]
    bash = f'. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); PATH=; _bnn_bench bnn-bench "{words[-1]}" "{words[-2]}"'
    asked = [shutil.which("bash"), "-c", f'{bash}; echo "${{COMPREPLY[*]}}"', str(script), *words]
    found = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.split()
    if expected is None:
        expected = [name for name in recipe_names(manifests()["mlp"]) if name.startswith("publ")]
        assert set(expected) <= set(found)
    else:
        assert found == expected


@pytest.mark.parametrize("silent", [1.9, 2.0])
def test_a_line_appears_after_two_seconds_and_is_erased_before_anything_is_printed(silent, monkeypatch):
    now, out = [10.0], io.StringIO()
    monkeypatch.setenv("COLUMNS", "80")
    line = Line("report", out, clock=lambda: now[0])
    doing("drawing figure 3 of 16")
    now[0] += silent
    line.look()
    shown = "\rreport: drawing figure 3 of 16, 2 s" if silent >= 2 else ""
    assert out.getvalue() == shown
    monkeypatch.setenv("COLUMNS", "12")  # no line is folded, and none is longer than what is erased
    doing("")
    now[0] += 2
    line.look()
    cut = "\rreport: wor"
    assert out.getvalue() == shown + cut.ljust(max(len(shown), len(cut)))
    assert line.erased(lambda: out.write("answer")) == len("answer")
    assert out.getvalue().endswith(f"\r{' ' * (max(len(shown), len(cut)) - 1)}\ranswer")
    before = out.getvalue()
    line.look()  # something was just printed
    assert out.getvalue() == before


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("words", "is_shown"), [(["list"], True), (["gate"], False), (["ablation", "--run"], False)])
def test_a_silent_command_has_a_line_on_a_terminal(words, is_shown, monkeypatch):
    screen, shown = Terminal(), threading.Event()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(waiting, "SILENT_S", 0.0)
    monkeypatch.setattr(waiting, "EVERY_S", 0.001)
    look = Line.look
    monkeypatch.setattr(Line, "look", lambda line: (look(line), shown.set()))

    def action():
        assert not is_shown or shown.wait(60)
        sys.stderr.write("warning\n")
        return 3

    assert watched(words, action) == 3
    assert sys.stderr is screen
    said = screen.getvalue()
    assert ("list: working, 0 s" in said) == is_shown
    if is_shown:  # erased before the warning, and at the end
        assert said.partition("warning\n")[0].endswith("\r")
        assert said.endswith(("\r", "warning\n"))
    else:
        assert said == "warning\n"


def test_no_line_where_errors_are_no_terminal(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    assert watched(["list"], lambda: int(sys.stderr is screen)) == 1


ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def on_a_terminal(monkeypatch, *command):
    """Return the code of a command and what it prints on a terminal."""
    leader, follower = pty.openpty()
    read = bytearray()

    def keep():  # while the command prints, as a terminal holds little that nobody reads
        with contextlib.suppress(OSError):  # the end of a terminal whose other side is closed
            while got := os.read(leader, 65536):
                read.extend(got)

    reader = threading.Thread(target=keep)
    reader.start()
    with os.fdopen(follower, "w", encoding="utf-8") as screen, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", screen)
        code = main(command)
    reader.join()
    os.close(leader)
    return code, read.decode().replace("\r\n", "\n")


@pytest.fixture
def gate(tmp_path):
    path, gate, _, _ = folders(tmp_path)
    fresh = fresh_folder(tmp_path / "fresh", gate, shift=0.2)
    return ["gate", "--gate", str(path), "--baseline", str(tmp_path / "baseline"), "--fresh", str(fresh.root)]


@pytest.mark.parametrize(
    ("variables", "is_coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"NO_COLOR": ""}, True)],
)
@pytest.mark.parametrize("more", [[], ["--all"]])
def test_outcomes_are_coloured_on_a_terminal_alone(gate, variables, is_coloured, more, monkeypatch, capsys):
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"TERM": "xterm", "COLUMNS": "80"} | variables).items():
        monkeypatch.setenv(name, value)
    assert main([*gate, *more]) == FAILED
    piped = capsys.readouterr().out
    assert ESCAPE.search(piped) is None
    code, shown = on_a_terminal(monkeypatch, *gate, *more)
    assert code == FAILED
    assert ESCAPE.sub("", shown) == piped  # the same words at the same places
    assert ("\x1b[31mgate NOT PASSED\x1b[0m" in shown) == is_coloured
    assert ("\x1b[31mfail\x1b[0m" in shown) == is_coloured
    assert ("\x1b[32mpass\x1b[0m" in shown) == is_coloured
    assert (ESCAPE.search(shown) is not None) == is_coloured


@pytest.mark.parametrize(
    ("line", "coloured"),
    [
        *((f"name  .9 .91 [.9 to .92] 1.00 {outcome}", [outcome]) for outcome in OUTCOMES),
        ("Of 9 numbers, 5 are confirmed, for 4 no single run can tell, none is contradicted", []),
        ("each answer takes 100 passes", []),
        ("serious     fails           kl-scale", ["fails"]),
        ("mine: my_cnn  0.98", ["mine: my_cnn"]),
        ("0.98 mine", ["mine"]),
        ("a line about mines", []),
    ],
)
def test_an_outcome_is_coloured_where_it_stands_alone(line, coloured):
    text = toned(line)
    assert text.plain == line
    assert [line[span.start : span.end] for span in text.spans] == coloured


def test_the_screen_and_the_page_take_an_outcome_alike():
    assert {outcome: TONES[outcome] for outcome in OUTCOMES} == {outcome: tone(outcome) for outcome in OUTCOMES}
