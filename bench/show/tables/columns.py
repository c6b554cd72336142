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
    Column,
    Method,
    Trained,
    method_named,
    methods,
    quality_of_hmc,
    stored_columns,
)
from bench.posterior.compare import TIMES_FLOOR
from bench.posterior.reference import FOLDER, JOINT, TOTAL_VARIATION, refusals
from bench.posterior.tasks import DIGITS, SETS
from bench.show.table import Entry, Measured, Missing, Number, Table

COLD = RESULTS / FOLDER / "cold.csv"  # of `python -m benchmarks.posterior cold`
RANKED = f"{DIGITS}/{TOTAL_VARIATION}"
NEAR, NOT_RANKED = "at the floor", "-"
EXPLANATION = (
    "How far each method's predictive is from the reference posterior's: total variation, mean over the rows, from 0 "
    "to 1; letters without D and I; turned: digits turned by 60 degrees. joint: log-loss of ten labels at once, nats. "
    "NLL: nats an image. AUROC: how well the entropy tells clothes from digits. place: rank by the distance on digits; "
    "methods that the seeds cannot tell apart share places (paired by seed, Holm). at the floor: within twice the "
    "distance between the reference's own two sets of chains, which ranks nothing."
)
NO_RUN = MissingValue("not run", "this method has no training of today's definition")


def columns_table(column: Column, known: Mapping[str, Method], found: Mapping[tuple[str, int], Trained]) -> Table:
    """Return the table of a task's methods, the nearest first."""
    sets = [name for name in SETS if name in column.reference.sets]
    keys = [*(f"{name}/{TOTAL_VARIATION}" for name in sets), f"{DIGITS}/{JOINT}", f"{DIGITS}/{NLL}", f"clothes/{AUROC}"]
    trained = {name for name, _ in found if name != HMC}
    numbers = {name: {key: _sample(found, name, key) for key in keys} for name in trained}
    floor = {name: values[TOTAL_VARIATION] for name, values in column.reference.floor.items()}
    refused = refusals(column.reference)
    near = {name for name, one in numbers.items() if not refused and _mean(one[RANKED]) <= TIMES_FLOOR * floor[DIGITS]}
    far = {name: one[RANKED].by_seed for name, one in numbers.items() if name not in near and one[RANKED].n}
    ranked = {} if refused else places(far, is_higher_better=False)
    order = sorted(trained, key=lambda name: _mean(numbers[name][RANKED]))
    rows: list[list[Entry]] = [
        [method_named(name).title, _place(name, near, ranked), *(_entry(numbers[name][key]) for key in keys)]
        for name in order
    ]
    hmc = quality_of_hmc(column)
    rows.append(_of_reference(sets, floor, [hmc.get(key) for key in keys[len(sets) :]]))
    return Table(
        f"posterior-{column.name}",
        f"Who approximates the posterior? {column.task.title}",
        EXPLANATION,
        ["method", "place", *sets, "joint", "NLL", "AUROC"],
        rows,
        [
            *_absent(known, trained),
            *(f"The reference is refused: {one}" for one in refused),
            *_chosen(known, found),
        ],
        conditions="Mean +- standard deviation over training seeds (their number).",
    )


def stored_tables(results: Path) -> Iterator[Table]:
    """Give the table of each task with trained methods, of a results folder or shipped."""
    for column in stored_columns(results):
        yield columns_table(column, methods(), column.stored(lambda _: None))


def means(column: Column) -> dict[str, dict[str, float]]:
    """Return the mean over training seeds of each number of each trained method, by title."""
    found = column.stored(lambda _: None)
    names = dict.fromkeys(name for name, _ in found if name != HMC)
    by_name = {name: [one.metrics for (given, _), one in found.items() if given == name] for name in names}
    return {
        method_named(name).title: {key: fmean(one[key] for one in every if key in one) for key in every[0]}
        for name, every in by_name.items()
        if every and every[0]
    }


def distances(column: Column) -> dict[str, float]:
    """Return numbers for sentences: each method's total variation on digits, by name, and how many are near."""
    found = column.stored(lambda _: None)
    names = dict.fromkeys(name for name, _ in found if name != HMC)
    far = {name: _mean(_sample(found, name, RANKED)) for name in names}
    floor = column.reference.floor[DIGITS][TOTAL_VARIATION]
    counts = {"columns": len(far), "columns_near": sum(one <= TIMES_FLOOR * floor for one in far.values())}
    return counts | {"tv_floor": floor} | {f"tv_{name.replace('-', '_')}": one for name, one in far.items()}


def columns_answer(column: Column) -> list[str]:
    """Say who is near the posterior, and whether that goes with better predictions: a first sentence, and points."""
    found = sorted(means(column).items(), key=lambda pair: pair[1][RANKED])
    floor = column.reference.floor[DIGITS][TOTAL_VARIATION]
    near = [title for title, one in found if one[RANKED] <= TIMES_FLOOR * floor]
    named = [f"{title} ({one[RANKED]:.3f})" for title, one in found]
    first = (
        f"Of {len(found)} methods on {column.task.title}, {len(near) or 'none'} predict as the posterior does, within "
        f"twice the floor of {floor:.4f} (total variation on digits)."
    )
    points = [f"Nearest: {listed(named[:3])}. Farthest: {listed(named[-3:][::-1])}."]
    for rows, quality, what in ((DIGITS, NLL, "a lower NLL"), ("clothes", AUROC, "better detection of clothes")):
        distances, good = ([one[f"{rows}/{part}"] for _, one in found] for part in (TOTAL_VARIATION, quality))
        tau = kendalltau(distances, good if quality == NLL else [-one for one in good])
        points.append(
            f"Nearer on {rows} goes with {what} in {50 * (1 + tau.statistic):.0f} % of the pairs of methods "
            f"(Kendall's tau {tau.statistic:.2f}, p {tau.pvalue:.2g})."
        )
    return [first, *points, *_beside(column, found)]


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


def _sample(found: Mapping[tuple[str, int], Trained], name: str, key: str) -> Samples:
    """Return a method's numbers by seed, or why there are none."""
    its = {seed: one for (method, seed), one in sorted(found.items()) if method == name}
    values = {seed: one.metrics[key] for seed, one in its.items() if key in one.metrics}
    why = next((one.why for one in its.values() if one.why), "")
    return Samples(values, None if values else MissingValue("failed", why) if why else NO_RUN)


def _mean(sample: Samples) -> float:
    return math.inf if sample.mean is None else sample.mean


def _entry(sample: Samples) -> Entry:
    if sample.missing_value is not None:
        return Missing(sample.missing_value)
    return Measured(sample, THREE)


def _place(name: str, near: set[str], ranked: Mapping[str, Rank]) -> str:
    return NEAR if name in near else str(ranked.get(name, NOT_RANKED))


def _of_reference(sets: list[str], floor: Mapping[str, float], own: list[float | None]) -> list[Entry]:
    """Return the last row: the floor of each set, and how well the reference itself predicts."""
    quality: list[Entry] = [None if one is None else Number(one, THREE) for one in own]
    return ["HMC: floor, quality", "", *(Number(floor[name], THREE) for name in sets), *quality]


def _absent(methods: Mapping[str, Method], trained: set[str]) -> list[str]:
    names = [one.title for name, one in methods.items() if name not in trained]
    return [f"Not trained: {', '.join(names)}."] if names else []


def _chosen(methods: Mapping[str, Method], found: Mapping[tuple[str, int], Trained]) -> list[str]:
    """Return a remark on what held-out rows chose."""
    texts = []
    for name, method in methods.items():
        one = next((one for (given, _), one in sorted(found.items()) if given == name and one.metrics), None)
        if one is not None and one.chosen and method.choices:
            texts.append(f"{method.title}: {', '.join(f'{key} {value}' for key, value in one.chosen.items())}")
    return [f"Chosen by the NLL of held-out rows: {'; '.join(texts)}."] if texts else []
