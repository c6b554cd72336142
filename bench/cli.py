"""The command line, `python -m bench COMMAND`; exit codes: 0 fine, 1 a check failed, 2 usage, 3 something missing."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from bench import __version__
from bench.commands import (
    audit,
    check_approach,
    compare,
    data,
    determinism,
    faults,
    figures,
    gate,
    ladder,
    listing,
    predict,
    reference,
    report,
    run,
    table,
    throughput,
    verdict,
)
from bench.commands.options import INTERRUPTED, USAGE
from bench.errors import BenchError, ConfigError

COMMANDS = (
    run,
    reference,
    throughput,
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
    determinism,
    faults,
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


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    try:
        arguments = make_parser().parse_args(argv)
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


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands; what it cannot parse raises ConfigError."""
    parser = _Parser(prog="python -m bench", description="Do the published numbers of Bayesian neural networks hold?")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)
    for module in COMMANDS:
        module.add(commands)
    return parser
