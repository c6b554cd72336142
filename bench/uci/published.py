"""What others report on the nine sets: printed values with what they truly are, and the author's result of every split.

reported.csv has the values as printed, reported.toml what each column of a printed table is, author.csv the splits.
"""

from __future__ import annotations

import csv
import functools
import math
import statistics
from collections.abc import Iterable
from decimal import ROUND_DOWN, Decimal
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec
import numpy as np

from bench.core.toml import TomlTable, read_toml
from bench.uci.data import facts

HERE = Path(__file__).parent
ENOUGH = 3  # values of a column from which the kind of its errors is recognised
ErrorKind = Literal["se", "sd", "none", "unclear"]


class Source(TomlTable, frozen=True):
    """Where a printed table stands."""

    address: str
    place: str


class Column(TomlTable, frozen=True, kw_only=True):
    """What one column of a printed table is; reported.toml explains the fields."""

    title: str
    label: Literal["se", "sd", "none"]
    error: ErrorKind
    likelihood: Literal["mixture", "gaussian", "unclear", "none"]
    prediction: Literal["mean", "one network", "median over splits"]
    epochs: int
    epochs_protein: int
    tuned: Literal["validation", "other splits", "further splits", "test", "not stated"]
    splits: Literal["author", "own", "other"]
    run: str = ""
    copied_from: str = ""
    same_as: str = ""
    naval_target: int = 16
    n_splits: Annotated[int, msgspec.Meta(ge=0)] = 0
    test_share: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0
    printed_as: Literal["mean", "sum"] = "mean"
    obtained: Literal["read", "secondary", "memory"] = "read"
    method: str = ""
    unlike: str = ""
    note: str = ""

    def epochs_of(self, name: str) -> int:
        """Return the epochs of a set's training; 0 if they are not stated."""
        return self.epochs_protein if name.startswith("protein") else self.epochs

    def splits_of(self, name: str) -> int:
        """Return over how many splits of a set its values are means; 0 if that is not stated."""
        return facts()[name].splits if self.splits == "author" and name in facts() else self.n_splits


class Tables(TomlTable, frozen=True):
    """The content of reported.toml."""

    sources: dict[str, Source]
    columns: dict[str, Column]


class Printed(NamedTuple):
    """A value as it is printed."""

    column: str
    set: str
    quantity: str  # rmse, ll or nll
    value: str
    error: str  # "" if none is printed

    @property
    def metric(self) -> str:
        """Return rmse or ll."""
        return "rmse" if self.quantity == "rmse" else "ll"

    @property
    def number(self) -> float:
        """Return the value as an RMSE or a log-likelihood."""
        return -float(self.value) if self.quantity == "nll" else float(self.value)

    def of(self, number: float) -> float:
        """Return an RMSE or log-likelihood with the sign of the printed quantity."""
        return -number if self.quantity == "nll" else number


class Spread(NamedTuple):
    """The author's numbers over splits."""

    mean: float
    sd: float  # divisor n, as the author takes it
    n: int

    @property
    def se(self) -> float:
        """Return the standard error, as if splits were independent."""
        return self.sd / math.sqrt(self.n)


@functools.cache
def tables() -> Tables:
    """Return sources and columns."""
    return read_toml(HERE / "reported.toml", Tables, "table of printed columns")


@functools.cache
def printed() -> tuple[Printed, ...]:
    """Return all printed values."""
    return tuple(Printed(*row) for row in _rows("reported.csv"))


@functools.cache
def author() -> dict[tuple[str, str, str], dict[int, float]]:
    """Return the author's number of each split, by run, set and metric: rmse, rmse_other, ll, tau or drop_rate.

    rmse_other is the RMSE of one pass in the run grid2018, and of the network without dropout in the others.
    """
    found: dict[tuple[str, str, str], dict[int, float]] = {}
    for name, run, _, _, split, *numbers in _rows("author.csv"):
        for metric, number in zip(("rmse", "rmse_other", "ll", "tau", "drop_rate"), numbers, strict=True):
            found.setdefault((run, name, metric), {})[int(split)] = float(number)
    return found


def spread(run: str, name: str, metric: str) -> Spread | None:
    """Return the spread over splits of an author's run, None if there is none of this set."""
    found = author().get((run, name, metric))
    if found is None:
        return None
    values = np.array(list(found.values()))
    return Spread(float(values.mean()), float(values.std()), len(values))


def kind_by_size(values: Iterable[Printed]) -> Literal["se", "sd"] | None:
    """Return whether a column's errors are as large as deviations over splits or as standard errors.

    It is the median of log(error / sd) / log sqrt(n) with the sd of an author's run: about 0 or about -1. Methods
    differ in their sd, as the author's runs do, so a kind counts only if every run says it. None for fewer values than
    `ENOUGH`.
    """
    given = [(one, float(one.error)) for one in values if one.error and float(one.error) > 0]
    kinds: set[Literal["se", "sd"]] = set()
    for run in {run for run, _, _ in author()}:
        known = ((error, spread(run, one.set, one.metric)) for one, error in given)
        sizes = [math.log(e / its.sd) / math.log(math.sqrt(its.n)) for e, its in known if its is not None]
        if len(sizes) < ENOUGH:
            return None
        kinds.add("sd" if statistics.median(sizes) > -0.5 else "se")
    return kinds.pop() if len(kinds) == 1 else None


def kind_by_splits(one: Printed, column: Column) -> str | None:
    """Return what an error is, by the result of every split: as the source says, or else what else prints so.

    None where the splits are not known, no error is printed, or nothing prints so.
    """
    known = spread(column.run, one.set, one.metric)
    if known is None or not one.error:
        return None
    kinds = {"se": known.se, "sd": known.sd, "sd / sqrt(20)": known.sd / math.sqrt(20)}
    named = column.error if column.label == "none" else column.label
    for kind in sorted(kinds, key=lambda kind: kind != named):
        if prints_as(kinds[kind], one.error):
            return kind
    return f"{named}, cut" if named in kinds and cuts_to(kinds[named], one.error) else None


@functools.cache
def cut_values() -> frozenset[Printed]:
    """Return the values whose digits are cut, not rounded, by the author's result of every split."""
    known = [(one, spread(tables().columns[one.column].run, one.set, one.metric)) for one in printed()]
    means = [(one, one.of(its.mean)) for one, its in known if its is not None]
    return frozenset(one for one, mean in means if cuts_to(mean, one.value) and not prints_as(mean, one.value))


def prints_as(number: float, text: str) -> bool:
    """Return whether a number, rounded, prints as the text."""
    return abs(Decimal(number) - Decimal(text)) <= unit(text) / 2


def cuts_to(number: float, text: str) -> bool:
    """Return whether a number prints as the text if its further digits are dropped."""
    return Decimal(number).quantize(unit(text), ROUND_DOWN) == Decimal(text)


def unit(text: str) -> Decimal:
    """Return one in the last printed place."""
    return Decimal(1).scaleb(Decimal(text).as_tuple().exponent)  # type: ignore[arg-type]


def _rows(name: str) -> list[list[str]]:
    """Return the rows of a table without its comments and its head."""
    with (HERE / name).open(encoding="utf-8", newline="") as file:
        return list(csv.reader(line for line in file if not line.startswith("#")))[1:]
