"""The effect of each rung: differences of numbers of the same seeds, from records and readings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bench.core.records import Record
from bench.core.text import FRACTION_DIFFERENCE
from bench.judge.comparison import Estimate, leaves_unit_interval, paired
from bench.judge.ladder.rungs import Ladder, Place, Rung
from bench.judge.results import Results
from bench.judge.samples import NO_RECORD, Gap, metric, unfinished
from bench.judge.shorter import records_of

FRACTIONS = ("accuracy", "ece", "auroc", "refusal", "error", "held_out_error")  # quantities between 0 and 1
SEEDS = 3  # that a printed command asks for, by default


class Effect(NamedTuple):
    """The change of one quantity on one data set."""

    estimate: Estimate | None  # after minus before, by seed; None if the two sides have no seed in common
    gaps: tuple[Gap, ...] = ()  # why seeds of either side have no number


class Numbers:
    """Looks up the numbers of every seed, in records and in readings."""

    def __init__(self, results: Results, readings: Iterable[Record]) -> None:
        """Keep the records, and the readings by the key of their fit."""
        self.results = results
        self._readings = {reading.fit_key: reading for reading in readings}

    def by_seed(self, place: Place) -> tuple[Mapping[int, float], tuple[Gap, ...]]:
        """Return the number of every seed that has one, and why other seeds have none."""
        is_reading = place.source == "reading"
        protocol = "common" if is_reading else place.source
        records = records_of(self.results, place.approach, place.recipe, protocol)
        if not records:
            return {}, (Gap(NO_RECORD, f"`{command(place)}` measures it"),)
        found: dict[int, float] = {}
        gaps: dict[Gap, None] = {}
        for record in sorted(records, key=lambda record: record.seed):
            value = self._value(record, place)
            if isinstance(value, Gap):
                gaps[value] = None
            else:
                found[record.seed] = value
        return found, tuple(gaps)

    def _value(self, record: Record, place: Place) -> float | Gap:
        if record.outcome != "done":
            gap = unfinished(record)
            return Gap(gap.code, f"{place.fit_text()}, seed {record.seed}: {gap.reason}", gap.is_fault)
        if place.source != "reading":
            return metric(record, place.key)
        reading = self._readings.get(record.fit_key)
        if reading is None:
            return Gap(
                "not read", f"`{command(place)}` reads it, in the results folder that has the posteriors of these fits"
            )
        return metric(reading, place.key)

    def effect(self, before: Place, after: Place) -> Effect:
        """Return the differences, after minus before, of the seeds that have both numbers."""
        first, gaps = self.by_seed(before)
        second, more = self.by_seed(after)
        found = paired(first, second)
        if first and not second:  # the side without any number comes first
            gaps, more = more, gaps
        gaps = tuple(dict.fromkeys((*gaps, *more)))
        if found is None and not gaps:
            gaps = (
                Gap(NO_RECORD, f"the two sides have no seed in common; `{command(after)}` measures the first seeds"),
            )
        return Effect(found, gaps)


def command(place: Place, n_seeds: int = SEEDS) -> str:
    """Return the command that measures a number."""
    if place.source == "reading":
        return f"python -m bench ladder {place.approach} --run --seeds {n_seeds}"
    recipe = f"--recipe {place.recipe} --protocol {place.source}"
    return f"python -m bench run {place.approach} {recipe} --seeds {n_seeds}"


def effects(ladder: Ladder, numbers: Numbers) -> list[tuple[Rung, dict[tuple[str, str], Effect]]]:
    """Return the rungs in order, each with its effect on every (data set, quantity)."""
    return [
        (rung, {what: numbers.effect(before, after) for what, (before, after) in rung.numbers.items()})
        for rung in ladder.rungs
    ]


def seeds_lost(effect: Effect) -> list[Gap]:
    """Return why seeds of an effect have no number, except for a side that was not measured at all."""
    return [gap for gap in effect.gaps if gap.code not in (NO_RECORD, "not read")]


def effect_text(effect: Effect, quantity: str) -> str:
    """Return a difference as text, such as "+0.0016 [+0.0003, +0.0029]"; one seed has no interval."""
    found = effect.estimate
    assert found is not None
    mark = "*" if seeds_lost(effect) else ""
    if found.is_identical:
        return f"same{mark}"
    text, interval = FRACTION_DIFFERENCE.text(found.difference), found.interval()
    if interval is not None:
        start = found.first.mean or 0.0
        is_rough = quantity in FRACTIONS and leaves_unit_interval(start + interval[0], start + interval[1])
        low, high = map(FRACTION_DIFFERENCE.text, interval)
        text += f" {'~' * is_rough}[{low}, {high}]"
    return text + mark
