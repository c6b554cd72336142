"""Shows the comparison of two results folders as text, as Markdown and as plain values."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from bench.core.text import counted
from bench.judge.compare.differences import IDENTICAL, Difference, Lack, RowTest
from bench.show.table import Table
from bench.show.tables.render import escape, markdown_grid
from bench.show.terminal import shown

COLUMNS = ("cell", "metric", "A", "B", "B - A", "95 % interval", "seeds", "adjusted p", "result")
ROW_COLUMNS = ("cell", "seed", "rows", "only A right", "only B right", "B - A", "95 % interval", "McNemar p")


@dataclass(frozen=True)
class Comparison:
    """The results of comparing two folders."""

    made: Sequence[str]  # with which code and machine A was made, and B
    conditions: Sequence[str]  # conditions that differ between A and B
    differences: Sequence[Difference]
    lacking: Sequence[Lack]  # what could not be compared
    rows: Sequence[RowTest]
    only_a: Sequence[str]
    only_b: Sequence[str]
    problems: Sequence[str]


def text(found: Comparison) -> str:
    """Return the comparison for a terminal."""
    parts: list[str | Table] = [*found.made, *(f"differs: {line}" for line in found.conditions), ""]
    parts.append(differences_table(found))
    if found.rows:
        rows = rows_table(found)
        parts += ["", rows.explanation, "", rows]
    n_ties = sum(one.outcome == IDENTICAL for one in found.differences)
    parts += ["", f"{counted(len(found.differences), 'metric')}, {n_ties} of them identical in every seed"]
    parts += [f"not compared: {line}" for line in _lacks(found)]
    for name, titles in (("A", found.only_a), ("B", found.only_b)):
        parts += [f"only in {name}: {title}" for title in titles]
    return shown(*parts, *(f"problem: {line}" for line in found.problems))


def markdown(found: Comparison) -> str:
    """Return the comparison as Markdown."""
    lists = {
        "Made by": found.made,
        "Differs": found.conditions,
        "Not compared": _lacks(found),
        "Only in A": found.only_a,
        "Only in B": found.only_b,
        "Problems": found.problems,
    }
    body = markdown_grid(differences_table(found))
    if found.rows:
        rows = rows_table(found)
        body += f"\n\n{rows.explanation}\n\n{markdown_grid(rows)}"
    ends = "".join(
        f"\n\n{name}:\n\n" + "\n".join(f"- {escape(line)}" for line in lines) for name, lines in lists.items() if lines
    )
    return f"# A and B\n\n{body}{ends}\n"


def differences_table(found: Comparison) -> Table:
    """Return a row for each metric of each cell that both folders have."""
    return Table("differences", "B minus A", "", COLUMNS, [_row(one) for one in found.differences])


def rows_table(found: Comparison) -> Table:
    """Return a row for each cell of which both folders have one seed, with McNemar's test over the images."""
    note = "One seed each: the test compares these two networks, not their recipes."
    return Table("row_tests", "Row by row", note, ROW_COLUMNS, [_row_test(one) for one in found.rows])


def as_json(found: Comparison) -> dict[str, object]:
    """Return the comparison as plain values."""
    differences = [
        {**dataclasses.asdict(one), "difference": one.difference, "outcome": one.outcome} for one in found.differences
    ]
    rows = [dataclasses.asdict(one) for one in found.rows]
    lacking = [dataclasses.asdict(one) for one in found.lacking]
    names = ("made", "conditions", "only_a", "only_b", "problems")
    lists = {name: list(getattr(found, name)) for name in names}
    return {"differences": differences, "not_compared": lacking, "rows": rows, **lists}


def _lacks(found: Comparison) -> list[str]:
    return [
        f"{'/'.join(one.cell)} {one.metric}: {one.side}, seed{'s' * (len(one.seeds) > 1)} "
        f"{', '.join(map(str, one.seeds))}: {one.reason}"
        for one in found.lacking
    ]


def _row(one: Difference) -> list[str]:
    interval = "-"
    if one.half_width is not None:
        interval = f"{one.difference - one.half_width:+.3g} .. {one.difference + one.half_width:+.3g}"
    equal = f"{one.n_equal} equal of " if 0 < one.n_equal < len(one.seeds) else ""
    return [
        "/".join(one.cell),
        one.metric,
        f"{one.mean_a:.5g}",
        f"{one.mean_b:.5g}",
        "0" if one.outcome == IDENTICAL else f"{one.difference:+.3g}",
        "-" if one.outcome == IDENTICAL else interval,
        f"{equal}{len(one.seeds)}",
        "-" if one.p_adjusted is None else f"{one.p_adjusted:.2g}",
        one.outcome,
    ]


def _row_test(one: RowTest) -> list[str]:
    low, high = one.accuracy_difference - one.half_width, one.accuracy_difference + one.half_width
    counts = [str(one.n_rows), str(one.only_a), str(one.only_b)]
    last = [f"{one.accuracy_difference:+.4f}", f"{low:+.4f} .. {high:+.4f}", f"{one.p:.2g}"]
    return ["/".join(one.cell), str(one.seed), *counts, *last]
