"""The command line, `python -m bench COMMAND`; exit codes: 0 fine, 1 a check failed, 2 usage, 3 something missing.

Only the file of the given command is imported, so that no command waits for the imports of another.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import errno
import importlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

from bench.cli import INTERRUPTED, USAGE
from bench.core.errors import BenchError, ConfigError, unknown_name
from bench.core.text import one_line
from bench.core.version import VERSION
from elbo_audit.errors import AuditError

UNKNOWN_OPTION = re.compile(r"unrecognized arguments: (?P<given>-[\w-]+)")
UNKNOWN_CHOICE = re.compile(r"invalid choice: '(?P<given>[^']*)' \(choose from (?P<known>[^)]*)\)")
CANNOT_WRITE = (errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EDQUOT)  # a full disk, a limit, a broken device
LONGEST = 400  # characters of an error message, which repeats what the user typed
PROG = "python -m bench"
UNFOLDED = 10_000  # columns with --wide
DESCRIPTION = "Do the published numbers of Bayesian neural networks hold?"


class Command(NamedTuple):
    """Where the code of a command is, and what it does."""

    place: str  # MODULE:FUNCTION; the function adds the command's options and its action to a parser
    help: str


COMMANDS = {
    "run": Command("bench.cli.run:add_run", "train and measure what is missing, then show the tables"),
    "plan": Command("bench.cli.plan:add_plan", "what would run, and how long it would take"),
    "status": Command("bench.cli.plan:add_status", "which trained runs are done, failed, stale, running or missing"),
    "table": Command("bench.cli.table:add", "make the tables from the records"),
    "report": Command("bench.cli.report:add", "everything as one page of HTML, made from the records"),
    "figures": Command("bench.cli.figures:add", "draw the figures from the records"),
    "verdict": Command("bench.cli.verdict:add", "which reported numbers reproduce, and why; also a number of yours"),
    "ablation": Command("bench.cli.ablation:add", "what each correction changes, one at a time"),
    "new": Command("bench.cli.new:add", "start an approach of your own: two files that pass every check"),
    "audit": Command("bench.cli.audit:add", "find known mistakes: documents, code (also yours), records, data"),
    "gate": Command("bench.cli.gate:add", "for CI: does the code still give the numbers of the baseline?"),
    "compare": Command("bench.cli.compare:add", "compare two results folders, paired by trained run and seed"),
    "baseline": Command("bench.cli.baseline:add", "the seeds that verdicts, gate and ablations compare with"),
    "predict": Command("bench.cli.predict:add", 'ask trained networks about a picture: the digit, or "I don\'t know"'),
    "score": Command("bench.cli.score:add", "give saved predictions of your trained model a row in the tables"),
    "data": Command("bench.cli.data:add", "the data sets: list, fetch, verify, export"),
    "list": Command("bench.cli.list:add", "approaches, recipes, corrections and variants"),
    "env": Command("bench.cli.env:add", "versions, processor and commit, as records keep them"),
}


GONE = {
    "ladder": "ladder is now called ablation: bench ablation",
    "reference": "reference is now called baseline: bench baseline",
    "submit": "submit is gone: give others your results folder, which they check by: bench compare FOLDER --verify",
}
"""Commands of older versions, and what to say of each."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line: they raise ConfigError."""

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError with the message, a suggestion, and the command that shows help."""
        raise ConfigError(f"{one_line(message, LONGEST)}{self._nearest(message)}; see `{self.prog} --help`")

    def _nearest(self, message: str) -> str:
        """Return a suggestion if argparse's message names an unknown option or choice, else ''."""
        option, choice = UNKNOWN_OPTION.search(message), UNKNOWN_CHOICE.search(message)
        known: list[str] = list(self._option_string_actions)
        given = option["given"] if option else ""
        if choice:
            given, known = choice["given"], re.findall("'([^']*)'", choice["known"])
        near = difflib.get_close_matches(given, known, n=1)
        return f"; did you mean '{near[0]}'?" if near else ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command of a command line (by default this process's) and return the exit code."""
    words = sys.argv[1:] if argv is None else argv
    return guarded(lambda: act(parse(words)))


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Return the parsed command line; raises ConfigError if it cannot be parsed."""
    if not words:
        raise ConfigError(f"no command given; see `{PROG} --help`")
    name, *rest = words
    if name.startswith("-"):
        return _top().parse_args(words)  # --help and --version end the process, other words are an error
    if name in GONE:
        raise ConfigError(GONE[name])
    if name not in COMMANDS:
        raise unknown_name("command", one_line(name, LONGEST), COMMANDS)
    module, _, function = COMMANDS[name].place.partition(":")
    parser = Parser(prog=f"{PROG} {name}", description=COMMANDS[name].help)
    add: Callable[[argparse.ArgumentParser], None] = getattr(importlib.import_module(module), function)
    add(parser)
    return parser.parse_args(rest)


def act(arguments: argparse.Namespace) -> int:
    """Run a parsed command and return the exit code."""
    if getattr(arguments, "wide", False):
        os.environ["COLUMNS"] = str(UNFOLDED)  # Rich and `bench.show.terminal.screen` read it
    action: Callable[[argparse.Namespace], int] = arguments.action
    return action(arguments)


def guarded(action: Callable[[], int]) -> int:
    """Return the exit code of an action; an error that a user can cause becomes one line and exit code 2."""
    _open_closed_streams()
    try:
        code = action()
        sys.stdout.flush()  # now, not at the end of the process, so that an error becomes one line
        return code
    except (BenchError, AuditError) as error:
        _say(f"error: {one_line(str(error))}")
        return USAGE
    except BrokenPipeError:
        _give_up_output()  # the program that read our output has ended
        return 0
    except OSError as error:
        if error.filename is not None:
            path = one_line(str(error.filename), LONGEST)
            _say(f"error: cannot use {path}: {error.strerror}; give another path")
        elif error.errno in CANNOT_WRITE:
            _give_up_output()
            _say(f"error: the output cannot be written: {error.strerror}; send it elsewhere")
        else:
            raise
        return USAGE
    except KeyboardInterrupt:
        _say("\ninterrupted; records and checkpoints are kept, and the same command uses them")
        return INTERRUPTED


def _open_closed_streams() -> None:
    """Open /dev/null in the place of a closed output. Otherwise the next file that is opened would get its number."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - open as long as the process


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # if errors cannot be written either, only the exit code tells
        print(line, file=sys.stderr, flush=True)


def _give_up_output() -> None:
    """Discard the unwritten output, so that Python does not raise the same error again when it exits."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _top() -> Parser:
    lines = [f"  {name:<10} {command.help}" for name, command in COMMANDS.items()]
    parser = Parser(
        prog=PROG,
        usage=f"{PROG} COMMAND ...",
        description=DESCRIPTION,
        epilog="\n".join(["commands:", *lines, "", f"`{PROG} COMMAND --help` explains one."]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=VERSION)
    return parser
