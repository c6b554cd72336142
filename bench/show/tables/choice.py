"""Table `choice`: the quality of each approach's corrected recipe, in one row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from bench.core.metric_table import metrics
from bench.core.text import FRACTION, Digits
from bench.judge.results import described
from bench.judge.samples import Samples
from bench.show.inputs import Inputs
from bench.show.table import Measured, Table

KNOWS_NOTHING = "uniform"  # the approach whose row is for comparison
SHORT = Digits(decimals=3)
METRICS = {
    "accuracy": "mnist/accuracy",
    "NLL": "mnist/nll",
    "ECE": "mnist/ece",
    "letters": "letters/auroc_predictive_entropy",
    "clothes": "fashion_mnist/auroc_predictive_entropy",
}
DIGITS = {"accuracy": FRACTION}  # of other columns: SHORT
HIGHER = {column for column, key in METRICS.items() if metrics()[key.partition("/")[2]].better == "higher"}


@dataclass(frozen=True)
class Candidate:
    """One approach with its corrected recipe, or without one its published recipe."""

    approach: str
    recipe: str
    numbers: Mapping[str, Samples]  # by column
    seeds: frozenset[int]
    is_baseline: bool  # it knows nothing, and is there for comparison


@lru_cache(maxsize=1)  # the table and the page ask for it
def candidates(inputs: Inputs) -> list[Candidate]:
    """Return the approaches with a measured accuracy; the one that knows nothing comes last."""
    found = [_candidate(inputs, name) for name in inputs.results.classifiers()]
    measured = [one for one in found if one.numbers["accuracy"].n]
    return sorted(measured, key=lambda one: one.is_baseline)


def _candidate(inputs: Inputs, approach: str) -> Candidate:
    trained_run = (approach, inputs.results.row_recipe(approach), "common")
    numbers = {name: inputs.sample(*trained_run, metric) for name, metric in METRICS.items()}
    seeds = frozenset(seed for seed, one in inputs.seeds(*trained_run).items() if one.is_finished)
    return Candidate(approach, trained_run[1], numbers, seeds, approach == KNOWS_NOTHING)


def choice_table(inputs: Inputs) -> Table:
    """Return a row for each approach."""
    results, found = inputs.results, candidates(inputs)
    caption = (
        "The corrected recipe of each approach, without one the published, common protocol. NLL: negative "
        "log-likelihood, nats per digit. ECE: expected calibration error, the mean distance between confidence and "
        "accuracy. Letters, clothes: AUROC, how well the entropy tells them from digits; 0.5 is chance, 1 is best."
    )
    seeds = {seed for one in found for seed in one.seeds}
    return Table(
        "choice",
        "How good is each approach?",
        caption,
        ["approach", *METRICS],
        [
            [
                one.approach,
                *(Measured(one.numbers[name], DIGITS.get(name, SHORT), has_spread=False) for name in METRICS),
            ]
            for one in found
        ],
        _notes(found),
        conditions=described(results.conditions, seeds) if results.conditions else "No records.",
        origin=results.origin(),
        lines=[_line(one) for one in found],
    )


def _shown(one: Candidate, name: str) -> Measured:
    return Measured(one.numbers[name], DIGITS.get(name, SHORT), has_spread=False)


def _notes(found: Sequence[Candidate]) -> list[str]:
    spreads = [
        f"{name} {DIGITS.get(name, SHORT).text(max(spread))}"
        for name in METRICS
        if (spread := [sd for one in found if (sd := one.numbers[name].sd) is not None])
    ]
    counts = sorted({one.numbers["accuracy"].n for one in found})
    largest = f"; largest standard deviation in any row: {', '.join(spreads)}" if spreads else ""
    notes = list(_best(found))
    if counts:
        means = "One seed" if counts == [1] else f"Means of {' or '.join(map(str, counts))} seeds"
        notes.append(f"{means}{largest}.")
    baselines = [one.approach for one in found if one.is_baseline]
    if baselines:
        notes.append(f"{', '.join(baselines)}: for comparison, a network that knows nothing.")
    return notes


def _best(found: Sequence[Candidate]) -> Iterator[str]:
    """Name the approach with the best mean in each column of quality."""
    columns_of: dict[str, list[str]] = {}
    for column in METRICS:
        every = {one.approach: one.numbers[column].mean for one in found if not one.is_baseline}
        means = {name: mean for name, mean in every.items() if mean is not None}
        if len(means) > 1:
            choose = max if column in HIGHER else min
            columns_of.setdefault(choose(means, key=means.__getitem__), []).append(column)
    if columns_of:
        best = "; ".join(f"{name} ({', '.join(of)})" for name, of in columns_of.items())
        yield f"Best mean of each column (its lead over the next may be chance): {best}."


def _line(one: Candidate) -> dict[str, str | float | None]:
    """Return mean, standard deviation and number of seeds of each column, for machines."""
    line: dict[str, str | float | None] = {"approach": one.approach, "recipe": one.recipe}
    for name in METRICS:
        sample = one.numbers[name]
        line |= {name: sample.mean, f"{name} sd": sample.sd, f"{name} n": sample.n}
    return line
