"""The command line, `python -m bench COMMAND`; exit codes: 0 fine, 1 a check failed, 2 usage, 3 something missing.

Only the file of the given command is imported, so that no command waits for the imports of another.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

from bench.cli import INTERRUPTED, USAGE
from bench.core.errors import BenchError, ConfigError, unknown_name
from bench.core.project import VERSION
from bench.core.text import as_called, one_line, program
from elbo_audit.errors import AuditError

CANNOT_WRITE = (errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EDQUOT)  # a full disk, a limit, a broken device
LONGEST = 400  # characters of an error message, which repeats what the user typed
UNFOLDED = 10_000  # columns with --wide


class Command(NamedTuple):
    """The group of a command in the list of all, where its code is, and what it does."""

    group: str
    place: str  # MODULE:FUNCTION in bench.cli; the function adds the command's options and its action to a parser
    help: str


COMMANDS = {
    "run": Command("train", "run:add_run", "train and measure what is missing, then show the tables"),
    "plan": Command("train", "plan:add_plan", "what would run, and how long it would take"),
    "status": Command("train", "plan:add_status", "which trained runs are done, failed, stale, running or missing"),
    "table": Command("show", "table:add", "make the tables from the records"),
    "report": Command("show", "report:add", "everything as one page of HTML, made from the records"),
    "figures": Command("show", "figures:add", "draw the figures from the records"),
    "list": Command("show", "list:add", "approaches, recipes, corrections and variants"),
    "verdict": Command("judge", "verdict:add", "which reported numbers reproduce, and why; also a number of yours"),
    "ablation": Command("judge", "ablation:add", "what each correction changes, one at a time"),
    "audit": Command("judge", "audit:add", "find known mistakes: documents, code (also yours), records, data"),
    "compare": Command("judge", "compare:add", "compare two results folders, paired by trained run and seed"),
    "gate": Command("judge", "gate:add", "for CI: does the code still give the numbers of the baseline?"),
    "baseline": Command("judge", "baseline:add", "the seeds that verdicts, gate and ablations compare with"),
    "uci": Command("judge", "uci:add", "the UCI regression sets: splits, printed values, mistakes"),
    "posterior": Command("judge", "posterior:add", "the true posteriors of small networks: list, make, check"),
    "new": Command("yours", "new:add", "start an approach of your own: two files that pass every check"),
    "score": Command("yours", "data:add_score", "give saved predictions of your trained model a row in the tables"),
    "predict": Command("yours", "predict:add", 'ask trained networks about a picture: the digit, or "I don\'t know"'),
    "data": Command("more", "data:add", "the data sets: list, fetch, verify, export"),
    "completion": Command("more", "words:add", "for bash or zsh: what completes commands, options and names"),
    "env": Command("more", "env:add", "versions, processor and commit, as records keep them"),
}


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line: they raise ConfigError."""

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError with the message, a suggestion, and the command that shows help."""
        from bench.cli.words import nearest

        said, half = one_line(message), LONGEST // 2
        if len(said) > LONGEST:  # the end says what to give
            said = f"{said[:half]}...{said[-half:]}"
        raise ConfigError(f"{said}{nearest(message, self)}; see `{self.prog} --help`")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command of a command line (by default this process's) and return the exit code."""
    words = sys.argv[1:] if argv is None else argv
    if next(iter(words), "") == "run":  # it shows its progress itself
        return guarded(lambda: act(parse(words)))
    from bench.cli.waiting import watched  # here and below: a run needs none of it

    return guarded(lambda: watched(words, lambda: act(parse(words))))


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Return the parsed command line; raises ConfigError if it cannot be parsed."""
    name, *rest = words or ["--help"]
    if name.startswith("-"):
        return _top().parse_args([name, *rest])  # --help and --version end the process, other words are an error
    if name not in COMMANDS:
        from bench.cli.words import GONE

        raise ConfigError(GONE[name]) if name in GONE else unknown_name("command", one_line(name, LONGEST), COMMANDS)
    every = argparse.Namespace(parsers=lambda: {one: _parser(one) for one in COMMANDS})  # for `completion`
    return _parser(name).parse_args(rest, every)


def _parser(name: str) -> Parser:
    module, _, function = COMMANDS[name].place.partition(":")
    parser = Parser(prog=f"{program()} {name}", description=COMMANDS[name].help, allow_abbrev=False)
    add: Callable[[argparse.ArgumentParser], None] = getattr(importlib.import_module(f"bench.cli.{module}"), function)
    add(parser)
    return parser


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
        _say(f"error: {as_called(one_line(str(error)))}")
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
    from bench.cli.words import listed

    parser = Parser(
        prog=program(),
        usage=f"{program()} COMMAND ...",
        description="Do the published numbers of Bayesian neural networks hold?",
        epilog=f"{listed(COMMANDS.items())}\n\n`{program()} COMMAND --help` explains one.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=VERSION)
    return parser
