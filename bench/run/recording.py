"""Make the record of a trained run that has no numbers, and write records."""

from __future__ import annotations

import contextlib

import msgspec

from bench.core import environment
from bench.core.errors import StoreError
from bench.core.reasons import Reason, message_reason
from bench.core.records import LONGEST_DETAIL, SCHEMA, Outcome, Record, Timings
from bench.core.row_scores import Scores
from bench.core.store import Store
from bench.core.text import encodable
from bench.plan.trained_runs import TrainedRun
from bench.run.events import Recorded, recorded

LONGEST_LINE = 2_000  # characters of a line of a traceback


def empty_record(
    trained_run: TrainedRun, outcome: Outcome, reason: Reason, threads: int | None, detail: str = ""
) -> Record:
    """Make the record of a trained run that has no numbers, with the reason; `threads`: those of its fit."""
    made = environment.describe(threads)
    return Record(
        schema=SCHEMA,
        **msgspec.structs.asdict(trained_run.naming()),
        outcome=outcome,
        reason=reason,
        detail=_kept(detail),
        metrics={},
        missing={},
        epochs=[],
        timings=Timings(reasons=[reason]),
        recipe_values=dict(trained_run.values),
        corrections=list(trained_run.corrections),
        versions=trained_run.versions,
        provenance=msgspec.structs.replace(made, started=environment.now()),
    )


def _kept(detail: str) -> str:
    """Return the end of a text, with long lines cut: an approach's error may hold megabytes."""
    return "\n".join(line[:LONGEST_LINE] for line in encodable(detail).splitlines())[-LONGEST_DETAIL:]


def write_or_say_why(store: Store, trained_run: TrainedRun, record: Record, scores: Scores | None = None) -> Recorded:
    """Write a record and return its event.

    If the record cannot be written, write a short one that says why: a full disk may still have room for it. The event
    says why in any case.
    """
    try:
        store.write(record, scores)
    except StoreError as error:
        record = empty_record(trained_run, "failed", message_reason("not-written", error), record.provenance.threads)
        with contextlib.suppress(StoreError):
            store.write(record)
    return recorded(trained_run.key, record)
