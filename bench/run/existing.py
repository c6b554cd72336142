"""Which cells need no run, because a record of them is there."""

from __future__ import annotations

from collections.abc import Iterable

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


def is_final(record: Record) -> bool:
    """Return whether a second run keeps the record.

    It is done or diverged, was made at today's versions, and none of its missing data sets is present now.
    """
    if record.outcome not in FINAL or is_stale(record):
        return False
    lacking = {key.partition("/")[0] for key in record.missing}  # a metric's key begins with its data set
    return not any(row.present for row in list_datasets() if row.optional and row.name in lacking)


def final(cell: Cell, store: Store) -> Record | None:
    """Return the existing record for a cell if a second run keeps it."""
    record = existing(cell, store)
    return record if record is not None and is_final(record) else None


def unfinished(cells: Iterable[Cell], store: Store) -> list[Cell]:
    """Return the cells without a record that a second run keeps."""
    return [cell for cell in cells if final(cell, store) is None]
