"""Judges a number of a user by the rule for the documents' numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import NamedTuple

from bench.core.errors import ConfigError, unknown_name
from bench.core.metric_table import BRIER, ENTROPY, FRACTION, GAP, N_CLASSES, NATS, REAL, SIZE, unit_of
from bench.core.records import Record
from bench.core.text import one_line
from bench.data.manifest import MEASURED_NAMES, manifest
from bench.judge.ablation.effects import command
from bench.judge.ablation.single_changes import VARIANT, MetricKey
from bench.judge.alternatives.named import Alternative, alternatives, learns_what_is_measured, others
from bench.judge.alternatives.weighing import PUBLISHED, Against, compare
from bench.judge.claims import LONGEST_QUOTE, NATS_PER_BIT, Claim, PrecisionKind, number
from bench.judge.comparison import ENOUGH
from bench.judge.flatness import records_of
from bench.judge.results import Results
from bench.judge.samples import Samples, metrics_of
from bench.judge.stats.rule import Verdict, judge_one
from bench.measure.metrics.shifts import MOST_ROWS
from bench.plan.recipes import profile, resolve
from bench.plan.registry import manifests
from bench.plan.trained_runs import PROTOCOLS

PRINTED = ("rounded", "truncated", "exact")
_BOUNDS = {  # of a printed number; the bounds in `metric_table` leave room for rounding
    **dict.fromkeys((FRACTION, GAP), (0.0, 1.0)),
    BRIER: (0.0, 2.0),
    ENTROPY: (0.0, math.log(N_CLASSES)),
    **dict.fromkeys((NATS, SIZE), (0.0, math.inf)),
}
PERCENT = 0.01  # the last digit of a fraction that is printed without decimals: 0 is 0 %, and 1 is 100 %
_OF_ALL_IMAGES = ("accuracy", "refusal_rate", "refusal_rate_strict", "disagreement_rate", "sure")  # shares of images


@dataclass(frozen=True)
class OwnNumber:
    """A number of a user, and where it comes from."""

    approach: str
    metric: str  # a name such as "accuracy", or a key of a record such as "mnist/test10k/accuracy"
    reported: str  # as it is printed
    recipe: str = PUBLISHED
    protocol: str = PUBLISHED
    printed: PrecisionKind = "rounded"  # one of `PRINTED`
    margin: float | None = None  # the difference that would matter; None: that of a similar number of the documents


class JudgedNumber(NamedTuple):
    """A user's number, its verdict, and what is known of it under each alternative."""

    own: OwnNumber
    key: str  # of the metric, in the records
    verdict: Verdict
    against: Against


def judge_own(own: OwnNumber, results: Results, claims: Iterable[Claim]) -> JudgedNumber:
    """Judge a number and compare it with its alternatives; raises ConfigError if it cannot be judged.

    `results` has the records of the approach's group; the margins of `claims` serve as the default.
    """
    records = _records(own, results)
    key = _key(own, sorted({name for record in records for name in record.metrics}))
    claim = _claim(own, key, claims, records[0].profile)
    ours, found = metrics_of(records, key), []

    def read(approach: str, recipe: str) -> Samples:
        return metrics_of(records_of(results, approach, recipe, own.protocol), key)

    for one in _others(own, results, claim.split):
        found.append(compare(claim, one, own.protocol, ours, read(one.approach, one.recipe)))
    alike = others(results, own.approach, own.recipe, own.protocol, claim.split, partial(read, own.approach))
    return JudgedNumber(own, key, judge_one(claim, ours, others=alike), Against(claim, tuple(found)))


def _records(own: OwnNumber, results: Results) -> list[Record]:
    """Return the records of the number's recipe and protocol; raises ConfigError for unknown names or no record."""
    if own.approach not in results.approaches:
        raise unknown_name("approach", own.approach, {*manifests(), *results.approaches})
    if own.protocol not in PROTOCOLS:
        raise unknown_name("protocol", own.protocol, PROTOCOLS)
    if own.approach in results.manifests:
        resolve(results.manifests[own.approach], own.recipe)  # raises for an unknown recipe
    found = records_of(results, own.approach, own.recipe, own.protocol)
    if not any(record.metrics for record in found):
        place = MetricKey(own.approach, own.recipe, own.protocol, "")
        where = f"{place.fit_text()} by protocol {own.protocol} under these conditions"
        other = [name for name in PROTOCOLS if any(one.metrics for one in results.trained_run(*place[:2], name))]
        remedy = f"--protocol {other[0]} has some" if other else f"`{command(place, ENOUGH)}` makes them"
        raise ConfigError(f"no finished record of {where}; {remedy}")
    return found


def _others(own: OwnNumber, results: Results, split: str) -> list[Alternative]:
    """Return the alternatives to the number's recipe; the published recipe is one, unless the number is of it."""
    entry = results.manifests.get(own.approach)
    if entry is None:
        return []
    named = [one for one in alternatives(entry) if not learns_what_is_measured(one, entry, split)]
    if own.recipe != PUBLISHED:
        named.insert(0, Alternative(VARIANT, own.approach, PUBLISHED))
    return [one for one in named if (one.approach, one.recipe) != (own.approach, own.recipe)]


def _key(own: OwnNumber, keys: Sequence[str]) -> str:
    """Return the key of the number's metric; the user gave the key, or a name that leads to one key."""
    if own.metric in keys:
        return own.metric
    every = [key for key in keys if key.rpartition("/")[2] == own.metric]
    if not every:
        names = {key.rpartition("/")[2] for key in keys}
        where = f"metric of {own.approach} by protocol {own.protocol}"
        raise unknown_name(where, one_line(own.metric, LONGEST_QUOTE), names)
    for is_meant in (
        lambda key: "/train" not in key,
        lambda key: key.startswith("mnist/"),
        lambda key: "random" not in key and "mean_network" not in key,  # all images, all draws
        lambda key: "/heldout" not in key,
    ):
        if len(every) > 1:
            every = [key for key in every if is_meant(key)] or every
    if len(every) > 1:
        raise ConfigError(f"metric '{own.metric}' is measured in several places; give one of {', '.join(every)}")
    return every[0]


def _claim(own: OwnNumber, key: str, claims: Iterable[Claim], budget: str) -> Claim:
    """Return the number as a claim; raises ConfigError if the metric cannot have it, or no margin is known."""
    dataset, _, rest = key.partition("/")
    split, _, metric = rest.rpartition("/")
    text = one_line(own.reported, LONGEST_QUOTE)
    value = number(text)
    if value is None:
        raise ConfigError(f"reported number '{text}' is not a number, not finite or too large; give one such as 0.985")
    metric_unit = unit_of(metric) or REAL
    unit = min(_last_digit(text), PERCENT if metric_unit is FRACTION and "." not in text else math.inf)
    low, high = _BOUNDS.get(metric_unit, (metric_unit.low, metric_unit.high))
    if not low <= value <= high:
        raise ConfigError(f"{text} is not a possible {metric}; give a number from {low:g} to {high:.4g}")
    margin, reason = (own.margin, "given") if own.margin is not None else _margin(key, value, own, claims)
    return Claim(
        id=f"{own.approach}.{metric}",
        source="your number",
        approach=own.approach,
        stage="final",
        metric=metric,
        dataset=dataset,
        split=split if own.protocol == PUBLISHED else _images(dataset, metric, own.protocol, budget),
        protocol=own.protocol,
        unit="fraction" if metric_unit is FRACTION else "nats" if metric_unit is ENTROPY else "",
        printed=text,
        precision=0.0 if own.printed == "exact" else unit,
        precision_kind=own.printed,
        margin=margin,
        margin_reason=reason,
        n_runs=1,
        locator="",
        note="",
    )


def _images(dataset: str, metric: str, protocol: str, budget: str) -> str:
    """Return the images of a share by the common or the shift protocol, such as "1000 images"; '' for other metrics.

    The rule of verdicts takes the number of images from a split's name, to choose the scale. The keys of these two
    protocols have no such name.
    """
    if metric.partition("@")[0] not in _OF_ALL_IMAGES or dataset not in MEASURED_NAMES:
        return ""
    most = [manifest(dataset).n_measured, MOST_ROWS if protocol == "shift" else None, profile(budget).common_rows]
    return f"{min(n for n in most if n is not None)} images"


def _last_digit(text: str) -> float:
    """Return one unit of the last printed digit."""
    exponent = Decimal(text).as_tuple().exponent
    assert isinstance(exponent, int), "the number is finite"
    return float(Decimal(1).scaleb(exponent))


def _margin(key: str, value: float, own: OwnNumber, claims: Iterable[Claim]) -> tuple[float, str]:
    """Return margin and reason of the most similar claim on this metric, by approach, then split, then value."""
    dataset, _, rest = key.partition("/")
    split, _, metric = rest.rpartition("/")
    alike = [claim for claim in claims if claim.metric == metric and claim.dataset == dataset and claim.margin > 0]
    if not alike:
        what = f"{metric} on {dataset}"
        raise ConfigError(f"no margin is declared for {what}; give --margin, the difference that would matter")

    def distance(claim: Claim) -> tuple[bool, bool, float]:
        return claim.approach != own.approach, claim.split != split, abs(_in_nats(claim, claim.value) - value)

    nearest = min(alike, key=distance)
    return _in_nats(nearest, nearest.margin), f"as declared for {nearest.id}"


def _in_nats(claim: Claim, value: float) -> float:
    return value * NATS_PER_BIT if claim.unit == "bits" else value
