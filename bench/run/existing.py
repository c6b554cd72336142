"""Which cells need no run, because a record of them is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from bench.core.reasons import Reason
from bench.core.records import Record
from bench.core.store import Store
from bench.data.inventory import list_datasets
from bench.plan.cells import Cell
from bench.plan.freshness import is_stale

FINAL = ("done", "diverged")  # outcomes that a second run does not try again


def existing(cell: Cell, store: Store) -> Record | None:
    """Return the existing record for a cell, if any.

    The record of the cell's twin counts too: seeds fitted alone or together give the same numbers up to rounding.
    Without its framework, a cell's real key is not known; then a finished record of the same name counts.
    """
    found = store.find(cell.naming())
    if cell.twin_keys is not None and (found is None or found.outcome not in FINAL or is_stale(found)):
        found = store.find(cell.twin().naming()) or found
    if found is None and cell.skip:
        return store.find_done_elsewhere(cell.naming(), lambda record: not is_stale(record))
    if found is not None and store.set_aside_if_scores_are_damaged(found):
        return None  # the cell is measured again, with its stored fit if there is one
    return found


def is_final(record: Record, data_dir: Path | None = None) -> bool:
    """Return whether a second run keeps the record.

    It is done or diverged, was made at today's versions, and none of its missing data sets is present now.
    """
    return record.outcome in FINAL and not is_stale(record) and not has_come(record.missing, data_dir)


def has_come(missing: Mapping[str, Reason], data_dir: Path | None) -> bool:
    """Return whether a data set is present now that numbers are missing for; each number's key begins with its set."""
    lacking = {key.partition("/")[0] for key, reason in missing.items() if reason.kind == "no-data"}
    return any(row.present for row in list_datasets(data_dir) if row.optional and row.name in lacking)


def final(cell: Cell, store: Store, data_dir: Path | None = None) -> Record | None:
    """Return the existing record for a cell if a second run keeps it."""
    record = existing(cell, store)
    return record if record is not None and is_final(record, data_dir) else None


def unfinished(cells: Iterable[Cell], store: Store, data_dir: Path | None = None) -> list[Cell]:
    """Return the cells without a record that a second run keeps."""
    return [cell for cell in cells if final(cell, store, data_dir) is None]
