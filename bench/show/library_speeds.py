"""Measured speeds beside other people's libraries: the file that `python -m benchmarks.libraries` writes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from bench.core.errors import ConfigError
from bench.core.project import TOP
from bench.core.records import Fields, Provenance
from bench.core.sealed import read_json

FILE = TOP / "benchmarks" / "libraries" / "measured.json"
AGAIN = "python -m benchmarks.libraries measures it"
LEVEL = 0.95  # of an interval, at least


class Compared(Fields, frozen=True, kw_only=True):
    """Rounds of one of our sides beside a library alone; both lists have an entry a round."""

    what: Literal["step", "predict"]
    library: str
    side: Literal["kernels", "per_row", "adapter"]  # ours; per_row: the posterior's own, for predictions
    seconds: list[float]  # of a step, or of all draws of all images
    library_seconds: list[float]


class LibrarySpeeds(Fields, frozen=True, kw_only=True):
    """The content of the file."""

    batch_size: int
    draws: int
    images: int
    versions: dict[str, str]  # of the libraries
    load: str  # why times do not count; '' if they do
    compared: list[Compared]
    provenance: Provenance


class Ratio(NamedTuple):
    """The median of the rounds' own ratios, and its interval."""

    median: float
    low: float
    high: float


def read_speeds(path: Path = FILE) -> LibrarySpeeds | None:
    """Return the measurements, or None without the file; raises ConfigError if it is damaged."""
    if not path.is_file():
        return None
    try:
        return msgspec.convert(read_json(path, "file of speeds"), LibrarySpeeds)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path} does not have the fields of measured speeds: {error}; {AGAIN}") from error


def ratio(above: Sequence[float], below: Sequence[float]) -> Ratio:
    """Return above / below, round by round."""
    found = [a / b for a, b in zip(above, below, strict=True)]
    return Ratio(statistics.median(found), *median_interval(found))


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return an interval for the median that holds for every distribution, of at least `LEVEL` from six values on.

    The k-th smallest lies above the median if fewer than k values lie below it: the chance is P(Binomial(n, 1/2) < k).
    k is the largest whose chance is at most (1 - LEVEL) / 2: 6 of 21 values. Fewer than six values give their range.
    """
    n, k, chance = len(values), 0, 0.5 ** len(values)
    while chance <= (1 - LEVEL) / 2:
        k += 1
        chance += math.comb(n, k) * 0.5**n
    ordered = sorted(values)
    return ordered[max(k, 1) - 1], ordered[n - max(k, 1)]
