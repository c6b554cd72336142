"""The effect of each single change: differences of numbers of the same seeds, from records and derived metrics."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from bench.core.records import Record
from bench.core.text import FRACTION_DIFFERENCE
from bench.judge.ablation.single_changes import Ablation, MetricKey, SingleChange
from bench.judge.comparison import Estimate, leaves_unit_interval, paired
from bench.judge.flatness import records_of
from bench.judge.results import Results
from bench.judge.samples import NO_RECORD, MissingValue, metric, unfinished

FRACTIONS = ("accuracy", "ece", "auroc", "refusal", "error", "held_out_error")  # quantities between 0 and 1
SEEDS = 3  # that a printed command asks for, by default


class Effect(NamedTuple):
    """The change of one quantity on one data set."""

    estimate: Estimate | None  # after minus before, by seed; None if the two sides have no seed in common
    missing_values: tuple[MissingValue, ...] = ()  # why seeds of either side have no number
    sources: tuple[str, ...] = ()  # keys of the records of both sides


class Numbers:
    """Looks up the numbers of every seed, in records and in derived metrics."""

    def __init__(self, results: Results, derived_metrics: Iterable[Record]) -> None:
        """Keep the records, and the derived metrics by the key of their fit."""
        self.results = results
        self._derived_metrics = {derived.fit_key: derived for derived in derived_metrics}
        self._effects: dict[tuple[MetricKey, MetricKey], Effect] = {}

    def by_seed(self, place: MetricKey) -> tuple[Mapping[int, float], tuple[MissingValue, ...]]:
        """Return the number of every seed that has one, and why other seeds have none."""
        records = self._records(place)
        if not records:
            return {}, (MissingValue(NO_RECORD, f"`{command(place)}` measures it"),)
        found: dict[int, float] = {}
        missing_values: dict[MissingValue, None] = {}
        for record in sorted(records, key=lambda record: record.seed):
            value = self._value(record, place)
            if isinstance(value, MissingValue):
                missing_values[value] = None
            else:
                found[record.seed] = value
        return found, tuple(missing_values)

    def sources(self, place: MetricKey, seeds: Collection[int]) -> tuple[str, ...]:
        """Return the keys of the records of these seeds that have a number, or from which it is derived."""
        return tuple(record.key for record in self._records(place) if record.seed in seeds)

    def _records(self, place: MetricKey) -> Sequence[Record]:
        protocol = "common" if place.source == "derived" else place.source
        return records_of(self.results, place.approach, place.recipe, protocol)

    def _value(self, record: Record, place: MetricKey) -> float | MissingValue:
        if record.outcome != "done":
            missing_value = unfinished(record)
            return MissingValue(
                missing_value.code,
                f"{place.fit_text()}, seed {record.seed}: {missing_value.reason}",
                missing_value.is_fault,
            )
        if place.source != "derived":
            return metric(record, place.key)
        derived = self._derived_metrics.get(record.fit_key)
        if derived is None:
            return MissingValue(
                "not read", f"`{command(place)}` reads it, in the results folder that has the posteriors of these fits"
            )
        return metric(derived, place.key)

    def effect(self, before: MetricKey, after: MetricKey) -> Effect:
        """Return the differences, after minus before, of the seeds that have both numbers."""
        if (before, after) not in self._effects:  # tables, figures and findings ask for the same ones
            self._effects[before, after] = self._effect(before, after)
        return self._effects[before, after]

    def _effect(self, before: MetricKey, after: MetricKey) -> Effect:
        first, missing_values = self.by_seed(before)
        second, more = self.by_seed(after)
        found = paired(first, second)
        if first and not second:  # the side without any number comes first
            missing_values, more = more, missing_values
        missing_values = tuple(dict.fromkeys((*missing_values, *more)))
        if found is None and not missing_values:
            missing_values = (
                MissingValue(
                    NO_RECORD, f"the two sides have no seed in common; `{command(after)}` measures the first seeds"
                ),
            )
        seeds = () if found is None else tuple(found.first.by_seed)
        return Effect(found, missing_values, (*self.sources(before, seeds), *self.sources(after, seeds)))


def command(place: MetricKey, n_seeds: int = SEEDS) -> str:
    """Return the command that measures a number."""
    if place.source == "derived":
        return f"python -m bench ablation {place.approach} --run --seeds {n_seeds}"
    recipe = f"--recipe {place.recipe} --protocol {place.source}"
    return f"python -m bench run {place.approach} {recipe} --seeds {n_seeds}"


def effects(ablation: Ablation, numbers: Numbers) -> list[tuple[SingleChange, dict[tuple[str, str], Effect]]]:
    """Return the single changes in order, each with its effect on every (data set, quantity)."""
    return [
        (
            single_change,
            {what: numbers.effect(before, after) for what, (before, after) in single_change.numbers.items()},
        )
        for single_change in ablation.single_changes
    ]


def seeds_lost(effect: Effect) -> list[MissingValue]:
    """Return why seeds of an effect have no number, except for a side that was not measured at all."""
    return [
        missing_value for missing_value in effect.missing_values if missing_value.code not in (NO_RECORD, "not read")
    ]


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
