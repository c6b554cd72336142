"""The findings: what the suite found, each as a sentence that the records fill, with its picture and its evidence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bench.core.metric_table import SURE
from bench.core.text import counted
from bench.data.manifest import SHOWN
from bench.judge.alternatives.named import CORRECTED
from bench.judge.alternatives.weighing import COMMON, OVERWHELMING
from bench.judge.samples import Sample
from bench.judge.stats.papers import PAPER
from bench.judge.stats.rule import AGREES, COARSE, DIFFERS
from bench.plan.registry import manifest
from bench.show.figures import confidence as confidence_figure
from bench.show.figures import forest as end_results_figure
from bench.show.figures.changes import MISTAKES
from bench.show.material import Material
from bench.show.tables.alternatives import end_results_against
from bench.show.tables.blundell2015 import can_it_be_reproduced
from bench.show.tables.confidence import RecipePlace, Sureness, sureness
from bench.show.tables.headline import load_short_names
from bench.show.tables.mistakes import Mistake, mistakes

NOT_MEASURED = "Nothing is measured yet: `python -m bench run --all` makes the records."


@dataclass(frozen=True)
class MainFinding:
    """A question and its answer."""

    name: str
    question: str
    answer: Callable[[Material], str]
    figure: str
    table: str  # the evidence


def reports(material: Material) -> str:
    """Say how many end results could be one more run of ours, and how sharply that is known."""
    outcomes = [verdict.outcome for verdict in material.judgement.ends]
    agreeing, coarse, differing = (outcomes.count(one) for one in (AGREES, COARSE, DIFFERS))
    measured = agreeing + coarse + differing
    if not measured:
        return NOT_MEASURED
    few = len(outcomes) - measured
    without = f" {_that(few, 'more has', 'more have')} too few seeds." if few else ""
    said = (
        f"Of the {counted(measured, 'number')} that the documents report after training, "
        f"{_that(agreeing, 'agrees', 'agree')} with our runs: with 95 % probability, one more run of ours comes within "
        f"a margin that we fixed in advance{_margins(material)}. {_that(coarse, 'agrees', 'agree')} only coarsely: "
        "chance alone can explain the difference from our runs of the published code, but these runs scatter too much "
        f"to say more. {_differing(material)}{without}"
    )
    return " ".join([said, *_curves(material)])


def _margins(material: Material) -> str:
    """Return the margins of the accuracies, in words."""
    found = {100 * verdict.claim.margin for verdict in material.judgement.ends if verdict.claim.metric == "accuracy"}
    span = " to ".join(f"{one:g}" for one in dict.fromkeys((min(found), max(found)))) if found else ""
    return f" (for accuracies, {span} percentage points)" if span else ""


def _differing(material: Material) -> str:
    found = [verdict.claim for verdict in material.judgement.ends if verdict.outcome == DIFFERS]
    if not found:
        return "None differs by more than chance can explain."
    named = _listed([f"{one.printed} ({one.source})" for one in found])
    return f"{_that(len(found), 'differs', 'differ')} beyond chance: {named}."


def _curves(material: Material) -> Iterator[str]:
    found = [one for one in material.judgement.curves if one.outcome in (AGREES, COARSE, DIFFERS)]
    differing = [one.curve.evidence for one in found if one.outcome == DIFFERS]
    if differing:
        is_small = all(one is not None and one.distance <= one.margin for one in differing)
        matters = ", by less than the margin" if is_small else ""
        yield f"Of {counted(len(found), 'training curve')}, " + (
            f"{_that(len(found) - len(differing), 'agrees', 'agree')} and "
            f"{_that(len(differing), 'differs', 'differ')}{matters}."
        )


def sure(material: Material) -> str:
    """Say how often networks that are at least 99 % sure are right, and how often they are sure without a digit."""
    found = {
        place: one
        for place, one in sureness(material).items()
        if place.approach in material.classifiers() and one.right.mean is not None
    }
    corrected = {place: one for place, one in found.items() if place.recipe == "corrected"}
    if not corrected:
        return NOT_MEASURED
    return f"{_kept(found)} {_no_digits(corrected)}"


def _kept(found: dict[RecipePlace, Sureness]) -> str:
    least = min(_mean(one.right) for one in found.values())
    broken = [place for place, one in found.items() if one.promise.is_broken]
    right = f"{math.floor(10 * least) / 10:.1f} %"  # rounded down: "at least" must hold
    level = f"{100 * SURE:g} %"
    said = (
        f"Digits: each of {len(found)} networks (published and corrected) is right on at least {right} of the digits "
        f"of which it is at least {level} sure."
    )
    if not broken:
        return f"{said} None makes more mistakes than its probabilities allow, beyond chance."
    (first, *others) = broken
    more = "".join(f"; {_named(one)} {_both(found[one])}" for one in others)
    return (
        f"{said} Still, {_that(len(broken), 'is', 'are')} too sure: of these digits, the probabilities of "
        f"{_named(first)} promise that at least {_mean(found[first].promised):.2f} % are right, but only "
        f"{_mean(found[first].right):.2f} % are{more}."
    )


def _named(place: RecipePlace) -> str:
    return " ".join(place)


def _both(found: Sureness) -> str:
    return f"promises {_mean(found.promised):.2f} % and reaches {_mean(found.right):.2f} %"


def _no_digits(corrected: dict[RecipePlace, Sureness]) -> str:
    spans, worst = [], set()
    for name in (name for name in SHOWN if name in confidence_figure.MARKS):
        measured = {place.approach: one.no_digits[name] for place, one in corrected.items()}
        shares = {approach: _mean(sample) for approach, sample in measured.items() if sample.n}
        if shares:
            spans.append(f"{min(shares.values()):.0f} to {max(shares.values()):.0f} % of the {SHOWN[name]}")
            worst.add(max(shares, key=shares.__getitem__))
    worst_of_all = f" {_described(*worst)} is the worst on each kind." if len(worst) == 1 and len(corrected) > 1 else ""
    counts = sorted({one.right.n for one in corrected.values()})
    several = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
    seeds = (
        " Each percentage is from one training."
        if counts == [1]
        else f" Each percentage is a mean of {several} trainings."
    )
    return (
        f"Pictures that show no digit: even the corrected networks are at least {100 * SURE:g} % sure to see a digit "
        f"in {_listed(spans)}, depending on the network.{worst_of_all}{seeds}"
    )


def _described(approach: str) -> str:
    return f"The network without Bayes, {approach}," if manifest(approach).noise == "none" else approach


def worth(material: Material) -> str:
    """Say which mistakes change the accuracy."""
    measured = [one for one in mistakes(material) if one.accuracy]
    if not measured:
        return NOT_MEASURED
    clear = [one for one in measured if one.accuracy and one.accuracy.excludes_zero]
    clear.sort(key=lambda one: -abs(one.accuracy.mean if one.accuracy else 0))
    rest = len(measured) - len(clear)
    others = f" For the other {rest}, the interval includes zero." if rest else ""
    return f"{_effects(clear, len(measured))}{others}{_hardly(material)}"


def _hardly(material: Material) -> str:
    """Say which reports can hardly come from a run without the mistake."""
    names = load_short_names()
    found: dict[str, list[str]] = {}
    protocols: set[str] = set()
    for mine in end_results_against(material.results, material.claims):
        corrected = [one for one in mine.hardly_from if one.alternative.kind == CORRECTED]
        if corrected:
            name = names.get(mine.claim.id, mine.claim.metric)
            found.setdefault(mine.claim.source, []).append(f"{mine.claim.printed} ({name})")
            protocols |= {one.protocol for one in corrected}
    if not found:
        return ""
    is_one = [len(mine) for mine in found.values()] == [1]
    caution = ", measured by the common protocol, which measures all alike" if COMMON in protocols else ""
    reported = [
        f"{len(mine)} numbers of {source}, such as {mine[0]}," if len(mine) > 1 else f"{mine[0]} of {source}"
        for source, mine in found.items()
    ]
    return (
        f" The mistakes show in the reported numbers too: {_listed(reported)} {'is' if is_one else 'are'} over "
        f"{OVERWHELMING:.0f} times more "
        f"likely from the published code than from the corrected code{caution}."
    )


def _effects(clear: Sequence[Mistake], measured: int) -> str:
    """Return the effects, the largest first and with its words."""
    if not clear:
        return f"None of {measured} corrections, made one at a time, changes the test accuracy beyond chance."
    first, *others = (_effect(one) for one in clear)
    effects = "; ".join([f"{first}, where {clear[0].rung.title}", *others])
    change = "changes" if len(clear) == 1 else "change"
    return (
        f"Of {measured} corrections, made one at a time, {len(clear)} {change} the test accuracy beyond chance. In "
        f"percentage points [95 % interval]: {effects}."
    )


def _effect(one: Mistake) -> str:
    change = one.accuracy
    assert change is not None
    assert change.interval is not None
    low, high = (f"{100 * end:+.2f}" for end in change.interval)
    return f"{one.approach} {100 * change.mean:+.2f} [{low}, {high}]"


def _that(count: int, one: str, more: str) -> str:
    """Return a number with the verb that fits it: "1 differs", "2 differ"."""
    return f"{count} {one if count == 1 else more}"


def _mean(sample: Sample) -> float:
    assert sample.mean is not None
    return sample.mean


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


FINDINGS = (
    MainFinding("reports", "Do the reported numbers hold?", reports, end_results_figure.NAME, "headlines"),
    MainFinding("sure", "Can a network be believed when it is 99 % sure?", sure, confidence_figure.NAME, "confidence"),
    MainFinding("worth", "How much does each mistake change?", worth, MISTAKES, "mistakes"),
)


def sentences(material: Material) -> dict[str, str]:
    """Return the answer of every finding, and of the paper's question, which has a text of its own."""
    found = {finding.name: finding.answer(material) for finding in FINDINGS}
    return {**found, PAPER: can_it_be_reproduced(material.paper)}
