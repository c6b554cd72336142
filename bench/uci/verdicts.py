"""What a printed mean over splits says, and whether our runs give it.

A run is one training seed on all splits of a set; its number is the mean over splits. Fixed before any run:

- On the author's splits, a printed mean is judged as one more run of ours (`comparison.against_reported`): the splits
  are the same, so seeds alone scatter. It takes `ENOUGH` runs. With D the distance to the nearest number that prints
  so, E to the farthest, h the half-width of the 95 % interval for one more run, and M the margin: contradicted if the
  p-value, adjusted by Holm over the column's comparable values, measured or not, is below `ALPHA`; confirmed if
  E + h <= M; else no single run can tell.
- M is `MARGIN_SHARE` of the author's standard deviation over splits, in his run `MARGIN_RUN`.
- Where the author's result of every split is known, ours are paired with them.
- A mean over other splits is compared by the corrected resampled t (Nadeau and Bengio 2003, Machine Learning 52): test
  parts overlap and training parts more so, so the variance of a mean over n splits is s^2 (1/n + n_test / n_train).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from bench.judge.comparison import (
    ALPHA,
    CANNOT_TELL,
    CONFIRMED,
    CONTRADICTED,
    ENOUGH,
    LEVEL,
    Estimate,
    Reported,
    against_reported,
    holm_over,
    paired,
    quantile,
)
from bench.judge.samples import Samples
from bench.judge.stats.rule import NOT_RUN, TOO_FEW
from bench.uci.data import facts, splits
from bench.uci.published import (
    Column,
    Printed,
    author,
    cut_values,
    kind_by_size,
    kind_by_splits,
    printed,
    spread,
    tables,
    unit,
)
from bench.uci.scores import Run

MARGIN_RUN = "grid2018"
MARGIN_SHARE = 0.1
NOT_COMPARABLE = "not comparable"
Runs = Mapping[int, Mapping[int, float]]  # by training seed, the number of each split


class PairedSplits(NamedTuple):
    """Our number of each split (the mean over seeds) minus the author's."""

    estimate: Estimate  # as if splits were independent; its p is of the plain paired t
    correlation: float  # over splits; nan if one side does not vary
    corrected_p: float  # by the corrected resampled t


@dataclass(frozen=True)
class TableVerdict:
    """The outcome of a printed value."""

    printed: Printed
    outcome: str
    reason: str = ""  # why it is not comparable, or that the difference is small
    ours: Samples = field(default_factory=Samples)  # the mean over splits of each run
    estimate: Estimate | None = None  # without spread for one run
    p_adjusted: float | None = None
    margin: float | None = None
    by_split: PairedSplits | None = None

    @property
    def distance(self) -> float | None:
        """Return our mean minus the nearest number that prints so, in the printed quantity; None without runs."""
        if self.ours.mean is None:
            return None
        report = reported(self.printed)
        return self.printed.of(self.ours.mean - min(max(self.ours.mean, report.low), report.high))


def margin(name: str, metric: str) -> float | None:
    """Return the difference that would matter in a set's RMSE or log-likelihood (rmse, ll); None for other sets."""
    known = spread(MARGIN_RUN, name, metric)
    return None if known is None else MARGIN_SHARE * known.sd


def metric_of(one: Printed, column: Column) -> str | None:
    """Return the metric of `scores.METRICS` that a printed value is; None if the source leaves that open."""
    if one.metric == "rmse":
        return "rmse"
    return {"mixture": "ll_mixture", "gaussian": "ll_gaussian"}.get(column.likelihood)


def in_words(one: Printed) -> str:
    """Say what a printed value truly is."""
    return ", ".join([with_kind(one), *what_it_is(one)])


def with_kind(one: Printed) -> str:
    """Return a printed value, and its error with what that is."""
    text = f"{one.quantity} {one.value}"
    return f"{text} +- {one.error} ({_kind(one, tables().columns[one.column])})" if one.error else text


def what_it_is(one: Printed) -> tuple[str, str, str, str]:
    """Return, of a printed value, its splits, of what it is, its epochs, and by which rows settings were chosen."""
    column = tables().columns[one.column]
    n_splits, epochs = column.splits_of(one.set), column.epochs_of(one.set)
    if one.metric == "rmse":
        of = {"mean": "of the mean", "one network": "of one network"}.get(column.prediction, column.prediction)
    else:
        of = {"mixture": "mixture", "gaussian": "one Gaussian"}.get(column.likelihood, "likelihood not stated")
    return (
        f"{n_splits} splits ({column.splits})" if n_splits else "splits not stated",
        of,
        f"{epochs} epochs" if epochs else "epochs not stated",
        f"tuned: {column.tuned}",
    )


def _kind(one: Printed, column: Column) -> str:
    """Return se or sd: by the result of every split, else as known, else by the size of the column's errors."""
    if (found := kind_by_splits(one, column)) is not None:
        return found
    if column.error in ("se", "sd"):
        return column.error
    kind = kind_by_size(other for other in printed() if other.column == one.column)
    return "unclear" if kind is None else f"{kind}?"


def printed_sd(one: Printed, column: Column) -> float | None:
    """Return the standard deviation over splits behind a printed error; None if its kind or the error is unknown."""
    kind = _kind(one, column)
    if not one.error or kind == "unclear":
        return None
    return float(one.error) * (math.sqrt(column.splits_of(one.set)) if kind.startswith("se") else 1.0)


def reported(one: Printed) -> Reported:
    """Return the interval of the numbers that print as the value, as an RMSE or log-likelihood.

    A value whose digits are cut, by the splits, stands for the numbers beyond it; where the splits are not known and
    another value of its source is cut, for these and for those that round to it.
    """
    size, last, column = abs(one.number), float(unit(one.value)), tables().columns.get(one.column)
    is_cut, sources = one in cut_values(), {value.column.partition(".")[0] for value in cut_values()}
    is_known = column is None or (column.run, one.set, one.metric) in author()
    may_be_cut = is_cut or (not is_known and one.column.partition(".")[0] in sources)
    low, high = size - (0 if is_cut else last / 2), size + (last if may_be_cut else last / 2)
    return Reported(-high, -low) if math.copysign(1.0, one.number) < 0 else Reported(low, high)


def judge_all(found: Mapping[Run, Mapping[str, Runs]]) -> list[TableVerdict]:
    """Judge every printed value by the runs, as `scores.stored` gives, of its column's method and epochs."""
    verdicts = []
    for name, column in tables().columns.items():
        chosen = [run for run in found if (run.method, run.epochs) == (column.method, column.epochs_of(run.set))]
        ours = {(run.set, metric): its for run in chosen for metric, its in found[run].items()}
        verdicts += judge_column(name, ours)
    return verdicts


def judge_column(name: str, ours: Mapping[tuple[str, str], Runs]) -> list[TableVerdict]:
    """Judge every value of a printed column.

    Args:
        name: of the column, as in reported.toml.
        ours: the runs of our fits that the column is compared with, by set and metric of `scores.METRICS`.
    """
    column = tables().columns[name]
    found = [judge(one, column, ours) for one in printed() if one.column == name and one.set in facts()]
    elsewhere = column.splits != "author"  # then our splits scatter too, and one run is enough
    tested = {place: one.estimate for place, one in enumerate(found) if one.ours.n >= ENOUGH or elsewhere}
    adjusted = holm_over(tested, sum(one.outcome != NOT_COMPARABLE for one in found))
    return [_concluded(one, adjusted[place]) if place in adjusted else one for place, one in enumerate(found)]


def judge(one: Printed, column: Column, ours: Mapping[tuple[str, str], Runs]) -> TableVerdict:
    """Return the verdict of one value, of which only `judge_column` knows the adjusted p-value."""
    why, runs = _why_not(one, column), ours.get((one.set, metric_of(one, column) or ""), {})
    if not runs:
        return TableVerdict(one, NOT_COMPARABLE if why else NOT_RUN, why)
    means = Samples({seed: statistics.fmean(values.values()) for seed, values in sorted(runs.items())})
    over_seeds, room = _mean_over_seeds(runs), margin(one.set, one.metric)
    theirs = author().get((column.run, one.set, one.metric))
    by_split = None if theirs is None else pair(one.set, theirs, over_seeds)
    if why:
        return TableVerdict(one, NOT_COMPARABLE, why, means, None, None, room, by_split)
    if column.splits != "author":
        return TableVerdict(one, CANNOT_TELL, "", means, resampled(one, column, over_seeds), None, room)
    estimate = against_reported(means, reported(one)) if means.n > 1 else _distance(means, reported(one))
    return TableVerdict(one, TOO_FEW, "", means, estimate, None, room, by_split)


def _why_not(one: Printed, column: Column) -> str:
    """Return why a value cannot be compared with any run of ours; "" if it can."""
    is_elsewhere = column.splits != "author"
    reasons = {
        "quoted, not read": column.obtained != "read",
        "which likelihood, or which mean, is not stated": metric_of(one, column) is None
        or column.prediction == "median over splits",
        "another target": one.set == "naval-propulsion-plant" and column.naval_target != facts()[one.set].target,
        "other splits; how many, or of what size, is not stated": is_elsewhere
        and not (column.n_splits and column.test_share),
        "other splits, and no error that is known": is_elsewhere and printed_sd(one, column) is None,
        column.unlike: bool(column.unlike),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _mean_over_seeds(runs: Runs) -> dict[int, float]:
    shared = set.intersection(*(set(values) for values in runs.values()))
    return {split: statistics.fmean(values[split] for values in runs.values()) for split in sorted(shared)}


def _distance(means: Samples, report: Reported) -> Estimate:
    only = means.values[0]
    return Estimate(means, Samples(), max(0.0, report.low - only, only - report.high), 0.0, 0, has_spread=False)


def _concluded(one: TableVerdict, p: float) -> TableVerdict:
    """Return the verdict with its outcome, from its adjusted p-value."""
    assert one.estimate is not None
    half, room = one.estimate.half_width() or 0.0, one.margin or 0.0
    low, high, *_ = reported(one.printed)
    ours = one.estimate.first.mean or 0.0
    farthest = max(abs(low - ours), abs(high - ours))
    if one.estimate.second.n:
        is_equal = replace(one.estimate, difference=farthest).equivalence_p(room) < ALPHA
    else:
        is_equal = farthest + half <= room
    outcome = CONTRADICTED if p < ALPHA else CONFIRMED if is_equal else CANNOT_TELL
    is_small = outcome == CONTRADICTED and abs(one.estimate.difference) <= room
    return replace(one, outcome=outcome, p_adjusted=p, reason="by less than the margin" if is_small else "")


def pair(name: str, theirs: Mapping[int, float], ours: Mapping[int, float]) -> PairedSplits | None:
    """Pair the numbers of each split; None for fewer than three splits that both have."""
    estimate = paired(theirs, ours)
    if estimate is None or estimate.n < 3 or not estimate.has_spread:
        return None
    first, second = estimate.first, estimate.second
    varies = bool(first.sd) and bool(second.sd)
    correlation = statistics.correlation(first.values, second.values) if varies else math.nan
    wider = math.sqrt(1 + estimate.n * held_out_ratio(name))
    return PairedSplits(estimate, correlation, replace(estimate, error=estimate.error * wider).p)


def held_out_ratio(name: str) -> float:
    """Return the test rows of a split for each training row."""
    split = splits(name)[0]
    return len(split.test) / len(split.train)


def over_splits(name: str, runs: Runs) -> tuple[float, float]:
    """Return the mean over splits and training seeds, and the half-width of its 95 % interval by the corrected t."""
    values = Samples(_mean_over_seeds(runs))
    assert values.sd is not None, "at least two splits"
    error = values.sd * math.sqrt(1 / values.n + held_out_ratio(name))
    return statistics.fmean(values.values), quantile(0.5 + LEVEL / 2, values.n - 1) * error


def resampled(one: Printed, column: Column, ours: Mapping[int, float]) -> Estimate:
    """Compare our mean over splits with the nearest number that prints as a mean over other splits.

    Both means have the corrected variance, each by its own splits; the degrees of freedom are Welch's.
    """
    values, theirs = Samples(dict(ours)), printed_sd(one, column)
    assert values.sd is not None, "at least two splits"
    assert theirs is not None, "see _why_not"
    sides = [
        (values.sd, values.n, held_out_ratio(one.set)),
        (theirs, column.n_splits, column.test_share / (1 - column.test_share)),
    ]
    parts = [(sd**2 * (1 / n + ratio), n - 1) for sd, n, ratio in sides]
    error = math.sqrt(sum(variance for variance, _ in parts))
    below = sum(variance**2 / freedom for variance, freedom in parts)
    report, mean = reported(one), statistics.fmean(values.values)
    difference = min(max(mean, report.low), report.high) - mean
    return Estimate(values, Samples.of([one.number]), difference, error, error**4 / below if below else math.inf)
