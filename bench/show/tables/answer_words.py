"""The answer to a ladder's question in words: what each step adds, and which step is the largest."""

from __future__ import annotations

from collections.abc import Iterable

from bench.judge.claims import Claim
from bench.judge.ladder.answer import Answer, Direction, LargestStep, StepEffect, Walk
from bench.judge.ladder.rungs import Step
from bench.judge.samples import Sample

_GROUPS: dict[Direction, str] = {
    "raises": "raised by",
    "lowers": "lowered by",
    "unclear": "not told from zero:",
    "not measured": "not measured:",
}


def sentences(answer: Answer) -> str:
    """Return the answer in words; for what is not measured they give the command that measures it."""
    first = answer.walks[0]
    said = [
        answer.question.question,
        _reported(answer.question.steps[-1], answer.claim, first.levels[-1]),
        _reported(answer.question.steps[0], answer.baseline, first.levels[0]),
        "What each step from the second to the first adds, with its 95 % interval over seeds.",
    ]
    unit = answer.claim.unit
    said += [
        f"By {walk.estimator.name}: {_list(walk.findings, unit)}; so it is {_conclusion(walk, unit)}"
        for walk in answer.walks
    ]
    if answer.by_estimator:
        instead = _list(answer.by_estimator, unit)
        said.append(f"{instead[0].upper()}{instead[1:]}.")
    return " ".join(said)


def conclusions(answer: Answer) -> list[str]:
    """Return for each estimator which steps raise the number, and how far the largest is ahead."""
    return [f"By {walk.estimator.name} it is {_conclusion(walk, answer.claim.unit)}" for walk in answer.walks]


def _reported(step: Step, claim: Claim, level: Sample) -> str:
    what = f"{step.approach} {step.recipe}: reported {claim.printed} {claim.unit}"
    if level.mean is None:
        return f"{what}, not measured ({level.gap.reason if level.gap else 'no seed'})."
    return f"{what}, measured {level.mean:.3f} ({_seeds(level.n)})."


def _list(effects: Iterable[StepEffect], unit: str) -> str:
    return "; ".join(_what(effect, unit) for effect in effects)


def _what(effect: StepEffect, unit: str) -> str:
    name, found = effect.name, effect.added.paired
    if found is None:
        return f"{name}: not measured ({effect.added.gaps[0].reason})"
    if found.identical:
        return f"{name}: nothing, all {found.n} seeds are equal"
    text = f"{name}: {found.mean:+.3f} {unit}"
    if found.interval is None:
        return f"{text} (one seed, no interval)"
    low, high = found.interval
    return f"{text} [{low:+.3f}, {high:+.3f}] ({_seeds(found.n)})"


def _seeds(n: int) -> str:
    return "1 seed" if n == 1 else f"{n} seeds"


def _conclusion(walk: Walk, unit: str) -> str:
    """Say which steps raise the number, lower it or do neither clearly, and which is the largest."""
    groups: dict[str, list[str]] = {words: [] for words in _GROUPS.values()}
    for effect in walk.findings:
        only = " (one seed)" if effect.added.paired and effect.added.paired.n == 1 else ""
        groups[_GROUPS[effect.direction]].append(effect.name + only)
    said = "; ".join(f"{how} {', '.join(names)}" for how, names in groups.items() if names)
    return f"{said}. {_largest(walk.largest, unit)}"


def _largest(found: LargestStep | None, unit: str) -> str:
    if found is None:
        return "Which step is the largest is open until all are measured."
    share = "" if found.share is None else f", {found.share:.0%} of the {found.way:+.3f} {unit} of all steps,"
    return f"The largest{share} is {found.name}{_lead(found, unit)}."


def _lead(found: LargestStep, unit: str) -> str:
    """Say how far the largest step is ahead of the next, over the seeds of both."""
    if not found.following:
        return ""
    interval = found.lead_interval
    if found.lead is None or interval is None:
        return f"; {'no seed' if found.lead is None else 'one seed'} in common with {found.following}, a first look"
    low, high = interval
    chosen = f", adjusted for {found.n_others} comparisons" if found.n_others > 1 else ""
    by = f"{found.lead.mean:+.3f} {unit} [{low:+.3f}, {high:+.3f}] ({_seeds(found.lead.n)}{chosen})"
    # The largest step over all seeds of each may be the smaller one over the seeds of both.
    return f", ahead of {found.following} by {by}" if low > 0 else f", not told from {found.following}: {by} ahead"
