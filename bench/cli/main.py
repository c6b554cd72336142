"""The command line, `python -m bench COMMAND`; exit codes: 0 fine, 1 a check failed, 2 usage, 3 something missing."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import NoReturn

from bench import __version__
from bench.cli import (
    audit,
    check_approach,
    compare,
    data,
    figures,
    gate,
    ladder,
    listing,
    predict,
    reference,
    report,
    run,
    table,
    verdict,
)
from bench.cli.options import INTERRUPTED, USAGE
from bench.core.errors import BenchError, ConfigError

COMMANDS = (
    run,
    reference,
    table,
    figures,
    report,
    verdict,
    ladder,
    audit,
    check_approach,
    gate,
    compare,
    predict,
    data,
    listing,
)

LONGEST = 400  # characters of a parser's message, which repeats what was typed


class _Parser(argparse.ArgumentParser):
    """Errors in one line, unknown commands with the nearest known one."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{_short(message).rstrip('.')}; see `{self.prog} --help`")


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def main(argv: Sequence[str] | None = None, parser: argparse.ArgumentParser | None = None) -> int:
    """Run one command of a parser, of this package's where none is given, and return the exit code."""
    try:
        arguments = (parser or make_parser()).parse_args(argv)
        action: Callable[[argparse.Namespace], int] = arguments.action
        return action(arguments)
    except BenchError as error:
        print(f"error: {shown(error)}", file=sys.stderr)
        return USAGE
    except BrokenPipeError:
        with contextlib.suppress(OSError):  # the reader of our output has gone; nothing is left to say
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.filename is None:
            raise
        print(f"error: cannot use {_short(str(error.filename))}: {error.strerror}; give another path", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("\ninterrupted; the same command goes on where this one stopped", file=sys.stderr)
        return INTERRUPTED


def shown(error: BenchError) -> str:
    """Return an error as it is printed: in one line, also where what was given has several."""
    return " ".join(str(error).split())


def make_parser(
    modules: Sequence[ModuleType] = COMMANDS,
    prog: str = "python -m bench",
    description: str = "Do the published numbers of Bayesian neural networks hold?",
) -> argparse.ArgumentParser:
    """Return the parser of the commands that `modules` declare; what it cannot parse raises ConfigError."""
    parser = _Parser(prog=prog, description=description)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)
    for module in modules:
        module.add(commands)
    return parser
