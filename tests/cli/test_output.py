"""What commands print: nothing unprintable, one line if it cannot be written; what status says; completion."""

import ast
import contextlib
import itertools
import json
import os
import resource
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from bench.cli import INCOMPLETE, USAGE
from bench.cli.main import main
from bench.cli.plan import LONGEST_LINE, MOST_PRINTED
from bench.core.canonical import seal
from bench.core.project import RESULTS
from bench.core.reasons import message_reason
from bench.core.store import Store
from bench.plan import freshness
from bench.plan.recipes import recipe_names
from bench.plan.registry import manifests
from bench.plan.trained_runs import Selection, trained_runs
from bench.run.recording import empty_record
from bench.show import terminal
from tests.core.test_metric_bounds import FORGERIES
from tests.synthetic import record

EVIL = "\x1b[2K\rdone\x07\x9b2J\u202etxt"  # erases a line, beeps, erases the screen (C1), writes from right to left
ALONE = ("--baseline", "none")
EMPTY = str(Path(__file__).parent)  # a folder without records: the shipped ones take a second to read
# printed line by line, and as one text
COMMANDS = {"list": ["list"], "table": ["table", "--format", "md", "accuracy", *ALONE, "--results", EMPTY]}


def unseen(text):
    """Return the invisible characters of a text, except ends of lines and tabs."""
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c not in "\n\t"}


@pytest.fixture
def hostile(tmp_path):
    """Return a results folder in which every free text would redraw the screen.

    It also has impossible records: commands report each of them, and go on.
    """
    store = Store(tmp_path)
    for number, changes in enumerate(
        (
            {"outcome": "failed", "reason": {"kind": "text", "values": {"message": EVIL}}, "detail": EVIL},
            {"missing": {EVIL: {"kind": "text", "values": {"message": EVIL}}}},
            {"metrics": {EVIL: 0.5}},
            {"provenance": {"started": EVIL, "cpu": EVIL, "platform": EVIL, "versions": {"torch": EVIL}}},
            {"timings": {"reasons": [{"kind": "text", "values": {"message": EVIL}}]}},
            {"corrections": [EVIL], "recipe_values": {EVIL: EVIL}},
            *FORGERIES.values(),
        )
    ):
        path = store.write(record("mlp", seed=number, metrics={"mnist/test10k/accuracy": 0.9}))
        path.write_bytes(seal({**json.loads(path.read_text()), **changes}))
    locks = tmp_path / "locks"
    locks.mkdir()
    (locks / f"{'a' * 16}.json").write_text(json.dumps({"pid": 1, "host": EVIL, "since": EVIL}))
    return tmp_path


def test_no_control_character_of_a_record_reaches_a_terminal_or_a_file(hostile, capsys):
    place = ["--results", str(hostile)]
    records, problems = Store(hostile).all_records()
    assert (len(records), len(problems)) == (6, len(FORGERIES))  # all texts are read
    for command in (
        *(["table", name, *ALONE] for name in ("unfinished", "provenance")),
        *(["table", *ALONE], ["table", "--write", *ALONE], ["report", "--no-figures", *ALONE], ["verdict"]),
        *(["table", "provenance", "--format", form, *ALONE] for form in ("md", "csv")),
        *(["figures", "--list", *ALONE], ["ablation"]),
        *(["audit", "records"], ["status", "mlp", "--seeds", "6"], ["plan", "mlp", "--seeds", "6"], ["gate"]),
    ):
        assert main([*command, *place]) in (0, 1, USAGE, INCOMPLETE), command
        assert unseen("".join(capsys.readouterr())) == set(), command
    assert main(["compare", str(hostile), str(hostile), "--metric", "*"]) in (0, INCOMPLETE)
    assert unseen("".join(capsys.readouterr())) == set()
    made = [path for folder in ("tables", "report") for path in (hostile / folder).rglob("*.*")]
    assert len(made) > 50
    assert [path.name for path in made if unseen(path.read_text(encoding="utf-8"))] == []


FIELDS = ("approach", "recipe", "protocol", "profile", "device", "precision", "fit_key", "key")
NO_NAMES = (EVIL, "../..", "/etc", "a b", "a\n")


@pytest.mark.parametrize(("field", "name"), [*itertools.product(FIELDS, NO_NAMES), ("key", "")])
def test_a_record_with_an_impossible_name_is_refused(tmp_path, field, name):
    """Names become parts of paths: they may have no folder, space or control character, and a key is not empty."""
    path = Store(tmp_path).write(record("mlp"))
    path.write_bytes(seal({**json.loads(path.read_text()), field: name}))
    records, (problem,) = Store(tmp_path).all_records()
    assert records == []
    assert f"`$.{field}`" in problem.reason


def test_the_name_of_a_picture_is_shown_harmlessly(tmp_path, capsys):
    picture = tmp_path / f"{EVIL.replace('/', '')}.png"
    picture.write_bytes(b"no picture")
    main(["predict", str(picture), "--results", str(tmp_path)])
    assert unseen("".join(capsys.readouterr())) == set()


def ended(command, **streams):
    """Run a command in its own process; return the exit code and the error output."""
    words = [sys.executable, "-m", "bench", *command]
    found = subprocess.run(words, check=False, stderr=subprocess.PIPE, text=True, **streams)
    return found.returncode, found.stderr


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_full_device_is_one_line(command):
    with open("/dev/full", "w") as full:
        code, said = ended(command, stdout=full)
    assert code == USAGE
    assert said.splitlines()[-1].startswith("error: the output cannot be written: No space left on device")
    assert "Traceback" not in said


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_closed_pipe_is_no_error(command):
    """The other end of the pipe is closed before the command starts, so that already its first line cannot be read."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        code, said = ended(command, stdout=pipe)
    assert (code, "Traceback" in said, "Exception" in said) == (0, False, False)


def test_a_pipe_that_rich_finds_closed_is_the_same_error(monkeypatch):
    """Rich would exit with 1 if it is the first to write what Python has kept for the pipe."""

    def closed(*_):
        raise BrokenPipeError

    monkeypatch.setattr(terminal.Screen, "_write_buffer", closed)
    with pytest.raises(BrokenPipeError):
        terminal.shown("a line")


def test_a_limit_on_the_size_of_files_is_one_line(tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    with (tmp_path / "out").open("w") as file:
        code, said = ended(["list"], stdout=file, preexec_fn=limit)
    assert (code, len(said.splitlines())) == (USAGE, 1)
    assert "File too large" in said


def test_a_command_without_any_output_ends_as_with_one():
    code, said = ended(["table", "--list"], preexec_fn=lambda: os.close(1))
    assert (code, said) == (0, "")


def test_status_says_what_is_missing_or_stale(tmp_path, capsys, monkeypatch):
    choice = ["uniform", "--profile", "smoke", "--results", str(tmp_path)]

    def status():
        code = main(["status", *choice, "--json"])
        return code, [row["state"] for row in json.loads(capsys.readouterr().out)]

    assert status() == (INCOMPLETE, ["missing"])
    main(["run", *choice, "--executor", "inline", "--quiet"])
    capsys.readouterr()
    assert status() == (0, ["done"])
    monkeypatch.setitem(freshness.PROTOCOLS, "common", 99)
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


def test_no_program_accepts_abbreviated_options():
    """`--seed 3` must not mean `--seeds 3`, which are three seeds."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py", ":!examples"], capture_output=True, text=True, check=True, cwd=RESULTS.parent
    )
    found = 0
    for name in listed.stdout.splitlines():
        for call in ast.walk(ast.parse((RESULTS.parent / name).read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and ast.unparse(call.func).endswith(("Parser", "add_parser")):
                found += 1
                options = {option.arg: ast.unparse(option.value) for option in call.keywords}
                assert options.get("allow_abbrev") == "False", f"{name}:{call.lineno}"
    assert found > 5


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
