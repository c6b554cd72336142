"""Make records: of a fit and its measurement, or of the reason why a cell has no numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import msgspec
import torch

from bench.core import environment
from bench.core.errors import StoreError
from bench.core.reasons import Reason, told
from bench.core.records import LONGEST_DETAIL, SCHEMA, Arrays, Outcome, Record, Timings
from bench.core.row_scores import Scores
from bench.core.store import Store
from bench.measure.measuring import Measurement
from bench.plan.cells import Cell
from bench.run.events import Recorded, recorded
from bench.run.fitting import Fit

LONGEST_LINE = 2_000  # characters of a line of a traceback


def make_record(cell: Cell, fitted: Fit, measured: Measurement, load: Sequence[Reason]) -> Record:
    """Make the record of a fit and its measurement; `load`: why the times of measuring do not count (`OtherLoad`)."""
    training = fitted.info.timings.reasons
    reasons = [*training, *(reason for reason in load if reason not in training)]
    return Record(
        schema=SCHEMA,
        **msgspec.structs.asdict(cell.naming()),
        outcome="done",
        reason=None,
        metrics=measured.metrics,
        missing=measured.missing,
        arrays=msgspec.convert(measured.arrays, Arrays),
        epochs=fitted.info.epochs,
        timings=msgspec.structs.replace(fitted.info.timings, **measured.timings, reasons=reasons, valid=not reasons),
        model=fitted.info.model,
        recipe_values=dict(cell.values),
        corrections=list(cell.corrections),
        versions=cell.versions,
        provenance=msgspec.structs.replace(fitted.info.provenance, measured=environment.now()),
    )


def empty_record(cell: Cell, outcome: Outcome, reason: Reason, detail: str = "") -> Record:
    """Make the record of a cell that has no numbers, with the reason."""
    made = environment.describe(torch.get_num_threads())
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
    return "\n".join(line[:LONGEST_LINE] for line in detail.splitlines())[-LONGEST_DETAIL:]


def write_or_say_why(store: Store, cell: Cell, record: Record, scores: Scores | None = None) -> Recorded:
    """Write a record and return its event.

    If the record cannot be written, write a short one that says why: a full disk may still have room for it. The event
    says why in any case.
    """
    try:
        store.write(record, scores)
    except StoreError as error:
        record = empty_record(cell, "failed", told("not-written", error))
        with contextlib.suppress(StoreError):
            store.write(record)
    return recorded(cell.key, record)
