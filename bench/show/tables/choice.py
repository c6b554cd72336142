"""Table `choice`: the quality and the cost of each approach's corrected recipe, in one row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from bench.core.metric_table import metrics
from bench.core.text import FRACTION, WHOLE, Digits, duration
from bench.judge.results import described
from bench.judge.samples import Samples
from bench.show.inputs import Inputs
from bench.show.numbers import REFUSED_FOR_RISK, RISK
from bench.show.table import Entry, Linked, Measured, Table
from bench.show.tables.further import counted_times

KNOWS_NOTHING = "uniform"  # the approach whose row is for comparison
SHORT = Digits(decimals=3)
PERCENT = Digits(decimals=1)
FINEST_MS = Digits(decimals=2)  # of times under a millisecond

REFUSED, TRAINING, ANSWER = "refused", "train", "ms"
METRICS = {
    "accuracy": "mnist/accuracy",
    "NLL": "mnist/nll",
    "ECE": "mnist/ece",
    "letters": "letters/auroc_predictive_entropy",
    "clothes": "fashion_mnist/auroc_predictive_entropy",
}
SECONDS = {TRAINING: "train, s", ANSWER: "answer, s"}  # columns of the CSV file
COLUMNS = ("accuracy", "NLL", "ECE", REFUSED, "letters", "clothes", TRAINING, ANSWER)
DIGITS = {"accuracy": FRACTION, REFUSED: PERCENT}  # of other columns: SHORT
HIGHER = {column for column, key in METRICS.items() if metrics()[key.partition("/")[2]].better == "higher"}


@dataclass(frozen=True)
class Candidate:
    """One approach with its corrected recipe, or without one its published recipe; times in seconds."""

    approach: str
    recipe: str
    numbers: Mapping[str, Samples]  # by column
    seeds: frozenset[int]
    busy: frozenset[str]  # columns whose times were measured on a busy machine
    is_baseline: bool  # it knows nothing, and is there for comparison


@lru_cache(maxsize=1)  # the table and the page ask for it
def candidates(inputs: Inputs) -> list[Candidate]:
    """Return the approaches with a measured accuracy; the one that knows nothing comes last."""
    found = [_candidate(inputs, name) for name in inputs.results.classifiers()]
    measured = [one for one in found if one.numbers["accuracy"].n]
    return sorted(measured, key=lambda one: one.is_baseline)


def _candidate(inputs: Inputs, approach: str) -> Candidate:
    trained_run = (approach, "corrected" if inputs.results.has_corrected(approach) else "published", "common")
    numbers = {name: inputs.sample(*trained_run, metric) for name, metric in METRICS.items()}
    numbers[REFUSED] = inputs.sample(*trained_run, REFUSED_FOR_RISK)
    busy = set()
    for name, timing in ((TRAINING, "timings/fit_s"), (ANSWER, "timings/latency_s")):
        numbers[name], counts = counted_times(inputs, *trained_run, timing)
        busy |= set() if counts else {name}
    seeds = frozenset(seed for seed, one in inputs.seeds(*trained_run).items() if one.is_finished)
    return Candidate(approach, trained_run[1], numbers, seeds, frozenset(busy), approach == KNOWS_NOTHING)


def choice_table(inputs: Inputs) -> Table:
    """Return a row for each approach."""
    results, found = inputs.results, candidates(inputs)
    caption = (
        "The corrected recipe of each approach, common protocol. NLL: negative log-likelihood, nats per digit. ECE: "
        "expected calibration error, the mean distance between confidence and accuracy. Refused: how many whole "
        "percent of the digits the network must refuse, least certain first, until at most "
        f"{100 * RISK:g} % of its answers are wrong. Letters, clothes: AUROC, how well the entropy tells them from "
        "digits; 0.5 is chance, 1 is best. Train: "
        "time of training on one or two threads. Ms: milliseconds for one answer, which averages 100 draws (mlp: one "
        "pass)."
    )
    seeds = {seed for one in found for seed in one.seeds}
    return Table(
        "choice",
        "Which approach should I take?",
        caption,
        ["approach", *COLUMNS],
        [[one.approach, *(_entry(one, column) for column in COLUMNS)] for one in found],
        _notes(found),
        conditions=described(results.conditions, seeds) if results.conditions else "No records.",
        origin=results.origin(),
        lines=[_line(one) for one in found],
    )


def _entry(one: Candidate, column: str) -> Entry:
    sample = one.numbers[column]
    if column not in SECONDS or sample.mean is None:
        return Measured(sample, DIGITS.get(column, SHORT), has_spread=False)
    digits = WHOLE if sample.mean >= 0.001 else FINEST_MS
    short = duration(sample.mean) if column == TRAINING else digits.text(1000 * sample.mean)
    return Linked(short + ("!" if column in one.busy else ""), sample.sources)


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
        notes.append(f"{means} (times: of those that trained alone){largest}.")
    baselines = [one.approach for one in found if one.is_baseline]
    if baselines:
        notes.append(f"{', '.join(baselines)}: for comparison, a network that knows nothing.")
    if any(one.busy for one in found):
        notes.append("!: longer than on an idle machine, because it had other work.")
    return notes


def _best(found: Sequence[Candidate]) -> Iterator[str]:
    """Name the approach with the best mean in each column of quality."""
    columns_of: dict[str, list[str]] = {}
    for column in (*METRICS, REFUSED):
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
    for name in COLUMNS:
        sample = one.numbers[name]
        label = SECONDS.get(name, name)
        line |= {label: sample.mean, f"{label} sd": sample.sd, f"{label} n": sample.n}
    return line
