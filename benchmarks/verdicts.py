"""How often the rule of verdicts errs: python -m benchmarks.verdicts [--results DIR] [--times N].

First by simulation, with reports that are one more run of normal seeds; the rates of one claim also with seeds that are
not normal, and with a spread that is pooled over recipes. Then on our own records: five of the seeds
judge each of the others, which are true reports that nobody used. Prints two tables; docs/verdicts.md says what they
show.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.cli.main import Parser, guarded
from bench.cli.options import count
from bench.core.canonical import stream_seed
from bench.core.errors import ConfigError
from bench.judge.comparison import ALPHA, LEVEL, Reported, against_reported, holm_over, one_more_error, quantile
from bench.judge.samples import Samples
from bench.judge.stats.curves import SHRINKAGE, curve_on_scale, joint_p
from bench.judge.stats.on_scale import OnScale, pool
from bench.judge.stats.rule import Verdict
from bench.judge.stats.scales import IDENTITY, LOG, Scale, to_scale
from bench.show.inputs import Inputs

CLAIMS, EPOCHS = 12, 20  # claims of a simulated document, epochs of a simulated curve
SEEDS = (5, 10, 20)
CORRELATIONS = (0.0, 0.5, 0.9)
LEAST = 100  # simulations; fewer cannot measure a rate of .05
FEW = 5  # seeds that judge the others
ENOUGH_LEFT = 10  # seeds of a claim; with fewer, too few are left to be judged
TITLE = "| scale | numbers | reports not used | inside 95 % | below | above |"

RECIPES = 4  # other recipes, of `FEW` seeds each, that may be pooled
MANY = 50  # simulations of a single claim, for each of a document: the small level needs more
SKEW = 0.5  # standard deviation of the logarithm of skewed seeds
BAD = 5.0  # times the standard deviation of the other seeds

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]


def main(words: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = Parser(
        prog="python -m benchmarks.verdicts", description="how often the rule of verdicts errs", allow_abbrev=False
    )
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="DIR")
    parser.add_argument("--times", type=count, default=2000, help="simulated documents and curves (default: 2000)")
    return guarded(lambda: _tables(parser.parse_args(words)))


def _tables(arguments: argparse.Namespace) -> int:
    times = arguments.times
    if times < LEAST:
        raise ConfigError(f"--times {times}: some tables simulate a quarter of it; give {LEAST} or more")
    print(f"Simulated {times:,} times each, * {times // 4:,} times: standard error {_error(times):.3f}, * ", end="")
    print(f"{_error(times // 4):.3f} at .05\n")
    print("| what is true | " + " | ".join(f"{k} seeds" for k in SEEDS) + " |\n|---|" + "---:|" * len(SEEDS))
    for title, rate in _rates(arguments.times):
        print(f"| {title} | " + " | ".join(f"{value:.3f}" for value in rate) + " |")
    print(f"\n{TITLE}\n|---|---:|---:|---:|---:|---:|")
    verdicts = Inputs(arguments.results).judgement
    logarithmic = [verdict for verdict in verdicts.points if verdict.scale == LOG]  # no end result has this scale
    for name, found in _by_scale([*verdicts.ends, *logarithmic]):
        print(_coverage_line(name, found))
    return 0


def _error(times: int) -> float:
    return math.sqrt(ALPHA * (1 - ALPHA) / times)


def _source(name: str) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(stream_seed(0, f"benchmarks/verdicts/{name}")))


def _rates(times: int) -> Iterator[tuple[str, list[float]]]:
    """Yield the title of each simulation and its rate for each number of seeds."""
    for r in CORRELATIONS:
        title = f"any of {CLAIMS} true claims that correlate by {r:g} is contradicted"
        yield title, [_any_differs(r, k, times) for k in SEEDS]
    for r in CORRELATIONS:
        title = f"a true curve of {EPOCHS} epochs that correlate by {r:g} has p < .05"
        yield title, [_curve(r, k, times) for k in SEEDS]
    for shrinkage in (SHRINKAGE, 0.3):
        for r in CORRELATIONS:
            title = f"a true document has joint p < .05, correlations {r:g}, shrinkage {shrinkage:g} *"
            yield title, [_joint(r, k, shrinkage, times) for k in SEEDS]
    for name, draw in NOT_NORMAL.items():
        for level in (ALPHA, ALPHA / CLAIMS):
            title = f"one true claim is contradicted at level {level:.4f}, {name}"
            yield title, [_outside(k, times, level, name, draw) for k in SEEDS]
    for factor in (1.0, 0.5):
        title = f"the same at {ALPHA}, normal, pooled if allowed with {RECIPES} recipes of {factor:g} times our sd"
        yield title, [_pooled(k, factor, times) for k in SEEDS]
    yield f"a shift of R is seen, one of {CLAIMS} claims", [_power(k, times) for k in SEEDS]
    yield f"a shift of 6 sd is seen, one of {CLAIMS} claims", [_power(k, times, 6.0) for k in SEEDS]


def _runs(source: np.random.Generator, correlation: float, n: int, k: int) -> Floats:
    """Return [n, k + 1] runs with a correlation between the rows."""
    own, common = source.normal(size=(n, k + 1)), source.normal(size=k + 1)
    return np.asarray(math.sqrt(1 - correlation) * own + math.sqrt(correlation) * common)


def _claims(runs: Floats) -> list[OnScale]:
    """Return a claim for each row; the last run is the report."""
    return [OnScale(Samples.of(ours), Reported(report, report), 1.0) for *ours, report in runs.tolist()]


def _any_differs(correlation: float, k: int, times: int) -> float:
    source, alarms = _source(f"any/{correlation}/{k}"), 0
    for _ in range(times):
        found = enumerate(_claims(_runs(source, correlation, CLAIMS, k)))
        alarms += any(adjusted < ALPHA for adjusted in holm_over({row: one.estimate for row, one in found}).values())
    return alarms / times


def _curve(correlation: float, k: int, times: int) -> float:
    source = _source(f"curve/{correlation}/{k}")
    found = (curve_on_scale(_claims(_runs(source, correlation, EPOCHS, k))).estimate.p for _ in range(times))
    return sum(p < ALPHA for p in found) / times


def _joint(correlation: float, k: int, shrinkage: float, times: int) -> float:
    source, alarms = _source(f"joint/{correlation}/{k}"), 0
    for number in range(times // 4):
        claims = [("a", one) for one in _claims(_runs(source, correlation, CLAIMS // 2, k))]
        alarms += joint_p(f"simulated {number}", claims, shrinkage, simulations=500) < ALPHA
    return alarms / (times // 4)


def _half_width(k: int, level: float = LEVEL) -> float:
    """Return the half-width of the prediction interval for one more run, in standard deviations of k runs."""
    return quantile(0.5 + level / 2, k - 1) * one_more_error(1.0, k)


def _outside(k: int, times: int, level: float, name: str, draw: Draw) -> float:
    """Return how often one more run lies outside of the interval of k runs, as if all were normal."""
    runs = draw(_source(f"outside/{name}/{k}"), (MANY * times, k + 1))
    width = runs[:, :k].std(axis=1, ddof=1) * _half_width(k, 1 - level)
    return float(np.mean(np.abs(runs[:, k] - runs[:, :k].mean(axis=1)) > width))


def _pooled(k: int, factor: float, times: int) -> float:
    """Return how often a true claim is contradicted whose spread may be pooled with that of other recipes."""
    source, alarms = _source(f"pooled/{k}/{factor}"), 0
    for _ in range(times):
        *ours, report = source.normal(size=k + 1).tolist()
        others = (factor * source.normal(size=(RECIPES, FEW))).tolist()
        own = Samples.of(ours)
        claim = OnScale(own, Reported(report, report), 1.0, pooled=pool(own, [Samples.of(one) for one in others]))
        alarms += claim.estimate.p < ALPHA
    return alarms / times


def _normal(source: np.random.Generator, size: tuple[int, int]) -> Floats:
    return source.normal(size=size)


def _heavy(source: np.random.Generator, size: tuple[int, int]) -> Floats:
    return source.standard_t(3, size=size)


def _skewed(source: np.random.Generator, size: tuple[int, int]) -> Floats:
    return source.lognormal(sigma=SKEW, size=size)


def _one_bad_in_ten(source: np.random.Generator, size: tuple[int, int]) -> Floats:
    """Return normal runs; one in ten has BAD times the standard deviation."""
    return source.normal(size=size) * np.where(source.random(size) < 0.1, BAD, 1.0)


NOT_NORMAL: dict[str, Draw] = {
    "normal": _normal,
    "t with 3 degrees of freedom": _heavy,
    f"lognormal (log has sd {SKEW:g})": _skewed,
    f"one bad seed in ten (sd x {BAD:g})": _one_bad_in_ten,
}


def _power(k: int, times: int, shift: float | None = None) -> float:
    """Return how often a shift of the mean in standard deviations contradicts a claim; by default, of R."""
    level = ALPHA / CLAIMS
    ours = Samples.of(np.random.default_rng(0).normal(size=k))
    estimate = against_reported(ours, Reported(0.0, 0.0))
    if shift is None:
        shift = estimate.resolution(level) / (ours.sd or 1.0)  # in standard deviations, whatever the runs
    runs = _source(f"power/{k}").normal(size=(10 * times, k + 1))
    width = runs[:, :k].std(axis=1, ddof=1) * _half_width(k, 1 - level)
    return float(np.mean(np.abs(runs[:, k] + shift - runs[:, :k].mean(axis=1)) > width))


def _by_scale(verdicts: Sequence[Verdict]) -> Iterator[tuple[str, list[tuple[Verdict, Scale]]]]:
    """Yield the claims with enough seeds by scale; those of log and logit again as if their scale were identity."""
    measured = [verdict for verdict in verdicts if verdict.sample.n >= ENOUGH_LEFT and not verdict.sample.missing_value]
    for name in ("identity", "log", "logit"):
        mine = [verdict for verdict in measured if verdict.scale.name == name]
        if mine:
            yield name, [(verdict, verdict.scale) for verdict in mine]
            if name != IDENTITY.name:
                yield f"{name}, were it identity", [(verdict, IDENTITY) for verdict in mine]


def _coverage_line(name: str, found: Sequence[tuple[Verdict, Scale]]) -> str:
    """Return the row of a scale: the shares of seeds inside, below and above the interval that other seeds give.

    Each `FEW` seeds that follow each other judge all the others.
    """
    below = above = reports = 0
    for verdict, scale in found:
        values = np.array([to_scale(scale, value) for value in verdict.sample.values])
        for start in range(len(values)):
            chosen = [(start + step) % len(values) for step in range(FEW)]
            ours, others = values[chosen], np.delete(values, chosen)
            width = ours.std(ddof=1) * _half_width(FEW) + 1e-12
            below += int((others < ours.mean() - width).sum())
            above += int((others > ours.mean() + width).sum())
            reports += others.size
    inside = reports - below - above
    shares = " | ".join(f"{part / reports:.3f}" for part in (inside, below, above))
    return f"| {name} | {len(found)} | {reports:,} | {shares} |"


if __name__ == "__main__":
    raise SystemExit(main())
