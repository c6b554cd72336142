"""The table of one task of the reference posteriors: how far each method is, and how well it predicts."""

from __future__ import annotations

import math
from collections.abc import Mapping

from bench.core.text import THREE, Digits
from bench.judge.samples import MissingValue, Samples
from bench.judge.stats.places import Rank, places
from bench.posterior.columns import AUROC, NLL, Column, Method, Trained
from bench.posterior.compare import TIMES_FLOOR
from bench.posterior.reference import JOINT, TOTAL_VARIATION, refusals
from bench.posterior.tasks import DIGITS, SETS
from bench.show.table import Entry, Measured, Missing, Number, Table

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


def columns_table(column: Column, methods: Mapping[str, Method], found: Mapping[tuple[str, int], Trained]) -> Table:
    """Return the table of a task's methods, the nearest first."""
    sets = [name for name in SETS if name in column.reference.sets]
    keys = [*(f"{name}/{TOTAL_VARIATION}" for name in sets), f"{DIGITS}/{JOINT}", f"{DIGITS}/{NLL}", f"clothes/{AUROC}"]
    trained = {name for name, _ in found}
    numbers = {name: {key: _sample(found, name, key) for key in keys} for name in trained}
    floor = {name: values[TOTAL_VARIATION] for name, values in column.reference.floor.items()}
    refused = refusals(column.reference)
    near = {name for name, one in numbers.items() if not refused and _mean(one[RANKED]) <= TIMES_FLOOR * floor[DIGITS]}
    far = {name: one[RANKED].by_seed for name, one in numbers.items() if name not in near and one[RANKED].n}
    ranked = {} if refused else places(far, is_higher_better=False)
    order = sorted(trained, key=lambda name: _mean(numbers[name][RANKED]))
    rows: list[list[Entry]] = [
        [methods[name].title, _place(name, near, ranked), *(_entry(numbers[name][key]) for key in keys)]
        for name in order
    ]
    rows.append(_of_reference(column, sets, floor, len(keys)))
    return Table(
        f"posterior-{column.name}",
        f"Who approximates the posterior? {column.task.title}",
        EXPLANATION,
        ["method", "place", *sets, "joint", "NLL", "AUROC"],
        rows,
        [
            *_absent(methods, trained),
            *(f"The reference is refused: {one}" for one in refused),
            *_chosen(methods, found),
        ],
        conditions="Mean +- standard deviation over training seeds (their number).",
    )


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


def _of_reference(column: Column, sets: list[str], floor: Mapping[str, float], n_keys: int) -> list[Entry]:
    """Return the last row: the floor of each set, and the reference's own joint log-loss."""
    joint: Entry = Number(column.reference.about.joint_log_loss, Digits(decimals=3))
    row: list[Entry] = ["the reference (HMC): its floor", "", *(Number(floor[name], THREE) for name in sets), joint]
    return row + [None] * (n_keys + 2 - len(row))


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
