"""One claim through the rule of verdicts: every step with its numbers, and whether it holds."""

from __future__ import annotations

import math

from bench.judge.claims import Claim
from bench.judge.samples import Sample
from bench.judge.stats.evidence import ALPHA, CONSISTENT, EQUIVALENT, MOST_SEEDS, NOT_REPRODUCED, WITHIN, Evidence
from bench.judge.stats.verdicts import ENOUGH, INCONCLUSIVE, UNRESOLVABLE, Verdict, distance_from_print, is_exact


def rule_steps(verdict: Verdict) -> list[str]:
    """Return the steps in the order of the rule; the first that says yes decides, except that enough seeds go on."""
    claim, sample, evidence = verdict.claim, verdict.sample, verdict.evidence
    if not sample.n:
        return [_step("seeds", "any that measured it? no")]
    if is_exact(claim):
        return [_printed(claim, sample)]
    lines = [_enough(sample)]
    if evidence is not None:
        lines += _of_seeds(evidence, sample.n)
        if verdict.outcome in (UNRESOLVABLE, INCONCLUSIVE):
            lines += _of_more_seeds(evidence, sample.n)
    return lines


def _step(name: str, text: str) -> str:
    return f"  {name:<10} {text}"


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def _printed(claim: Claim, sample: Sample) -> str:
    worst = max(distance_from_print(claim, value) for value in sample.values)
    far = "" if worst == 0 else f", the worst is {worst:.2g} outside"
    return _step("rule", f"a computed number: does every value print as reported? {_yes(worst == 0)}{far}")


def _enough(sample: Sample) -> str:
    holds = sample.n >= ENOUGH and sample.gap is None
    without = "none without a number" if sample.gap is None else sample.gap.reason
    return _step("enough", f"at least {ENOUGH} seeds, none without a number? {_yes(holds)}: {sample.n}, {without}")


def _of_seeds(evidence: Evidence, n: int) -> list[str]:
    """Return the steps that our n seeds decide."""
    h, p = evidence.half_width(n), evidence.p_adjusted(n)
    if evidence.report is None:
        width = f"h = t({n - 1}, .975) s sqrt(1 + 1/{n}) = {h:.4g}, 95 % prediction interval for one more run"
    else:
        width = f"h = {h:.4g}, 95 % interval for the difference from the mean of {evidence.report.n} runs"
    return [_step("half-width", width), *_near(evidence, n), *_adjustment(evidence, n), _differs(evidence, n, p)]


def _near(evidence: Evidence, n: float) -> list[str]:
    """Return the steps that would call the number reproduced, with n seeds."""
    d, h, m = evidence.distance, evidence.half_width(n), evidence.margin
    outcome = evidence.decide(n, 1.0)
    same = evidence.p_equivalence(n)
    if same is not None:
        text = f"two one-sided tests with the margin, p = {same:.3g} < {ALPHA}? {_yes(outcome == EQUIVALENT)}"
        return [_step("equivalent", text)]
    lines = [_step("within", f"D + h = {d + h:.4g} <= {m:g}? {_yes(outcome == WITHIN)}")]
    if outcome != WITHIN:
        holds = _yes(outcome == CONSISTENT)
        lines.append(_step("consistent", f"D = {d:.4g} <= h = {h:.4g} <= {m:g}? {holds}"))
    return lines


def _adjustment(evidence: Evidence, n: int) -> list[str]:
    """Return how the p-value of the distance is adjusted over the document's claims."""
    n_epochs, smallest, n_hypotheses, step = evidence.hypothesis
    p, own = evidence.p(n), "one more run is" if evidence.report is None else "the means are"
    lines = [_step("p", f"{p:.3g} that {own} that far off, for this claim alone")]
    if n_epochs > 1:
        lines.append(
            _step("curve", f"p times {n_epochs} for the epochs of its curve, the smallest p is {smallest:.3g}")
        )
    rank, product = n_hypotheses - step.factor + 1, p * n_epochs * step.factor
    text = f"times {step.factor} at rank {rank} of the document's {n_hypotheses} hypotheses: {product:.3g}"
    floor = f", at least {step.floor:.3g}, the adjusted p of the one before" if step.floor else ""
    return [*lines, _step("Holm", f"{text}{floor}, at most 1")]


def _differs(evidence: Evidence, n: float, p: float) -> str:
    d, m = evidence.distance, evidence.margin
    holds = _yes(evidence.decide(n, p) == NOT_REPRODUCED)
    return _step("differs", f"D = {d:.4g} > {m:g} and adjusted p = {p:.3g} < {ALPHA}? {holds}")


def _of_more_seeds(evidence: Evidence, n: int) -> list[str]:
    """Return what ever more seeds of this mean and spread would decide, and whether some number of them does."""
    h = evidence.half_width(math.inf)
    width = f"h = 1.96 s = {h:.4g}" if evidence.report is None else f"h = {h:.4g}, of the reported runs alone"
    lines = [
        _step("limit", f"with ever more seeds of this mean and spread {width}:"),
        *_near(evidence, math.inf),
        _differs(evidence, math.inf, evidence.p_without_floor(math.inf)),
    ]
    deciding = evidence.deciding(n)
    if deciding is None:
        found = "no"
    elif deciding.last is None:
        found = f"from {deciding.first} on"
    else:
        found = f"{deciding.span}, with more it is open again"
    return [*lines, _step("more", f"would any number of seeds from {n + 1} to {MOST_SEEDS} decide? {found}")]
