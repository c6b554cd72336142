"""A curve over epochs as one claim: one statistic for each run.

The runs are the report and our k seeds. The numbers of every epoch, on its claim's scale, are standardised by the mean
and standard deviation of all k + 1 runs. The statistic of a run is the mean over its epochs. The t rule compares the
statistic of the report with those of our seeds. The margin is the mean of the epochs' margins, standardised too.
Standardising by our seeds alone would raise the rate of false alarms to 10 to 12 %. A curve of one epoch, or of epochs
that move together, is judged like a single claim.

Before, the p-value of a curve was the smallest p-value of its epochs times their number. It misses a curve that lies a
little high everywhere, and one epoch whose seeds agree by chance can decide it. The statistic replaced it on
2026-11-23, after alsibahi2019's training accuracy had been seen: it lies above ours in most of its 50 epochs. So both
p-values are shown.

All claims of a document together: could one run of ours have given them all?

The statistic is Fisher's: -2 times the sum of the logarithms of the claims' p-values. Claims of one fit depend on each
other, so it does not have a chi-squared distribution, and we simulate its distribution, with the spread of each claim's
own seeds. A simulation draws k + 1 runs
of normal numbers. The claims of an approach have the correlations that our k seeds show, shrunk by `SHRINKAGE` towards
0; approaches are independent. The last run is the report: it is printed with as many digits as in the document, and
judged by the other k runs.

Source: Fisher 1932, Statistical Methods for Research Workers; Brown 1975 (Biometrics 31) on dependent tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bench.core.canonical import stream_seed
from bench.judge.claims import Claim, ClaimRow
from bench.judge.comparison import ALPHA, ENOUGH, Reported, one_more_error
from bench.judge.samples import Samples
from bench.judge.stats.on_scale import OnScale, on_scale
from bench.judge.stats.rule import TOO_FEW, is_exact

SEEN_BEFORE = "alsibahi2019/dropout_fcn/accuracy/mnist/train50k"
"""The curve that had been seen when the statistic was chosen."""


@dataclass(frozen=True)
class Curve:
    """The points of a curve, the numbers that decide it, and its verdict."""

    name: str
    rows: tuple[ClaimRow, ...]  # the measured points, in the order of the claims
    on_scale: OnScale | None  # None with fewer than two seeds, or where the seeds of the epochs are not the same
    smallest_p: float | None  # the smallest p-value of its points, times their number
    outcome: str = TOO_FEW
    p_adjusted: float | None = None  # over the document's claims, if the curve was tested
    level: float = ALPHA  # at which the curve is tested

    @property
    def first(self) -> Claim:
        """Return its first point."""
        return self.rows[0].claim

    @property
    def is_testable(self) -> bool:
        """Return whether there are enough seeds, none of which failed."""
        return all(row.sample.n >= ENOUGH and not row.sample.missing_value for row in self.rows)


def curve_name(claim: Claim) -> str:
    """Return the curve that a claim is a point of; '' for a number that stands alone, or is of several runs."""
    if claim.stage == "final" or claim.spread is not None or is_exact(claim):
        return ""
    return "/".join([claim.source, claim.approach, claim.metric, claim.dataset, claim.split])


def curves(rows: Iterable[ClaimRow]) -> list[Curve]:
    """Return the curves with at least two measured points, in the order of the claims."""
    found: dict[str, list[ClaimRow]] = {}
    for row in rows:
        if row.sample.n and (name := curve_name(row.claim)):
            found.setdefault(name, []).append(row)
    return [_curve(name, members) for name, members in found.items() if len(members) > 1]


def _curve(name: str, rows: Sequence[ClaimRow]) -> Curve:
    points = [on_scale(row.claim, row.sample) for row in rows]
    known = [point for point in points if point is not None]
    smallest = min(1.0, len(rows) * min(point.estimate.p for point in known)) if known else None
    # Values have no seed numbers. The seeds count as the same if their number and their missing values are equal.
    are_same_seeds = len({(row.sample.n, row.sample.missing_value) for row in rows}) == 1 and len(known) == len(rows)
    return Curve(name, tuple(rows), curve_on_scale(known) if are_same_seeds else None, smallest)


def curve_on_scale(points: Sequence[OnScale]) -> OnScale:
    """Return a curve as one claim, from its points, which have the same seeds in the same order."""
    ours = np.array([point.ours.values for point in points])
    low, high = np.array([(point.reported.low, point.reported.high) for point in points]).T
    margins = np.array([point.margin for point in points])
    runs = np.column_stack([ours, (low + high) / 2])
    mean, sd = runs.mean(axis=1), runs.std(axis=1, ddof=1)
    moves = sd > 0  # an epoch in which all runs are equal tells nothing
    if not moves.any():
        return OnScale(Samples.of([0.0] * ours.shape[1]), Reported(0.0, 0.0), float(margins.mean()))
    mean, sd = mean[moves], sd[moves]
    values = ((ours[moves] - mean[:, None]) / sd[:, None]).mean(axis=0)
    first, last = (float(((end[moves] - mean) / sd).mean()) for end in (low, high))
    return OnScale(Samples.of(values.tolist()), Reported(first, last), float((margins[moves] / sd).mean()))


DUPLICATES = {
    "chopra2018.prose.forced_accuracy": "repeats random_module.forced_accuracy",
    "chopra2018.prose.refused_range": "repeats random_module.refused",
    "chopra2018.prose.accepted_range": "repeats random_module.accepted_accuracy",
    "chopra2018.random_module.first100_incorrect": "three fractions add up to 1; this is the rarest, the least normal",
    "chopra2018.random_module.notmnist_first100_refused": "100 of the 459 letters of random_module.notmnist_refused",
}
"""Claims that repeat another claim of their document, and why. They get a verdict, but the joint p leaves them out."""
SHRINKAGE = 0.02  # with .3, 6 to 11 % of true documents with correlations of .5 to .9 have p < .05
SIMULATIONS = 20_000
STREAM = "joint p"
SMALLEST_P = 1e-300  # smaller p-values count as this, so that the logarithm is finite
BLOCK = 2_000  # simulations at a time, to save memory

Floats = NDArray[np.float64]


def joint_p(
    document: str, claims: Sequence[tuple[str, OnScale]], shrinkage: float = SHRINKAGE, simulations: int = SIMULATIONS
) -> float:
    """Return the joint p-value of a document's claims and curves, each given with the approach that measured it."""
    blocks: dict[tuple[str, int], list[OnScale]] = {}
    for approach, claim in claims:
        blocks.setdefault((approach, claim.ours.n), []).append(claim)
    observed = sum(_fisher(np.array([[one.own_estimate.p for one in found]])).item() for found in blocks.values())
    simulated = np.zeros(simulations)
    for (approach, n), found in blocks.items():
        source = np.random.Generator(np.random.PCG64(stream_seed(0, f"{STREAM}/{document}/{approach}", n)))
        for start in range(0, simulations, BLOCK):
            p = simulated_p(found, source, min(BLOCK, simulations - start), shrinkage)
            simulated[start : start + BLOCK] += _fisher(p)
    reached = int((simulated >= observed - 1e-9).sum())
    return (reached + 1) / (simulations + 1)


def simulated_p(claims: Sequence[OnScale], source: np.random.Generator, times: int, shrinkage: float) -> Floats:
    """Return the p-values [times, claims] of simulated reports, each one more run beside an approach's k seeds."""
    k = claims[0].ours.n
    factor = np.linalg.cholesky(correlations(np.array([claim.ours.values for claim in claims]), shrinkage))
    runs = source.standard_normal((times, k + 1, len(claims))) @ factor.T
    ours, report = runs[:, :k], runs[:, k]
    # Half of the print interval, in standard deviations. Rounding puts the run anywhere in its print interval.
    half = np.array([_half_print(one) for one in claims])
    printed = report + half * source.uniform(-1, 1, report.shape)
    mean = ours.mean(axis=1)
    variance = (np.einsum("tkc,tkc->tc", ours, ours) - k * mean**2) / (k - 1)
    distance = np.maximum(0.0, np.abs(printed - mean) - half)
    t = distance / (np.sqrt(variance) * one_more_error(1.0, k))
    return np.asarray(np.where(distance > 0, 2 * special.stdtr(k - 1, -t), 1.0))


def _half_print(claim: OnScale) -> float:
    width = claim.reported.high - claim.reported.low
    return width / 2 / claim.ours.sd if claim.ours.sd else 0.0


def correlations(values: Floats, shrinkage: float) -> Floats:
    """Return the correlations [claims, claims] between rows of seeds, shrunk towards 0; a constant row has 0."""
    centred = values - values.mean(axis=1, keepdims=True)
    length = np.sqrt((centred**2).sum(axis=1, keepdims=True))
    unit = np.divide(centred, length, out=np.zeros_like(centred), where=length > 0)
    found = (1 - shrinkage) * unit @ unit.T
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


def _fisher(p: Floats) -> Floats:
    return np.asarray(-2 * np.log(np.maximum(p, SMALLEST_P)).sum(axis=-1))
