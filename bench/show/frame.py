"""The results as one tidy pandas frame: a row for each number of each record, and for each number that is missing.

>>> from bench.show.frame import folder_frame
>>> frame = folder_frame("results", profile="full")
>>> frame[frame.metric == "mnist/accuracy"].groupby(["approach", "recipe"]).value.mean()

`bench.show.numbers` says how the numbers are named.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from bench.core.errors import ConfigError
from bench.core.project import RESULTS
from bench.core.records import Record
from bench.core.store import Store
from bench.judge.samples import MissingValue, Samples, samples_of
from bench.plan.freshness import is_stale
from bench.show.numbers import Row, rows_of, times_invalid

NAMING = ("approach", "recipe", "protocol", "profile", "device", "precision", "seed", "key")  # fields of a record
NUMBER = Row._fields
COLUMNS = (*NAMING, *NUMBER, "times_invalid", "source")
TRAINED_RUN = ["approach", "recipe", "protocol"]


def frame_of(records: Iterable[Record], source: Callable[[Record], str]) -> pd.DataFrame:
    """Return records as a frame with the columns `COLUMNS`; `source`: whose a record is."""
    found: list[tuple[object, ...]] = []
    for record in records:
        naming = tuple(getattr(record, name) for name in NAMING)
        more = (times_invalid(record), source(record))
        found += [(*naming, *row, *more) for row in rows_of(record)]
    return pd.DataFrame.from_records(found, columns=list(COLUMNS)).astype({"value": "float64"})


def folder_frame(results: str | Path, profile: str | None = None) -> pd.DataFrame:
    """Return the fresh records of a results folder as a frame with the columns `COLUMNS`.

    A value is a float in the metric's own unit, NaN where it is missing. If a trained run has several records of one
    seed, the frame has rows for each. `profile` keeps the records of one profile. A damaged record is left out with a
    warning.

    Raises:
        ConfigError: there is no such folder.
    """
    root = Path(results)
    if not root.is_dir():
        raise ConfigError(f"{root} is not a folder; give one that `run` has filled")
    kept, damaged = Store(root).all_records()
    for problem in damaged:
        warnings.warn(problem.reason, stacklevel=2)
    shown = [record for record in kept if profile in (None, record.profile) and not is_stale(record)]
    source = "shipped" if root.resolve() == RESULTS.resolve() else "own"
    return frame_of(shown, lambda _: source)


class SeedNumbers(NamedTuple):
    """The numbers of one seed of a trained run."""

    key: str  # of the record
    times_invalid: str
    numbers: dict[str, float | MissingValue]

    @property
    def is_finished(self) -> bool:
        """Return whether its record has numbers."""
        return "" not in self.numbers

    def number(self, metric: str) -> float | MissingValue:
        """Return a number, or why there is none."""
        parts = metric.split("/")
        names = ("", *("/".join(parts[:end]) for end in range(len(parts), 0, -1)))
        found = next((self.numbers[name] for name in names if name in self.numbers), None)
        return MissingValue("n/a", f"the record has no '{metric}'") if found is None else found


class TrainedRuns:
    """The seeds of every trained run of a frame of one profile, device and precision, with one record a seed."""

    def __init__(self, frame: pd.DataFrame) -> None:
        """Take the frame. Trained runs are read when they are asked for."""
        self._columns = [frame[name].to_numpy() for name in ("seed", "key", "times_invalid", *NUMBER)]
        self._places = frame.groupby(TRAINED_RUN, sort=False).indices
        self._read: dict[tuple[str, str, str], dict[int, SeedNumbers]] = {}
        self._samples: dict[tuple[str, str, str, str], Samples] = {}  # of all seeds; their standard deviations are slow

    def seeds(self, approach: str, recipe: str, protocol: str) -> dict[int, SeedNumbers]:
        """Return the numbers of each seed of a trained run, in the order of the frame."""
        trained_run = (approach, recipe, protocol)
        if trained_run not in self._read:
            rows = self._places.get(trained_run, [])
            found: dict[int, SeedNumbers] = {}
            for seed, key, invalid, *number in zip(*(column[rows].tolist() for column in self._columns), strict=True):
                row = Row(*number)
                one = found.setdefault(seed, SeedNumbers(key, invalid, {}))
                one.numbers[row.metric] = (
                    MissingValue(row.missing, row.reason, row.is_fault) if row.missing else row.value
                )
            self._read[trained_run] = found
        return self._read[trained_run]

    def sample(
        self, approach: str, recipe: str, protocol: str, metric: str, among: Callable[[SeedNumbers], bool] | None = None
    ) -> Samples:
        """Return a number of every seed of a trained run, or of some seeds."""
        place = (approach, recipe, protocol, metric)
        if among is None and place in self._samples:
            return self._samples[place]
        seeds = self.seeds(approach, recipe, protocol).items()
        found = samples_of({seed: (one.key, one.number(metric)) for seed, one in seeds if among is None or among(one)})
        return found if among else self._samples.setdefault(place, found)
