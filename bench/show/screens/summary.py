"""The summary that `run` and `table` print: the table of accuracies, with fewer columns."""

from __future__ import annotations

import re
from dataclasses import replace

from bench.judge.claims import print_interval
from bench.show.inputs import Inputs
from bench.show.table import Table
from bench.show.tables.common import ACCURACY
from bench.show.terminal import notes_of, shown


def summary(inputs: Inputs, more: str = "") -> str:
    """Return the table of accuracies for the screen.

    `more`: the command that shows the notes. If it is given, as at the end of a run, the notes and the rows of
    approaches without records are left out.
    """
    table = inputs.with_baseline.marked(ACCURACY.make(inputs))
    notes = [f"notes: {more}"] if more else notes_of(table)
    if more:
        ran = {record.approach for record in inputs.results.records}
        table = replace(table, rows=tuple(row for row in table.rows if str(row[0]).partition(" + ")[0] in ran))
    means = [(row.claim, row.sample.mean) for row in inputs.rows if row.sample.mean is not None]
    inside = sum(mean in print_interval(claim) for claim, mean in means)
    measured = f"{len(means)} of {len(inputs.rows)} reported numbers are measured"
    last = f"{measured}; {inside} give the digits that the document prints."
    return shown(table.title, "", _narrowed(table), "", table.conditions, *notes, last)


def _narrowed(table: Table) -> Table:
    """Return the table with fewer and shorter columns. A variant stands below its approach and need not name it."""
    narrow = table.without(("document", "measured on"))
    rows = tuple((re.sub(r"^.*? (?=\+ )", "", str(name)), *others) for name, *others in narrow.rows)
    return replace(narrow, columns=tuple(column.replace("difference", "diff.") for column in narrow.columns), rows=rows)
