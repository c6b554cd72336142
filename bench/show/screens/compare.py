"""Shows the comparison of two results folders as text, as Markdown and as plain values."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from bench.core.text import counted
from bench.judge.compare.differences import IDENTICAL, Difference, Lack, RowTest
from bench.judge.comparison import Estimate
from bench.show.table import Table
from bench.show.tables.render import escape, markdown_grid
from bench.show.terminal import shown

COLUMNS = ("trained run", "metric", "A", "B", "B - A", "95 % interval", "seeds", "adjusted p", "result")
ROW_COLUMNS = ("trained run", "seed", "rows", "only A right", "only B right", "B - A", "95 % interval", "McNemar p")
MOST_TITLES = 10  # of the records that only one folder has


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
        parts += [f"only in {name}: {title}" for title in titles[:MOST_TITLES]]
        if len(titles) > MOST_TITLES:
            parts.append(f"only in {name}: {len(titles) - MOST_TITLES} more; --json lists all")
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
    """Return a row for each metric of each trained run that both folders have."""
    return Table("differences", "B minus A", "", COLUMNS, [_row(one) for one in found.differences])


def rows_table(found: Comparison) -> Table:
    """Return a row for each trained run of which both folders have one seed, with McNemar's test over the images."""
    note = "One seed each: the test compares these two networks, not their recipes."
    return Table("row_tests", "Row by row", note, ROW_COLUMNS, [_row_test(one) for one in found.rows])


def as_json(found: Comparison) -> dict[str, object]:
    """Return the comparison as plain values."""
    differences = [{**_fields(one), "p_adjusted": one.p_adjusted, "outcome": one.outcome} for one in found.differences]
    rows = [dataclasses.asdict(one) for one in found.rows]
    lacking = [dataclasses.asdict(one) for one in found.lacking]
    names = ("made", "conditions", "only_a", "only_b", "problems")
    lists = {name: list(getattr(found, name)) for name in names}
    return {"differences": differences, "not_compared": lacking, "rows": rows, **lists}


def _fields(one: Difference) -> dict[str, object]:
    found = one.estimate
    return {
        "trained run": one.trained_run,
        "metric": one.metric,
        "seeds": list(found.first.by_seed),
        "mean_a": found.first.mean,
        "mean_b": found.second.mean,
        "n_equal": _n_equal(found),
        "difference": found.difference,
        "half_width": found.half_width() if found.has_spread else None,
        "p": found.p if found.is_testable else None,
    }


def _n_equal(found: Estimate) -> int:
    """Return how many seeds have the same number on both sides, to the last bit."""
    return sum(one == other for one, other in zip(found.first.values, found.second.values, strict=True))


def _lacks(found: Comparison) -> list[str]:
    return [
        f"{'/'.join(one.trained_run)} {one.metric}: {one.side}, seed{'s' * (len(one.seeds) > 1)} "
        f"{', '.join(map(str, one.seeds))}: {one.reason}"
        for one in found.lacking
    ]


def _row(one: Difference) -> list[str]:
    found, n_equal = one.estimate, _n_equal(one.estimate)
    ends = found.interval() if found.has_spread else None
    interval = "-" if ends is None else "{:+.3g} .. {:+.3g}".format(*ends)
    equal = f"{n_equal} equal of " if 0 < n_equal < found.n else ""
    return [
        "/".join(one.trained_run),
        one.metric,
        f"{found.first.mean:.5g}",
        f"{found.second.mean:.5g}",
        "0" if one.outcome == IDENTICAL else f"{found.difference:+.3g}",
        "-" if one.outcome == IDENTICAL else interval,
        f"{equal}{found.n}",
        "-" if one.p_adjusted is None else f"{one.p_adjusted:.2g}",
        one.outcome,
    ]


def _row_test(one: RowTest) -> list[str]:
    low, high = one.accuracy_difference - one.half_width, one.accuracy_difference + one.half_width
    counts = [str(one.n_rows), str(one.only_a), str(one.only_b)]
    last = [f"{one.accuracy_difference:+.4f}", f"{low:+.4f} .. {high:+.4f}", f"{one.p:.2g}"]
    return ["/".join(one.trained_run), str(one.seed), *counts, *last]
