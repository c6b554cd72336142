"""A regular table as a declaration: its rows, and for each column the metric, its digits and where it applies.

`Declaration.make` makes the table from the frame of the results. What a metric means, its unit and its bounds stand at
the metric itself; a column names it. A table with logic of its own has a function in place of a declaration;
`bench.show.tables.registry` lists both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from bench.core.text import FRACTION, FRACTION_DIFFERENCE, Digits
from bench.show.inputs import Inputs
from bench.show.table import Entry, Measured, Missing, Table
from bench.show.tables.reported import ABSENT, beside_report, headline, truncations

Row: TypeAlias = Mapping[str, str]
"""What a row is about: "approach" and "recipe", often more, such as "data_set"."""


@dataclass(frozen=True)
class Column:
    """A column, or a few neighbouring columns, of a regular table."""

    titles: Sequence[str]
    read: Callable[[Inputs, Row], Sequence[Entry]]  # gives an entry for each title
    metric: str = ""  # what the frame calls the numbers


def key(title: str, field: str = "") -> Column:
    """Return what a row is about, as text, from its field of this name or else of the title; "-" if it is empty."""
    return Column((title,), lambda _, row: (row.get(field or title) or None,))


def always(_: Row) -> bool:
    """Return True."""
    return True


def metric(
    title: str,
    name: str,
    digits: Digits = FRACTION,
    protocol: str = "common",
    recipe: str = "{recipe}",
    only: Callable[[Row], bool] = always,
) -> Column:
    """Return a metric, mean over seeds. Name, protocol and recipe may have fields of the row in braces.

    `only`: which rows have the metric.
    """

    def read(inputs: Inputs, row: Row) -> Sequence[Entry]:
        if not only(row):
            return (Missing(ABSENT),)
        trained_run = row["approach"], recipe.format_map(row), protocol.format_map(row)
        return (Measured(inputs.sample(*trained_run, name.format_map(row)), digits),)

    return Column((title,), read, name)


def reported(
    titles: Sequence[str], metric: str, digits: Digits = FRACTION, change: Digits = FRACTION_DIFFERENCE
) -> Column:
    """Return the number that the document reports, what the published protocol measured, and their difference.

    `titles`: of the first one, two or all of these; `metric`: of the claim. Other recipes than published have none.
    """

    def read(inputs: Inputs, row: Row) -> Sequence[Entry]:
        approach, recipe = row["approach"], row["recipe"]
        claim = headline(inputs.claims, approach, metric, row["data_set"]) if recipe == "published" else None
        records = inputs.results.trained_run(approach, recipe, "published")
        return beside_report(claim, records, digits, change)[: len(titles)]

    return Column(titles, read)


def each_recipe(inputs: Inputs) -> Iterator[dict[str, str]]:
    """Give a row for each recipe of each classifier."""
    for approach in inputs.results.classifiers():
        for recipe in inputs.results.recipes(approach):
            yield {"approach": approach, "recipe": recipe}


def for_each(
    rows: Callable[[Inputs], Iterable[Row]], field: str, values: Collection[str]
) -> Callable[[Inputs], Iterator[Row]]:
    """Return rows in place of each row: one for each value of a further field."""
    return lambda inputs: ({**row, field: value} for row in rows(inputs) for value in values)


@dataclass(frozen=True)
class Declaration:
    """A regular table."""

    name: str
    answers: str  # the question
    title: str
    caption: str
    rows: Callable[[Inputs], Iterable[Row]]
    columns: Sequence[Column]
    truncated: str = ""  # the notes name the reported values of this metric that a document cut off
    spare: tuple[str, ...] = ()  # columns that a narrow screen leaves out, the least important one first
    main: Callable[[Sequence[Entry]], bool] | None = None  # rows that a screen shows if there are too many
    main_says: str = ""  # which rows these are

    def make(self, inputs: Inputs) -> Table:
        """Return the table."""
        titles = [title for column in self.columns for title in column.titles]
        lines = [[one for column in self.columns for one in column.read(inputs, row)] for row in self.rows(inputs)]
        notes = truncations(claim for claim in inputs.claims if claim.metric == self.truncated)
        table = Table(self.name, self.title, self.caption, titles, lines, notes).of(inputs.results)
        return replace(table, main=self.main, main_says=self.main_says)
