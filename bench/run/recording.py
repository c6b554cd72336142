"""Records of trained runs: which a second run keeps, what one without numbers says, and how one is written."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from bench.core import environment
from bench.core.errors import StoreError
from bench.core.reasons import Reason, message_reason
from bench.core.records import LONGEST_DETAIL, SCHEMA, Outcome, Record, Timings
from bench.core.row_scores import Scores, kept
from bench.core.store import Store
from bench.core.text import encodable
from bench.plan.freshness import in_text, lacks, why_stale
from bench.plan.trained_runs import TrainedRun
from bench.run.events import Recorded, recorded

FINAL = ("done", "diverged")  # a second run does not repeat trained runs with these outcomes
LONGEST_LINE = 2_000  # characters of a line of a traceback


def existing(trained_run: TrainedRun, store: Store) -> Record | None:
    """Return the stored record of a trained run, or None."""
    found = store.find(trained_run.naming())
    if found is not None and store.has_damaged_scores(found):
        return None  # the trained run is measured again, with its stored fit if there is one
    return found


def why_again(record: Record, store: Store, data_dir: Path | None = None, lacking: bool = False) -> str:
    """Return why a second run makes a record again: '' if it keeps the record.

    It keeps the record if the outcome is final, the versions are today's, no data set that the record lacked is present
    now, and the record lacks no metric. Without `lacking`, a record that lacks one is made again only from a kept fit:
    a metric that is added must not train every recipe of a folder again. Nor is one that has numbers of a
    data set that is not present now.

    Args:
        record: the stored record.
        store: its results folder.
        data_dir: the user's folder of data sets.
        lacking: also train what lacks a metric, or whose rows have no scores as they are stored today.
    """
    if record.outcome not in FINAL:
        return record.outcome
    if why := why_stale(record):
        return why
    if is_data_present(record.missing, data_dir):
        return "a data set that it lacked is present"
    why = in_text(lacks(record)) if lacking or store.has_fit(record.fit_key) else ""
    if not why and lacking and lacks_scores(record, store):
        why = "lacks scores of its rows"
    return "" if why and not lacking and would_lose(record, data_dir) else why


def would_lose(record: Record, data_dir: Path | None) -> bool:
    """Return whether a record has numbers of an optional data set that is not present now."""
    names = {key.partition("/")[0] for key in record.metrics}
    from bench.data.inventory import list_datasets  # as below

    return any(row.name in names and row.optional and not row.present for row in list_datasets(data_dir))


def lacks_scores(record: Record, store: Store) -> bool:
    """Return whether the scores of a record's rows are not stored, or only as older code rounded them."""
    arrays = record.arrays
    if record.protocol != "common" or not (arrays.reliability or arrays.clothes_reliability):  # no classifier
        return False
    return not kept(store.scores(record))


def is_data_present(missing: Mapping[str, Reason], data_dir: Path | None) -> bool:
    """Return whether a data set that was missing at measurement time, by the keys of its numbers, is present now."""
    lacking = {key.partition("/")[0] for key, reason in missing.items() if reason.kind == "no-data"}
    if not lacking:
        return False
    from bench.data.inventory import list_datasets  # not at the top: most records lack nothing

    return any(row.present for row in list_datasets(data_dir) if row.optional and row.name in lacking)


def final(trained_run: TrainedRun, store: Store, data_dir: Path | None = None, lacking: bool = False) -> Record | None:
    """Return the stored record of a trained run if a second run keeps it, else None."""
    record = existing(trained_run, store)
    return None if record is None or why_again(record, store, data_dir, lacking) else record


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
