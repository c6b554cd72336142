"""Table `uci`: each printed value of the UCI table beside our runs, with what it truly is and its verdict."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from bench.core.text import Digits, counted, duration, listed
from bench.judge.comparison import ALPHA, ENOUGH
from bench.judge.samples import Samples
from bench.show.reasoning import p_text
from bench.show.table import EMPTY, Entry, Measured, Number, Table
from bench.uci.data import epochs_of, expected_s, sets, where
from bench.uci.published import printed, spread, tables
from bench.uci.rules import RULES, TableFinding, audit_grid, audit_printed
from bench.uci.scores import METHODS, Run, stored
from bench.uci.verdicts import (
    MARGIN_RUN,
    MARGIN_SHARE,
    NOT_COMPARABLE,
    Runs,
    TableVerdict,
    in_words,
    judge_all,
    margin,
    over_splits,
    what_it_is,
    with_kind,
)

NAME, TITLE = "uci", "Do the printed values of the UCI table come out?"
COLUMNS = ("set", "printed in", "printed", "ours", "distance", "outcome", "r", "by split", "p")
EXPLANATION = (
    "ours: the mean over splits of each run (one training seed), then mean and standard deviation of the runs, and "
    "their number. distance: of the nearest number that prints so. sd?: judged by its size. r, by split, p: our "
    "numbers of each split beside the author's: correlation, mean difference, p of the corrected resampled t."
)
OURS_COLUMNS = ("method", "epochs", "RMSE", "LL", "RMSE, split 0", "LL, split 0")
OURS_EXPLANATION = (
    "RMSE, LL: mean over splits of each run, then mean and standard deviation of the runs and their number; LL: log-"
    "likelihood of the mixture, nats a row. split 0: the same of this split alone, mean of the runs."
)
SHOWN = ("rmse", "ll_mixture")
TASKS = {"bostonHousing": "boston", "concrete": "concrete"}  # of the reference posteriors, whose rows are split 0
FIVE_RUNS = ("bostonHousing", "concrete", "energy", "yacht")  # get verdicts; the others one run, and a distance
FLOOR = "linear"  # the method that is a closed form
AGAIN = "mc_dropout_2018"  # the author's result of every split is known
NOT_TRAINED = "Our methods are not trained yet; the commands below do it."
FOUR = Digits(significant=4)
SIGNED = Digits(significant=2, signed=True)


def judged(root: Path) -> list[TableVerdict]:
    """Return the verdict on every printed value by the runs of a results folder."""
    return judge_all(stored(root))


def made(root: Path) -> list[Table]:
    """Return the table of a folder that has runs, with the values that were compared; none for other folders."""
    found = judged(root)
    return [uci_table([one for one in found if method_of(one)], found)] if any(one.ours.n for one in found) else []


def method_of(one: TableVerdict) -> str:
    """Return the method of ours that a value is compared with; "" if there is none."""
    return tables().columns[one.printed.column].method


def uci_table(shown: Sequence[TableVerdict], every: Iterable[TableVerdict]) -> Table:
    """Return a row for each verdict of `shown`, without the set if all have one; the CSV has a line for `every` one."""
    table = Table(
        NAME, TITLE, EXPLANATION, COLUMNS, [_row(one) for one in shown], list(_remarks(shown)), lines=csv_lines(every)
    )
    return table.without(["set"]) if len({one.printed.set for one in shown}) == 1 else table


def ours_table(name: str, root: Path, data_dir: Path | None = None) -> Table:
    """Return a row for each method of ours on a set, and one of HMC where there is a reference posterior."""
    order = {method: place for place, method in enumerate(METHODS)}
    runs = {
        run: its
        for run, its in stored(root).items()
        if run.set == name and run.method in order and all(its.get(key) for key in SHOWN)
    }
    rows: list[list[Entry]] = []
    for run in sorted(runs, key=lambda one: (order[one.method], one.epochs)):
        its = [runs[run][key] for key in SHOWN]
        means = [Samples({seed: statistics.fmean(values.values()) for seed, values in one.items()}) for one in its]
        firsts = [Number(statistics.fmean(values[0] for values in one.values()), FOUR) for one in its]
        rows.append([run.method, str(run.epochs), *(Measured(one, FOUR) for one in means), *firsts])
    remarks = [] if rows else [f"no method of ours is trained on it: python -m bench run --group uci {name}"]
    if (task := TASKS.get(name)) is not None:
        found, more = hmc_scores(task, root, data_dir)
        entries = [Number(found[key], FOUR) if key in found else None for key in SHOWN]
        rows.append(["HMC (split 0 alone)", EMPTY, None, None, *entries])
        remarks += [
            f"HMC: the reference posterior of task '{task}'; RMSE of the mean of its quantiles, LL of its mixture",
            *more,
        ]
    return Table("uci_ours", f"Our methods on {name}", OURS_EXPLANATION, OURS_COLUMNS, rows, remarks)


def hmc_scores(task: str, root: Path, data_dir: Path | None = None) -> tuple[dict[str, float], list[str]]:
    """Return the scores of a reference posterior on the test rows of split 0, and what a reader must know of them.

    Its log-likelihood is stored; without the set's file there is no RMSE.
    """
    from bench.posterior import reference, tasks  # here: few tables need PyTorch

    known = tasks.task_named(task)
    found = reference.find(task, known, root)
    scores, remarks = {"ll_mixture": found.log_likelihood()}, reference.refusals(found)
    if where(known.data, data_dir) is None:
        return scores, [*remarks, f"no RMSE of HMC without the data: python -m bench uci {known.data} --fetch"]
    error = found.quantiles().mean(axis=1) - tasks.load(known, data_dir).targets()
    return {**scores, "rmse": math.sqrt((error**2).mean())}, remarks


def folded(found: Iterable[TableVerdict]) -> list[TableVerdict]:
    """Return the verdicts without those on a number that another column prints of the same thing."""
    kept: dict[object, TableVerdict] = {}
    for one in found:
        value = one.printed
        key = (value.set, value.metric, value.number, what_it_is(value), method_of(one), one.outcome)
        if key not in kept or (one.by_split and not kept[key].by_split):
            kept[key] = one
    return list(kept.values())


def _row(one: TableVerdict) -> list[Number | Measured | str]:
    value, pairs = one.printed, one.by_split
    digits = Digits(decimals=len(value.value.partition(".")[2]) + 1)
    return [
        value.set,
        value.column,
        with_kind(value),
        Measured(one.ours.converted(value.of), digits) if one.ours.n else EMPTY,
        EMPTY if one.distance is None else Number(one.distance, SIGNED),
        f"{one.outcome}, {one.reason}" if one.reason and one.p_adjusted is not None else one.outcome,
        Number(pairs.correlation, Digits(decimals=2)) if pairs else EMPTY,
        Number(value.of(pairs.estimate.difference), SIGNED) if pairs else EMPTY,
        p_text(pairs.corrected_p if pairs else None),
    ]


def _remarks(shown: Sequence[TableVerdict]) -> Iterator[str]:
    """Say what each column's values are, and why some are not compared."""
    for column in dict.fromkeys(one.printed.column for one in shown):
        its = [one for one in shown if one.printed.column == column]
        facets = zip(*(what_it_is(one.printed) for one in its), strict=True)
        what = ", ".join(" or ".join(dict.fromkeys(facet)) for facet in facets)
        why = next((f"; not compared: {one.reason}" for one in its if one.reason and one.p_adjusted is None), "")
        yield f"{column}: {what}; ours: {method_of(its[0]) or 'none'}{why}"


def csv_lines(every: Iterable[TableVerdict]) -> list[dict[str, str | float | None]]:
    """Return what is known of each value, with plain numbers."""
    return [
        {
            "set": one.printed.set,
            "column": one.printed.column,
            "quantity": one.printed.quantity,
            "value": float(one.printed.value),
            "error": float(one.printed.error) if one.printed.error else None,
            "what it is": in_words(one.printed),
            "method": method_of(one),
            "ours": None if one.ours.mean is None else one.printed.of(one.ours.mean),
            "ours sd": one.ours.sd,
            "ours n": one.ours.n,
            "distance": one.distance,
            "margin": margin(one.printed.set, one.printed.metric),
            "outcome": one.outcome,
            "reason": one.reason,
            "adjusted p": one.p_adjusted,
            "correlation by split": one.by_split.correlation if one.by_split else None,
            "difference by split": one.printed.of(one.by_split.estimate.difference) if one.by_split else None,
            "p by split": one.by_split.corrected_p if one.by_split else None,
        }
        for one in every
    ]


def counts(found: Iterable[TableVerdict]) -> Iterator[tuple[str, str]]:
    """Give each column that is compared with a method of ours, and how often each outcome occurs in it."""
    by_column: dict[str, Counter[str]] = {}
    for one in found:
        if method_of(one):
            by_column.setdefault(one.printed.column, Counter())[one.outcome] += 1
    for column, outcomes in by_column.items():
        text = ", ".join(f"{n} {outcome}" for outcome, n in outcomes.items())
        yield column, f"{text}; ours: {tables().columns[column].method}"


def uci_answer(root: Path) -> list[str]:
    """Say what the printed table has, and what our runs say of it: an opening, then points."""
    runs = stored(root)
    found = judge_all(runs)
    trained = {one.printed.column for one in found if method_of(one)}
    opening = (
        f"{counted(len(printed()), 'value')} are printed in {counted(len(tables().columns), 'column')}; "
        f"{len(trained)} of the columns are of methods that we train."
    )
    return [opening, _mistakes(), _caps(), _hours(), *(_outcomes(found, runs) or [NOT_TRAINED])]


def uci_numbers(root: Path) -> dict[str, float]:
    """Return what README says of the table; {} without `AGAIN`'s runs of all epochs on yacht.

    `uci_farthest`: the largest mean difference to the author's splits, in his standard deviations over splits.
    """
    runs = stored(root)
    pairs = [
        one for one in judge_all(runs) if method_of(one) == AGAIN and one.by_split and one.outcome != NOT_COMPARABLE
    ]
    lengths = {
        f"uci_{epochs}": over_splits("yacht", its["rmse"])[0]
        for epochs in epochs_of("yacht", AGAIN)
        if (its := runs.get(Run("yacht", AGAIN, epochs)))
    }
    if not pairs or len(lengths) < len(epochs_of("yacht", AGAIN)):
        return {}
    differences = {
        (one.printed.set, one.printed.metric): abs(one.by_split.estimate.difference) * MARGIN_SHARE / one.margin
        for one in pairs
        if one.by_split and one.margin
    }
    return lengths | {
        "uci_sets": len({name for name, _ in differences}),
        "uci_farthest": max(differences.values()),
        "uci_beyond": sum(one.by_split.corrected_p < ALPHA for one in pairs if one.by_split),
        "uci_columns": len(tables().columns),
        "uci_wrong": len({one.subject for one in _wrong()}),
    }


def _hours() -> str:
    by_set = {
        name: sum(expected_s(name, m, epochs) for m in METHODS for epochs in epochs_of(name, m)) for name in sets()
    }
    several = ENOUGH * sum(by_set[name] for name in FIVE_RUNS)
    return (
        f"One run of every method on every set takes about {duration(sum(by_set.values()))} of one quiet core; "
        f"{ENOUGH} runs of {listed(FIVE_RUNS)} take {duration(several)}."
    )


def _mistakes() -> str:
    named = Counter(RULES[one.rule].title for one in _wrong())
    texts = [f"{title} ({counted(n, 'column')})" for title, n in named.most_common()]
    return f"Wrong, by the rules of `audit data`: {listed(texts)}."


def _wrong() -> list[TableFinding]:
    """Return what is wrong with whole columns."""
    return [one for one in audit_printed() if one.outcome == "fails" and RULES[one.rule].severity == "wrong"]


def _caps() -> str:
    capped = [one for name in sets() for one in audit_grid(name) if one.outcome == "fails"]
    texts = [f"{one.subject} {one.measured['cap']:.3f}" for one in capped]
    return (
        "Where every split chooses the grid's largest tau, the 2018 log-likelihood cannot exceed log(tau / 2 pi) / 2, "
        f"whatever the network: {listed(texts)}."
    )


def _outcomes(found: Sequence[TableVerdict], runs: Mapping[Run, Mapping[str, Runs]]) -> list[str]:
    """Say how often each outcome occurs for each method; nothing without runs."""
    seen = [one for one in folded(found) if method_of(one) and one.ours.n]
    points = []
    for method in dict.fromkeys(map(method_of, seen)):
        counted_outcomes = Counter(one.outcome for one in seen if method_of(one) == method)
        points.append(f"`{method}`: " + ", ".join(f"{n} {outcome}" for outcome, n in counted_outcomes.items()) + ".")
    if pairs := [one.by_split for one in seen if one.by_split and one.outcome != NOT_COMPARABLE]:
        low, high = (pick(one.correlation for one in pairs) for pick in (min, max))
        beyond = sum(one.corrected_p < ALPHA for one in pairs)
        points.append(
            f"By split, ours correlate with the author's by {low:.2f} to {high:.2f}; "
            f"{beyond} of {counted(len(pairs), 'mean difference')} are beyond chance (p < {ALPHA:g}, not adjusted)."
        )
    if floors := list(_floors(runs)):
        points.append(f"Least squares, which nobody prints, has this many times the author's RMSE: {listed(floors)}.")
    return points


def _floors(runs: Mapping[Run, Mapping[str, Runs]]) -> Iterator[str]:
    for run, measured in runs.items():
        known = spread(MARGIN_RUN, run.set, "rmse")
        if run.method == FLOOR and known is not None:
            yield f"{run.set} {over_splits(run.set, measured['rmse'])[0] / known.mean:.3g}"
