"""Errors that a user of the audit can cause or meet: one line that says what was given and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class AuditError(Exception):
    """What was given cannot be audited; the message says what to give."""


class MissingLibrary(AuditError):
    """A library that an audit needs is not installed; the message says how to install it."""


def unknown_name(kind: str, given: str, known: Iterable[str]) -> AuditError:
    """Make the error for an unknown name: lists the known ones and suggests the nearest."""
    names = sorted(known)
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    return AuditError(f"unknown {kind} '{given}'; known: {', '.join(names)}{hint}")
