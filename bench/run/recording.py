"""Make the record of a cell that has no numbers, and write records."""

from __future__ import annotations

import contextlib

import msgspec

from bench.core import environment
from bench.core.errors import StoreError
from bench.core.reasons import Reason, told
from bench.core.records import LONGEST_DETAIL, SCHEMA, Outcome, Record, Timings
from bench.core.row_scores import Scores
from bench.core.store import Store
from bench.plan.cells import Cell
from bench.run.events import Recorded, recorded

LONGEST_LINE = 2_000  # characters of a line of a traceback


def empty_record(cell: Cell, outcome: Outcome, reason: Reason, threads: int | None, detail: str = "") -> Record:
    """Make the record of a cell that has no numbers, with the reason; `threads`: those of its fit."""
    made = environment.describe(threads)
    return Record(
        schema=SCHEMA,
        **msgspec.structs.asdict(cell.naming()),
        outcome=outcome,
        reason=reason,
        detail=_kept(detail),
        metrics={},
        missing={},
        epochs=[],
        timings=Timings(reasons=[reason]),
        recipe_values=dict(cell.values),
        corrections=list(cell.corrections),
        versions=cell.versions,
        provenance=msgspec.structs.replace(made, started=environment.now()),
    )


def _kept(detail: str) -> str:
    """Return the end of a text, with long lines cut: an approach's error may hold megabytes."""
    text = detail.encode(errors="backslashreplace").decode()  # half a character is no text
    return "\n".join(line[:LONGEST_LINE] for line in text.splitlines())[-LONGEST_DETAIL:]


def write_or_say_why(store: Store, cell: Cell, record: Record, scores: Scores | None = None) -> Recorded:
    """Write a record and return its event.

    If the record cannot be written, write a short one that says why: a full disk may still have room for it. The event
    says why in any case.
    """
    try:
        store.write(record, scores)
    except StoreError as error:
        record = empty_record(cell, "failed", told("not-written", error), record.provenance.threads)
        with contextlib.suppress(StoreError):
            store.write(record)
    return recorded(cell.key, record)
