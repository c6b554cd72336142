"""The answer to an ablation's question, as numbers; `bench.show.tables.answer` puts it into words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from bench.core.errors import unknown_name
from bench.judge.ablation.effects import Effect, Numbers
from bench.judge.ablation.single_changes import Estimator, Question, Step
from bench.judge.claims import Claim, in_claim_unit
from bench.judge.comparison import LEVEL, Estimate, paired
from bench.judge.samples import Samples


class LargestStep(NamedTuple):
    """The step that changes the number most, and how much more than the next step."""

    name: str
    share: float | None  # of the sum of all steps; None if the steps differ in sign
    way: float  # sum of all steps
    following: str  # name of the next largest step, '' if there is none
    lead: Estimate | None  # size of this step minus size of the next, by seed; None without common seeds
    n_others: int  # number of all other steps

    @property
    def lead_interval(self) -> tuple[float, float] | None:
        """Return the interval of the lead, adjusted for the choice of the largest step; None for one seed.

        The choice is wrong if any of the other steps is truly the largest, so Bonferroni's adjustment divides the 5 %
        by their number.
        """
        return None if self.lead is None else self.lead.interval(1 - (1 - LEVEL) / max(1, self.n_others))


class Walk(NamedTuple):
    """The steps from the baseline to the reported number, measured by one estimator."""

    estimator: Estimator
    levels: tuple[Samples, ...]  # of each step, in the claim's unit
    added: Mapping[str, Effect]  # name of a step (not the first) -> what it adds, in the claim's unit

    @property
    def largest(self) -> LargestStep | None:
        """Return the largest step; None unless every step is measured."""
        measured = [(name, one.estimate) for name, one in self.added.items() if one.estimate is not None]
        if len(measured) < len(self.added):
            return None
        (name, largest), *others = sorted(measured, key=lambda one: -abs(one[1].difference))
        way = sum(one.difference for _, one in measured)
        goes_one_way = all(one.difference * way >= 0 for _, one in measured)
        share = largest.difference / way if way and goes_one_way else None
        following, lead = (others[0][0], _lead(largest, others[0][1])) if others else ("", None)
        return LargestStep(name, share, way, following, lead, len(others))


class Answer(NamedTuple):
    """A question, and the numbers that answer it."""

    question: Question
    claim: Claim
    baseline: Claim
    walks: tuple[Walk, ...]  # one for each estimator
    by_estimator: Mapping[str, Effect]  # the document's estimator minus each other one, for the last step's fit


def find(question: Question, numbers: Numbers, claims: Iterable[Claim]) -> Answer:
    """Return the answer that the records give; raises ConfigError for an unknown claim."""
    known = {claim.id: claim for claim in claims}
    for name in (question.claim, question.baseline):
        if name not in known:
            raise unknown_name("claim of an ablation", name, known)
    claim = known[question.claim]
    walks = tuple(_walk(estimator, question.steps, numbers, claim) for estimator in question.estimators)
    first, *others = (estimator.of(question.steps[-1]) for estimator in question.estimators)
    mine = question.estimators[0].name
    by_estimator = {
        f"{mine} instead of {estimator.name}": _effect(numbers.effect(other, first), claim)
        for estimator, other in zip(question.estimators[1:], others, strict=True)
    }
    return Answer(question, claim, known[question.baseline], walks, by_estimator)


def _walk(estimator: Estimator, steps: Sequence[Step], numbers: Numbers, claim: Claim) -> Walk:
    places = [estimator.of(step) for step in steps]
    found = [numbers.by_seed(place) for place in places]
    every = [set(values) for values, _ in found if values]
    same = set.intersection(*every) if every else set()  # seeds of all steps, so that sizes and levels add up
    levels = tuple(
        Samples(
            {seed: in_claim_unit(claim, value) for seed, value in values.items() if seed in same or not same},
            None if values else missing_values[0],
            numbers.sources(place, same or values),
        )
        for place, (values, missing_values) in zip(places, found, strict=True)
    )
    added = {
        step.name: _effect(numbers.effect(before, after), claim)
        for step, before, after in zip(steps[1:], places, places[1:], strict=False)
    }
    return Walk(estimator, levels, added)


def _effect(effect: Effect, claim: Claim) -> Effect:
    """Convert an effect to the claim's unit."""
    if effect.estimate is None:
        return effect
    before, after = (
        side.converted(lambda value: in_claim_unit(claim, value)).by_seed
        for side in (effect.estimate.first, effect.estimate.second)
    )
    return effect._replace(estimate=paired(before, after))


def _lead(largest: Estimate, following: Estimate) -> Estimate | None:
    """Pair the sizes of two steps by seed. Each size is positive in the direction of its mean."""
    return paired(_sizes(following), _sizes(largest))


def _sizes(step: Estimate) -> dict[int, float]:
    sign, after = math.copysign(1, step.difference), step.second.by_seed
    return {seed: sign * (after[seed] - value) for seed, value in step.first.by_seed.items()}
