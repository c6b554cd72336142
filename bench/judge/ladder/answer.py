"""What answers a ladder's question, made from effects: nothing in it is typed but names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bench.core.errors import unknown_name
from bench.judge.claims import Claim, Sample, in_claim_unit
from bench.judge.ladder.effects import Effect, Numbers
from bench.judge.ladder.rungs import Estimator, Question, Step
from bench.judge.stats.paired import Paired, pair

BETWEEN = "not told from zero"


class StepEffect(NamedTuple):
    """A change and what it adds, in the claim's unit."""

    name: str
    added: Effect


class Walk(NamedTuple):
    """The way from the baseline to the number, measured by one estimator."""

    estimator: Estimator
    levels: tuple[Sample, ...]  # of each step, in the claim's unit
    findings: tuple[StepEffect, ...]  # of each step but the first


class Answer(NamedTuple):
    """All that is known of a question."""

    question: Question
    claim: Claim
    baseline: Claim
    walks: tuple[Walk, ...]  # by each estimator
    by_estimator: tuple[StepEffect, ...]  # the document's estimator instead of each other one, of the number's own fit


def find(question: Question, numbers: Numbers, claims: Iterable[Claim]) -> Answer:
    """Return what the records say; raises ConfigError for an unknown claim."""
    known = {claim.id: claim for claim in claims}
    for name in (question.claim, question.baseline):
        if name not in known:
            raise unknown_name("claim of a ladder", name, known)
    claim = known[question.claim]
    walks = tuple(_walk(estimator, question.steps, numbers, claim) for estimator in question.estimators)
    first, *others = (estimator.of(question.steps[-1]) for estimator in question.estimators)
    mine = question.estimators[0].name
    by_estimator = tuple(
        StepEffect(f"{mine} instead of {estimator.name}", _effect(numbers.effect(other, first), claim))
        for estimator, other in zip(question.estimators[1:], others, strict=True)
    )
    return Answer(question, claim, known[question.baseline], walks, by_estimator)


def _walk(estimator: Estimator, steps: Sequence[Step], numbers: Numbers, claim: Claim) -> Walk:
    places = [estimator.of(step) for step in steps]
    found = [numbers.by_seed(place) for place in places]
    levels = tuple(
        Sample(tuple(in_claim_unit(claim, value) for value in values.values()), None if values else gaps[0])
        for values, gaps in found
    )
    findings = tuple(
        StepEffect(step.name, _effect(numbers.effect(before, after), claim))
        for step, before, after in zip(steps[1:], places, places[1:], strict=False)
    )
    return Walk(estimator, levels, findings)


def _effect(effect: Effect, claim: Claim) -> Effect:
    """Return an effect in the claim's unit."""
    if effect.paired is None:
        return effect
    before, after = (
        tuple(in_claim_unit(claim, value) for value in ends) for ends in (effect.paired.before, effect.paired.after)
    )
    return Effect(Paired(effect.paired.seeds, before, after), effect.gaps)


def sentences(answer: Answer) -> str:
    """Return the answer in words; what is not measured is said to be so, with the command that measures it."""
    first = answer.walks[0]
    said = [
        answer.question.question,
        _reported(answer.question.steps[-1], answer.claim, first.levels[-1]),
        _reported(answer.question.steps[0], answer.baseline, first.levels[0]),
        "What each step from the second to the first adds, with its 95 % interval over seeds.",
    ]
    unit = answer.claim.unit
    said += [
        f"By {walk.estimator.name}: {_list(walk.findings, unit)}; so it is {_conclusion(walk.findings, unit)}"
        for walk in answer.walks
    ]
    if answer.by_estimator:
        instead = _list(answer.by_estimator, unit)
        said.append(f"{instead[0].upper()}{instead[1:]}.")
    return " ".join(said)


def conclusions(answer: Answer) -> list[str]:
    """Return by each estimator which steps raise the number, in words, and how far the largest is ahead."""
    return [f"By {walk.estimator.name} it is {_conclusion(walk.findings, answer.claim.unit)}" for walk in answer.walks]


def _reported(step: Step, claim: Claim, level: Sample) -> str:
    what = f"{step.approach} {step.recipe}: reported {claim.printed} {claim.unit}"
    if level.mean is None:
        return f"{what}, not measured ({level.gap.reason if level.gap else 'no seed'})."
    return f"{what}, measured {level.mean:.3f} ({_seeds(level.n)})."


def _list(findings: Iterable[StepEffect], unit: str) -> str:
    return "; ".join(_what(finding, unit) for finding in findings)


def _what(finding: StepEffect, unit: str) -> str:
    name, found = finding.name, finding.added.paired
    if found is None:
        return f"{name}: not measured ({finding.added.gaps[0].reason})"
    if found.identical:
        return f"{name}: nothing, all {found.n} seeds are equal"
    text = f"{name}: {found.mean:+.3f} {unit}"
    if found.interval is None:
        return f"{text} (one seed, no interval)"
    low, high = found.interval
    return f"{text} [{low:+.3f}, {high:+.3f}] ({_seeds(found.n)})"


def _seeds(n: int) -> str:
    return "1 seed" if n == 1 else f"{n} seeds"


def _conclusion(findings: Sequence[StepEffect], unit: str) -> str:
    """Return which steps raise the number, lower it or cannot be told from nothing, and which is the largest."""
    groups: dict[str, list[str]] = {"raised by": [], "lowered by": [], f"{BETWEEN}:": [], "not measured:": []}
    for finding in findings:
        paired = finding.added.paired
        only = " (one seed)" if paired and paired.n == 1 else ""
        groups[_direction(paired)].append(finding.name + only)
    said = "; ".join(f"{how} {', '.join(names)}" for how, names in groups.items() if names)
    return f"{said}. {_largest(findings, unit)}"


def _direction(paired: Paired | None) -> str:
    if paired is None:
        return "not measured:"
    if paired.n > 1 and not paired.excludes_zero:
        return f"{BETWEEN}:"
    return "raised by" if paired.mean > 0 else "lowered by"


def _largest(findings: Sequence[StepEffect], unit: str) -> str:
    """Return which step moves the number most, how much of the way that is, and whether it is told from the next."""
    measured = [(finding.name, finding.added.paired) for finding in findings if finding.added.paired is not None]
    if len(measured) < len(findings):
        return "Which step is the largest is open until all are measured."
    (name, largest), *others = sorted(measured, key=lambda one: -abs(one[1].mean))
    total = sum(paired.mean for _, paired in measured)
    one_way = all(paired.mean * total >= 0 for _, paired in measured)  # else a share means nothing
    share = f", {largest.mean / total:.0%} of the {total:+.3f} {unit} of all steps," if total and one_way else ""
    return f"The largest{share} is {name}{_lead(largest, others, unit)}."


def _lead(largest: Paired, others: Sequence[tuple[str, Paired]], unit: str) -> str:
    """Return how far the largest change is ahead of the next, over the seeds of both."""
    if not others:
        return ""
    name, following = others[0]
    sizes = [
        dict(zip(one.seeds, (math.copysign(1, one.mean) * value for value in one.differences), strict=True))
        for one in (following, largest)
    ]
    ahead = pair(*sizes)
    if ahead is None or ahead.interval is None:
        return f"; {'no seed' if ahead is None else 'one seed'} in common with {name}, a first look"
    low, high = ahead.interval
    by = f"{ahead.mean:+.3f} {unit} [{low:+.3f}, {high:+.3f}] ({_seeds(ahead.n)})"
    # The largest by all seeds of each may be the smaller one over those in common.
    return f", ahead of {name} by {by}" if low > 0 else f", not told from {name}: {by} ahead"
