"""Errors that a user can cause or meet: what was given, what is allowed, what to do; never a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable


class BenchError(Exception):
    """Base of all errors that end in one line on the terminal and exit code 2."""


class ConfigError(BenchError):
    """The user gave a name, flag, file or value that cannot be used."""


class DataMissing(BenchError):
    """A data set is not there; the message says how to get it."""


class DataCorrupt(BenchError):
    """A data file is there but its bytes are not the known ones."""


class UnusableImage(BenchError):
    """A picture that cannot be read, is too large, or shows nothing."""


class StoreError(BenchError):
    """A file of this suite cannot be written, or a record or checkpoint cannot be read or trusted."""


class Unsupported(BenchError):
    """An approach does not offer an optional capability; the message is the reason shown in tables."""


class MissingFramework(BenchError):
    """A framework that an approach needs is not installed; the message names the extra."""


class BrokenApproach(BenchError):
    """A registered approach cannot be used; the message says which, where it is and why."""


class Diverged(BenchError):
    """Training met a loss that is not finite."""


class FitEnded(BenchError):
    """The child process of a fit did not finish; `printed` is the end of what it printed."""

    def __init__(self, message: str, printed: str = "") -> None:
        super().__init__(message)
        self.printed = printed


class OutOfTime(FitEnded):
    """A fit did not finish within the time it was given."""


class FitCrashed(FitEnded):
    """The child process of a fit did not start, or ended without reporting why; the message says how."""


class ContractViolation(BenchError):
    """An implementation broke the interface; the message names the check."""


def unknown_name(kind: str, given: str, allowed: Iterable[str]) -> ConfigError:
    """Make the error for an unknown name: lists what is allowed and suggests the nearest."""
    names = sorted(allowed)
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    return ConfigError(f"unknown {kind} '{given}'; known: {', '.join(names) or 'none'}{hint}")


def check_known(kind: str, allowed: Collection[str], *given: str) -> None:
    """Raise the error of `unknown_name` for the first given name that is not allowed."""
    for name in given:
        if name not in allowed:
            raise unknown_name(kind, name, allowed)
