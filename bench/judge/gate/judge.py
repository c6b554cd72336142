"""Judges a fresh run: is each fresh mean inside the interval that the baseline's seeds predict, or within the margin?

A seed that diverges has no number, so its trained run fails, unless seeds of the baseline diverged too. Then the means
of the other seeds are compared, and Fisher's exact test says whether fresh seeds diverge more often than the
baseline's. Holm's correction is over all these p-values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from bench.core.folder import Problem
from bench.core.reasons import in_words
from bench.core.records import Provenance, Record
from bench.core.store import Store
from bench.judge.comparison import Estimate, holm, independent
from bench.judge.gate.config import TRAIN, Gate, GatedMetric, GatedTrainedRun
from bench.judge.results import Results, select
from bench.judge.samples import Samples, metrics_of, why_missing

State = Literal["pass", "fail", "missing", "not applicable"]
PASS: Final = "pass"
FAIL: Final = "fail"
MISSING: Final = "missing"
NOT_APPLICABLE: Final = "not applicable"
# Kinds of reasons why a method has no such number, whatever it learns:
OF_THE_METHOD = {"unsupported", "one-draw", "row-noise", "shared-noise", "no-observation-noise", "no-spread"}
DIVERGED = "diverged seeds"  # name of the check beside those of a trained run's metrics


@dataclass(frozen=True)
class Check:
    """The check of one gated metric of one trained run, or of the seeds that diverged."""

    trained_run: str
    key: str  # of the metric, or `DIVERGED`
    state: State
    text: str
    margin: float | None = None  # None: not of a metric
    estimate: Estimate | None = None  # fresh mean minus the baseline's; None if a number is missing
    p_adjusted: float | None = None


@dataclass(frozen=True)
class GateReport:
    """All checks of a gate, and what its records come from."""

    gate: Gate
    checks: tuple[Check, ...]
    n_tests: int  # p-values that were adjusted together
    made: Mapping[str, Sequence[Provenance]]  # what made the records of "baseline" and of "fresh"
    unreadable: Sequence[str]  # why files cannot be trusted
    seconds: float | None = None  # of the fresh run
    second_look: bool = False  # whether it has more seeds, because a first run failed

    @property
    def states(self) -> list[State]:
        """Return the state of every check."""
        return [check.state for check in self.checks]

    @property
    def passed(self) -> bool:
        """Return whether every check passed that applies, and one did."""
        return PASS in self.states and not {FAIL, MISSING} & {*self.states}


@dataclass(frozen=True)
class Folder:
    """The records of one results folder under the gate's conditions."""

    results: Results
    problems: tuple[Problem, ...]  # files that cannot be trusted

    @classmethod
    def read(cls, root: Path, gate: Gate) -> Folder:
        """Read the records under the gate's conditions."""
        records, problems = Store(root).all_records()
        chosen = select(records, gate.profile, gate.device.split(":")[0], gate.precision)
        return cls(Results(chosen, {}), tuple(problems))

    def trained_run(self, trained_run: GatedTrainedRun) -> list[Record]:
        """Return the newest record of each seed of a trained run, in the order of the seeds."""
        found = self.results.trained_run(trained_run.approach, trained_run.recipe, trained_run.protocol)
        return sorted(found, key=lambda record: record.seed)

    def planned(self, gate: Gate, trained_run: GatedTrainedRun) -> list[Record]:
        """Return the records of a trained run's fresh seeds that today's code planned; others do not count."""
        keys = {one.key for one in gate.planned(trained_run, gate.seeds_of(trained_run))}
        return [record for record in self.trained_run(trained_run) if record.key in keys]


@dataclass(frozen=True)
class _Compared:
    """One metric of one trained run, in the baseline and in the fresh run."""

    trained_run: GatedTrainedRun
    metric: GatedMetric
    baseline: Samples
    fresh: Samples
    n_diverged: int  # fresh seeds that diverged, where some of the baseline did
    problem: str  # why the baseline cannot be used, or ''
    inapplicable: str  # why the method has no such number, or ''

    @property
    def estimate(self) -> Estimate | None:
        """Return fresh mean minus baseline mean; None if a number is missing."""
        if self.problem or self.fresh.missing_value is not None or not self.fresh.n or self.n_missing:
            return None
        return independent(self.baseline, self.fresh)

    @property
    def n_missing(self) -> int:
        """Return how many fresh seeds have no record."""
        return self.trained_run.n_seeds - self.n_diverged - self.fresh.n


def judge(gate: Gate, baseline_root: Path, fresh_root: Path) -> GateReport:
    """Compare the fresh records with the baseline's; both folders are only read."""
    baseline, fresh = Folder.read(baseline_root, gate), Folder.read(fresh_root, gate)
    both = {"baseline": baseline, "fresh": fresh}
    compared = [
        one
        for trained_run in gate.trained_runs
        for one in _of_trained_run(gate, trained_run, baseline.trained_run(trained_run), fresh)
    ]
    diverging = {
        trained_run.name: found
        for trained_run in gate.trained_runs
        if (found := _diverging(gate, trained_run, baseline, fresh))
    }
    p_values = {(one.trained_run.name, one.metric.key): one.estimate.p for one in compared if one.estimate is not None}
    p_values |= {(name, DIVERGED): divergence_p(*counts) for name, counts in diverging.items()}
    adjusted = holm(p_values)
    checks = [_check(gate, one, adjusted.get((one.trained_run.name, one.metric.key))) for one in compared]
    checks += [_divergence(gate, name, counts, adjusted[name, DIVERGED]) for name, counts in diverging.items()]
    made = {
        what: [one.provenance for trained_run in gate.trained_runs for one in place.trained_run(trained_run)]
        for what, place in both.items()
    }
    unreadable = [problem.reason for folder in both.values() for problem in folder.problems]
    return GateReport(gate, tuple(checks), len(adjusted), made, unreadable)


def unusable(gate: Gate, baseline_root: Path) -> dict[str, list[str]]:
    """Return why trained runs of the baseline cannot be compared with, whatever a fresh run gives: reason -> names."""
    baseline, found = Folder.read(baseline_root, gate), dict[str, list[str]]()
    for one in gate.trained_runs:
        known = [record for record in baseline.trained_run(one) if not has_diverged(record)]
        for key in (key_of(one, metric.key) for metric in one.metrics):
            problem = _unusable(gate, known, metrics_of(known, key))
            if problem and not (len(known) >= gate.baseline_seeds and _inapplicable(known, key)):
                found.setdefault(problem, []).append(one.name)
                break
    return found


def key_of(trained_run: GatedTrainedRun, key: str) -> str:
    """Return a metric's key in which the trained run's training split replaces `TRAIN`."""
    return key.replace(TRAIN, trained_run.split)


def _of_trained_run(
    gate: Gate, trained_run: GatedTrainedRun, baseline: Sequence[Record], fresh: Folder
) -> list[_Compared]:
    every, may_diverge = fresh.planned(gate, trained_run), any(map(has_diverged, baseline))
    mine = [record for record in every if not (may_diverge and has_diverged(record))]
    known = [record for record in baseline if not has_diverged(record)]
    found = []
    for metric in trained_run.metrics:
        key = key_of(trained_run, metric.key)
        usual = metrics_of(known, key)
        problem, n_diverged = _unusable(gate, known, usual), len(every) - len(mine)
        is_complete = len(known) >= gate.baseline_seeds and len(every) == trained_run.n_seeds > n_diverged
        inapplicable = _inapplicable([*known, *mine], key) if is_complete else ""
        found.append(_Compared(trained_run, metric, usual, metrics_of(mine, key), n_diverged, problem, inapplicable))
    return found


def _inapplicable(records: Sequence[Record], key: str) -> str:
    """Return why a method has no such number, if all records say so, old and new ones; else ''."""
    said = [why_missing(record, key)[1] for record in records]
    reasons = [reason for reason in said if reason is not None and reason.kind in OF_THE_METHOD]
    return in_words(reasons[-1]) if len(reasons) == len(said) else ""


def _unusable(gate: Gate, records: Sequence[Record], known: Samples) -> str:
    """Return why the baseline's numbers cannot be used, or ''."""
    if not records:
        return "no baseline records"
    both = [record for record in records if record.seed in gate.fresh_seeds]
    if both:
        return f"seed {both[0].seed} is a baseline seed and a fresh seed; take fresh seeds that the baseline lacks"
    if known.missing_value is not None:
        return f"the baseline is incomplete: {known.missing_value.reason}"
    if known.n < gate.baseline_seeds:
        return f"the baseline has {known.n} of {gate.baseline_seeds} seeds"
    return ""


def _check(gate: Gate, one: _Compared, p: float | None) -> Check:
    """Check a metric, from its adjusted p-value; None if a number is missing."""
    estimate = one.estimate
    state, text = _incomplete(one) if estimate is None or p is None else _shifted(gate, one, estimate, p)
    return Check(one.trained_run.name, one.metric.key, state, text, one.metric.margin, estimate, p)


def _incomplete(one: _Compared) -> tuple[State, str]:
    if one.inapplicable:
        return NOT_APPLICABLE, one.inapplicable
    if one.problem:
        return MISSING, one.problem
    if one.n_diverged == one.trained_run.n_seeds:
        return FAIL, "every fresh seed diverged"
    if one.fresh.missing_value is not None:
        return FAIL if one.fresh.missing_value.is_fault else MISSING, one.fresh.missing_value.reason
    return MISSING, f"{one.n_missing} of {one.trained_run.n_seeds} fresh seeds missing"


def _shifted(gate: Gate, one: _Compared, estimate: Estimate, p: float) -> tuple[State, str]:
    is_outside, matters = p < gate.alpha, abs(estimate.difference) > one.metric.margin
    if is_outside and matters:
        return FAIL, f"outside its interval and beyond the margin, {one.metric.reason}"
    words = ["beyond the interval, within the margin"] * is_outside
    words += [f"{one.n_diverged} of {one.trained_run.n_seeds} fresh seeds diverged"] * bool(one.n_diverged)
    return PASS, "; ".join(words)


def _diverging(
    gate: Gate, trained_run: GatedTrainedRun, baseline: Folder, fresh: Folder
) -> tuple[int, int, int, int] | None:
    """Return how many seeds of the baseline diverged, of how many, and the same of the fresh run; None if none did."""
    old = [record for record in baseline.trained_run(trained_run) if record.outcome in ("done", "diverged")]
    counts = (
        sum(map(has_diverged, old)),
        len(old),
        sum(map(has_diverged, fresh.planned(gate, trained_run))),
        trained_run.n_seeds,
    )
    return counts if counts[0] else None


def divergence_p(of_baseline: int, k: int, of_fresh: int, m: int) -> float:
    """Return the one-sided p-value that m fresh seeds diverge more often than the baseline's k seeds.

    In unchanged code, given how many of all k + m seeds diverged, the number among the m fresh ones has a
    hypergeometric distribution, whatever the share that diverges (Fisher 1935, The logic of inductive inference, JRSS
    98).
    """
    n = of_baseline + of_fresh
    ways = sum(math.comb(m, lost) * math.comb(k, n - lost) for lost in range(of_fresh, min(m, n) + 1))
    return ways / math.comb(k + m, n)


def _divergence(gate: Gate, trained_run: str, counts: tuple[int, int, int, int], p: float) -> Check:
    of_baseline, k, of_fresh, m = counts
    text = f"{of_fresh} of {m} fresh seeds, {of_baseline} of {k} of the baseline, adjusted p {p:.2g}"
    # If all fresh seeds diverge, no number is left to compare.
    return Check(trained_run, DIVERGED, FAIL if of_fresh == m or p < gate.alpha else PASS, text, p_adjusted=p)


def has_diverged(record: Record) -> bool:
    """Return whether a seed diverged, so that it has no number."""
    return record.outcome == "diverged"
