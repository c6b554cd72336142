"""The plain sentences that answer a ladder's question, made from effects: nothing in them is typed but names."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import NamedTuple

from bench.claims import Claim, in_claim_unit
from bench.errors import unknown_name
from bench.ladder.effects import Effect, Numbers
from bench.ladder.rungs import Cause, Place, Question
from bench.stats.paired import Paired

BETWEEN = "not told from zero"


class Finding(NamedTuple):
    """A cause and what it is worth, in the claim's unit."""

    cause: Cause
    effect: Effect
    paired: Paired | None


def answer(question: Question, numbers: Numbers, claims: Iterable[Claim]) -> str:
    """Return the answer in sentences; what is not measured is said to be so, with the command that measures it."""
    known = {claim.id: claim for claim in claims}
    for name in (question.claim, question.baseline):
        if name not in known:
            raise unknown_name("claim of a ladder", name, known)
    claim, baseline = known[question.claim], known[question.baseline]
    findings = [_find(cause, numbers, claim) for cause in question.causes]
    sentences = [
        question.question,
        _level(question.number, numbers, claim),
        _level(question.baseline_number, numbers, baseline),
        "What each cause adds, with its 95 % interval over seeds:",
        "; ".join(_what(finding, claim.unit) for finding in findings) + ".",
        _conclusion(findings),
    ]
    return " ".join(sentences)


def _find(cause: Cause, numbers: Numbers, claim: Claim) -> Finding:
    effect = numbers.effect(cause.before, cause.after)
    return Finding(cause, effect, None if effect.paired is None else _in_unit(effect.paired, claim))


def _in_unit(paired: Paired, claim: Claim) -> Paired:
    before, after = (tuple(in_claim_unit(claim, value) for value in ends) for ends in (paired.before, paired.after))
    return Paired(paired.seeds, before, after)


def _level(place: Place, numbers: Numbers, claim: Claim) -> str:
    values, gaps = numbers.by_seed(place)
    what = f"{place.fit_text()}: reported {claim.printed} {claim.unit}"
    if not values:
        return f"{what}, not measured ({gaps[0].reason})."
    mean = statistics.fmean(in_claim_unit(claim, value) for value in values.values())
    return f"{what}, measured {mean:.3f} ({_seeds(len(values))})."


def _what(finding: Finding, unit: str) -> str:
    name, found = finding.cause.name, finding.paired
    if found is None:
        return f"{name}: not measured ({finding.effect.gaps[0].reason})"
    if found.identical:
        return f"{name}: nothing, all {found.n} seeds are equal"
    text = f"{name}: {found.mean:+.3f} {unit}"
    if found.interval is None:
        return f"{text} (one seed, no interval)"
    low, high = found.interval
    return f"{text} [{low:+.3f}, {high:+.3f}] ({_seeds(found.n)})"


def _seeds(n: int) -> str:
    return "1 seed" if n == 1 else f"{n} seeds"


def _conclusion(findings: Iterable[Finding]) -> str:
    """Return which causes raise the number, lower it or cannot be told from nothing, and which is the largest."""
    findings = list(findings)
    groups: dict[str, list[str]] = {"raised by": [], "lowered by": [], f"{BETWEEN}:": [], "not measured:": []}
    for finding in findings:
        only = " (one seed)" if finding.paired and finding.paired.n == 1 else ""
        groups[_direction(finding.paired)].append(finding.cause.name + only)
    said = "; ".join(f"{how} {', '.join(names)}" for how, names in groups.items() if names)
    chain = [finding for finding in findings if finding.cause.chain]
    return f"So the number is {said}. {_largest(chain)}"


def _direction(paired: Paired | None) -> str:
    if paired is None:
        return "not measured:"
    if paired.n > 1 and not paired.excludes_zero:
        return f"{BETWEEN}:"
    return "raised by" if paired.mean > 0 else "lowered by"


def _largest(chain: list[Finding]) -> str:
    measured = [finding for finding in chain if finding.paired is not None]
    if len(measured) < len(chain):
        return "Which cause is the largest is open until all are measured."
    first = max(chain, key=_size)
    total = sum(finding.paired.mean for finding in chain if finding.paired)
    share = first.paired.mean / total if first.paired and total else 0.0
    caution = "" if first.paired and first.paired.n > 1 else " One seed: a first look."
    return f"From the baseline to the number the largest part, {share:.0%}, is {first.cause.name}.{caution}"


def _size(finding: Finding) -> float:
    return abs(finding.paired.mean) if finding.paired else 0.0
