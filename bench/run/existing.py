"""Which trained runs are done: a second run keeps their records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.core.reasons import Reason
from bench.core.records import Record
from bench.core.store import Store
from bench.plan.freshness import is_stale
from bench.plan.trained_runs import TrainedRun

FINAL = ("done", "diverged")  # a second run does not repeat trained runs with these outcomes


def existing(trained_run: TrainedRun, store: Store) -> Record | None:
    """Return the stored record of a trained run, or None."""
    found = store.find(trained_run.naming())
    if found is not None and store.has_damaged_scores(found):
        return None  # the trained run is measured again, with its stored fit if there is one
    return found


def is_final(record: Record, data_dir: Path | None = None) -> bool:
    """Return whether a second run keeps the record.

    It does if the outcome is final, the versions are today's, and no data set that the record lacked is present now.
    """
    return record.outcome in FINAL and not is_stale(record) and not is_data_present(record.missing, data_dir)


def is_data_present(missing: Mapping[str, Reason], data_dir: Path | None) -> bool:
    """Return whether a data set that was missing at measurement time, by the keys of its numbers, is present now."""
    lacking = {key.partition("/")[0] for key, reason in missing.items() if reason.kind == "no-data"}
    if not lacking:
        return False
    from bench.data.inventory import list_datasets  # not at the top: most records lack nothing

    return any(row.present for row in list_datasets(data_dir) if row.optional and row.name in lacking)


def final(trained_run: TrainedRun, store: Store, data_dir: Path | None = None) -> Record | None:
    """Return the stored record of a trained run if a second run keeps it, else None."""
    record = existing(trained_run, store)
    return record if record is not None and is_final(record, data_dir) else None
