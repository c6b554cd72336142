"""Shades of a table: how good each number is within its column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from bench.show.page.grid import PageTable
from bench.show.tables.choice import ANSWER, COLUMNS, HIGHER, TRAINING, Candidate

HOTTEST = 4


def shaded(table: PageTable, found: Sequence[Candidate]) -> PageTable:
    """Return the table of approaches with a shade for every number of an approach that is no baseline."""
    rows = [list(row) for row in table.rows]
    for column in COLUMNS:
        place = table.columns.index(column)
        values = [None if one.is_baseline else one.numbers[column].mean for one in found]
        for row, level in zip(rows, levels(values, HIGHER[column], column in (TRAINING, ANSWER)), strict=True):
            row[place] = replace(row[place], heat=level)
    return replace(table, rows=tuple(tuple(row) for row in rows))


def levels(values: Sequence[float | None], is_higher_better: bool, is_logarithmic: bool = False) -> list[int | None]:
    """Return for each value a level from 0, the worst, to HOTTEST, the best; equal steps of the range between."""
    scaled = [None if value is None else math.log(value) if is_logarithmic else value for value in values]
    known = [value for value in scaled if value is not None]
    if not known or min(known) == max(known):
        return [None] * len(values)
    low, high = min(known), max(known)
    shares = [None if value is None else (value - low) / (high - low) for value in scaled]
    return [None if one is None else round(HOTTEST * (one if is_higher_better else 1 - one)) for one in shares]
