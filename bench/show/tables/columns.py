"""The table of one task of the reference posteriors: how far each method is, and how well it predicts."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean, stdev

from scipy.stats import kendalltau

from bench.core.project import RESULTS
from bench.core.text import THREE, listed
from bench.judge.samples import MissingValue, Samples
from bench.judge.stats.places import Rank, places
from bench.posterior.columns import (
    AUROC,
    HMC,
    NLL,
    RMSE,
    Column,
    Lines,
    Method,
    is_given,
    quality_of_hmc,
    stored_columns,
)
from bench.posterior.compare import TIMES_FLOOR
from bench.posterior.reference import FOLDER, JOINT, LOG_LIKELIHOOD, TOTAL_VARIATION, WASSERSTEIN, refusals
from bench.posterior.tasks import DIGITS, SETS, TEST
from bench.show.table import Entry, Measured, Missing, Number, Table

COLD = RESULTS / FOLDER / "cold.csv"  # of `python -m benchmarks.posterior cold`
RANKED = f"{DIGITS}/{TOTAL_VARIATION}"
FEWEST = 3  # methods, to say whether two orders agree
NEAR, NOT_RANKED = "at the floor", "-"
PLACES = (
    "methods that the seeds cannot tell apart share places (paired by seed, Holm). at the floor: within twice the "
    "distance between the reference's own two sets of chains, which ranks nothing."
)
EXPLANATION = (
    "How far each method's predictive is from the reference posterior's: total variation, mean over the rows, from 0 "
    "to 1; letters without D and I; turned: digits turned by 60 degrees. joint: log-loss of ten labels at once, nats. "
    "NLL: nats an image. AUROC: how well the entropy tells clothes from digits. place: rank by the distance on digits; "
    f"{PLACES}"
)
OF_REGRESSION = (
    "How far each method's predictive is from the reference posterior's on the test rows: Wasserstein-1, mean over the "
    "rows, in the target's unit; LL - HMC: the mean log-likelihood of a target less that under the posterior, nats. "
    "joint: log-loss of ten targets at once, nats. RMSE: of the mean, the target's unit. place: rank by "
    f"Wasserstein-1; {PLACES}"
)
NO_RUN = MissingValue("not run", "this method has no training of today's definition")


def _keys(column: Column) -> dict[str, str]:
    """Return the metrics that the table shows, by the heads of its columns; the first one ranks."""
    if not column.reference.sets:
        heads = {"Wasserstein-1": WASSERSTEIN, "LL - HMC": LOG_LIKELIHOOD, "joint": JOINT, "RMSE": RMSE}
        return {head: f"{TEST}/{metric}" for head, metric in heads.items()}
    distances = {name: f"{name}/{TOTAL_VARIATION}" for name in SETS if name in column.reference.sets}
    return distances | {"joint": f"{DIGITS}/{JOINT}", "NLL": f"{DIGITS}/{NLL}", "AUROC": f"clothes/{AUROC}"}


def columns_table(column: Column, found: Lines) -> Table:
    """Return the table of a task's methods, the nearest first."""
    keys, ranked_by = _keys(column), "/".join(column.reference.main)
    trained = {name for name, _ in found if name != HMC}
    numbers = {name: {key: _sample(found, name, key) for key in keys.values()} for name in trained}
    far = {name: one[ranked_by] for name, one in numbers.items()}
    refused = refusals(column.reference)
    near = set() if refused else {name for name, one in far.items() if _mean(one) <= _nearest(column)}
    apart = {name: one.by_seed for name, one in far.items() if name not in near and one.n and not is_given(name)}
    ranked = {} if refused else places(apart, is_higher_better=False)
    hmc = found[HMC, 0].metrics if (HMC, 0) in found else {}
    own_ll = column.reference.log_likelihood() if not column.reference.sets else 0.0
    rows: list[list[Entry]] = [
        [
            column.method(name).title,
            _place(name, near, ranked),
            *(_entry(numbers[name][key], own_ll if head == "LL - HMC" else 0.0) for head, key in keys.items()),
        ]
        for name in sorted(trained, key=lambda name: _mean(far[name]))
    ]
    last: list[Entry] = ["HMC: floor, quality", ""]
    for key in keys.values():
        rows_of, metric = key.split("/", 1)
        value = column.reference.floor.get(rows_of, {}).get(metric, hmc.get(key))
        last.append(None if value is None else Number(value, THREE))
    return Table(
        f"posterior-{column.name}",
        f"Who approximates the posterior? {column.task.title}",
        EXPLANATION if column.reference.sets else OF_REGRESSION,
        ["method", "place", *keys],
        [*rows, last],
        [
            *_absent(column.methods, trained),
            *(f"The reference is refused: {one}" for one in refused),
            *_chosen(column.methods, found),
        ],
        conditions="Mean +- standard deviation over training seeds (their number).",
    )


def _nearest(column: Column) -> float:
    """Return the distance up to which a method is as near as can be told."""
    rows, metric = column.reference.main
    return TIMES_FLOOR * column.reference.floor[rows][metric]


def stored_tables(results: Path) -> Iterator[Table]:
    """Give the table of each task with trained methods, of a results folder or shipped."""
    for column in stored_columns(results):
        yield columns_table(column, column.stored(lambda _: None))


def means(column: Column) -> dict[str, dict[str, float]]:
    """Return the mean over training seeds of each number of each method that is trained here, by title."""
    found = column.stored(lambda _: None)
    names = dict.fromkeys(name for name, _ in found if name != HMC and not is_given(name))
    by_name = {name: [one.metrics for (given, _), one in found.items() if given == name] for name in names}
    return {
        column.method(name).title: {key: fmean(one[key] for one in every if key in one) for key in every[0]}
        for name, every in by_name.items()
        if every and every[0]
    }


def distances(column: Column) -> dict[str, float]:
    """Return numbers for sentences: each method's total variation on digits, by name, and how many are near."""
    found = column.stored(lambda _: None)
    names = dict.fromkeys(name for name, _ in found if name != HMC and not is_given(name))
    far = {name: _mean(_sample(found, name, RANKED)) for name in names}
    floor = column.reference.floor[DIGITS][TOTAL_VARIATION]
    counts = {"columns": len(far), "columns_near": sum(one <= TIMES_FLOOR * floor for one in far.values())}
    return counts | {"tv_floor": floor} | {f"tv_{name.replace('-', '_')}": one for name, one in far.items()}


def columns_answer(column: Column) -> list[str]:
    """Say who is near the posterior, and whether that goes with better predictions: a first sentence, and points."""
    rows, metric = column.reference.main
    key = f"{rows}/{metric}"
    found = sorted(means(column).items(), key=lambda pair: pair[1][key])
    if not found:
        return [f"No method is trained on {column.task.title}."]
    near = [title for title, one in found if one[key] <= _nearest(column)]
    named = [f"{title} ({one[key]:.3f})" for title, one in found]
    first = (
        f"Of {len(found)} method{'s' * (len(found) != 1)} on {column.task.title}, {len(near) or 'none'} predict as the "
        f"posterior does, within twice the floor of {column.reference.floor[rows][metric]:.4f} ({metric} on {rows})."
    )
    points = [f"Nearest: {listed(named[:3])}. Farthest: {listed(named[-3:][::-1])}."]
    if not column.reference.sets:
        log_likelihood = f"{TEST}/{LOG_LIKELIHOOD}"
        points += _goes_with(found, key, log_likelihood, "a higher log-likelihood", sign=-1)
        own = column.reference.log_likelihood()
        better = [f"{title} ({one[log_likelihood]:.3f})" for title, one in found if one[log_likelihood] > own]
        says = f"The posterior itself has a log-likelihood of {own:.3f}. A higher one: {listed(better) or 'none'}."
        return [first, *points, says]
    clothes = f"clothes/{TOTAL_VARIATION}"
    points += _goes_with(found, key, f"{DIGITS}/{NLL}", "a lower NLL", sign=1)
    points += _goes_with(found, clothes, f"clothes/{AUROC}", "better detection of clothes", sign=-1)
    return [first, *points, *_beside(column, found)]


def _goes_with(
    found: list[tuple[str, dict[str, float]]], distance: str, quality: str, what: str, sign: int
) -> list[str]:
    """Say how often the nearer of two methods has the better quality, if there are enough; sign -1: more is better."""
    if len(found) < FEWEST:
        return []
    tau = kendalltau([one[distance] for _, one in found], [sign * one[quality] for _, one in found])
    return [
        f"Nearer on {distance.split('/')[0]} goes with {what} in {50 * (1 + tau.statistic):.0f} % of the pairs of "
        f"methods (Kendall's tau {tau.statistic:.2f}, p {tau.pvalue:.2g})."
    ]


def cold_answer() -> str:
    """Say how well posteriors predict that are colder than the reference of the digits task."""
    rows = cold_rows()
    temperatures = list(dict.fromkeys(row["temperature"] for row in rows))
    texts = []
    for one in temperatures:
        nll, detected = ([row[key] for row in rows if row["temperature"] == one] for key in ("nll", "auroc_clothes"))
        texts.append(f"T = {one:g}: {_spread(nll)} and {_spread(detected)}")
    return f"NLL of digits and AUROC of clothes, mean +- sd over chains: {'; '.join(texts)}."


def _spread(values: list[float]) -> str:
    return f"{fmean(values):.4f} +- {stdev(values):.4f}"


def cold_rows() -> list[dict[str, float]]:
    """Return the rows of the file of cold posteriors."""
    with COLD.open() as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def _beside(column: Column, found: list[tuple[str, dict[str, float]]]) -> list[str]:
    """Say how well the posterior itself predicts, and which methods have a lower NLL, as printed."""
    nll, detected = f"{DIGITS}/{NLL}", f"clothes/{AUROC}"
    own = quality_of_hmc(column)
    if not own:
        return []
    better = [f"{title} ({one[nll]:.3f})" for title, one in found if round(one[nll], 3) < round(own[nll], 3)]
    return [
        f"The posterior itself has an NLL of {own[nll]:.3f} and tells clothes with an AUROC of {own[detected]:.3f}. "
        f"Methods with a lower NLL: {listed(better) or 'none'}."
    ]


def _sample(found: Lines, name: str, key: str) -> Samples:
    """Return a method's numbers by seed, or why there are none."""
    its = {seed: one for (method, seed), one in sorted(found.items()) if method == name}
    values = {seed: one.metrics[key] for seed, one in its.items() if key in one.metrics}
    why = next((one.why for one in its.values() if one.why), "")
    return Samples(values, None if values else MissingValue("failed", why) if why else NO_RUN)


def _mean(sample: Samples) -> float:
    return math.inf if sample.mean is None else sample.mean


def _entry(sample: Samples, less: float) -> Entry:
    """Return a sample less a number."""
    if sample.missing_value is not None:
        return Missing(sample.missing_value)
    return Measured(sample.converted(lambda value: value - less) if less else sample, THREE)


def _place(name: str, near: set[str], ranked: Mapping[str, Rank]) -> str:
    return NEAR if name in near else str(ranked.get(name, NOT_RANKED))


def _absent(methods: Mapping[str, Method], trained: set[str]) -> list[str]:
    names = [one.title for name, one in methods.items() if name not in trained]
    return [f"Not trained: {', '.join(names)}."] if names else []


def _chosen(methods: Mapping[str, Method], found: Lines) -> list[str]:
    """Return a remark on what held-out rows chose."""
    texts = []
    for name, method in methods.items():
        one = next((one for (given, _), one in sorted(found.items()) if given == name and one.metrics), None)
        if one is not None and one.chosen and method.choices:
            texts.append(f"{method.title}: {', '.join(f'{key} {value}' for key, value in one.chosen.items())}")
    return [f"Chosen by the NLL of held-out rows: {'; '.join(texts)}."] if texts else []
