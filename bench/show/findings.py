"""The findings: what the suite found, each as a sentence that the records fill, with its picture and its evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.judge.alternatives.named import CORRECTED
from bench.judge.alternatives.weighing import COMMON, OVERWHELMING
from bench.judge.samples import Sample
from bench.judge.stats.rule import AGREES, COARSE, DIFFERS
from bench.show.figures import confidence as confidence_figure
from bench.show.figures import forest as end_results_figure
from bench.show.figures import mistakes as mistakes_figure
from bench.show.material import Material
from bench.show.tables.alternatives import end_results_against
from bench.show.tables.confidence import SURE, Place, Sureness, sureness
from bench.show.tables.headline import load_short_names
from bench.show.tables.mistakes import Mistake, mistakes

NOT_MEASURED = "Nothing is measured yet: `python -m bench run --all` makes the records."
GROUPS = {"letters": "letters", "fashion_mnist": "clothes", "noise_gaussian": "Gaussian noise"}


@dataclass(frozen=True)
class Finding:
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
    without = (
        f" {len(outcomes) - measured} more were not measured with seeds enough." if len(outcomes) > measured else ""
    )
    said = (
        f"{_count(agreeing + coarse, measured)} that the documents report after training could be one more run of "
        f"ours. For {agreeing} the agreement is sharp: even one more run of ours would land within what matters. For "
        f"{coarse} single runs scatter by more than what matters, so that one reported run tells little.{without}"
    )
    return f"{said} {_differing(material)}" if differing else said


def _count(number: int, of: int) -> str:
    return f"All {of} numbers" if number == of else f"{number} of the {of} numbers"


def _differing(material: Material) -> str:
    found = [verdict.claim for verdict in material.judgement.ends if verdict.outcome == DIFFERS]
    return f"What chance does not explain: {_listed([f'{one.printed} ({one.source})' for one in found])}."


def sure(material: Material) -> str:
    """Say how often networks that are at least 99 % sure are right, and how often they say so of what is no digit."""
    found = {
        place: one
        for place, one in sureness(material).items()
        if place.approach in material.classifiers() and one.right.mean is not None
    }
    corrected = {place: one for place, one in found.items() if place.recipe == "corrected"}
    if not corrected:
        return NOT_MEASURED
    return f"{_kept(found)} {_no_digits(corrected)}"


def _kept(found: dict[Place, Sureness]) -> str:
    rights = {place: _mean(one.right) for place, one in found.items()}
    kept = [place for place in rights if rights[place] >= 100 * SURE]
    lowest = min(rights, key=lambda place: rights[place])
    least = f"the least, {rights[lowest]:.1f} %, is {lowest.approach}'s ({lowest.recipe})"
    who = "every network keeps" if len(kept) == len(rights) else f"{len(kept)} of {len(rights)} networks keep"
    once = " (one of each recipe was asked)" if all(one.right.n == 1 for one in found.values()) else ""
    return f"On digits {who} the promise: of its answers with at least 99 %, 99 % or more are right; {least}{once}."


def _no_digits(corrected: dict[Place, Sureness]) -> str:
    spans = []
    for name, words in GROUPS.items():
        measured = {place.approach: one.no_digits[name] for place, one in corrected.items()}
        shares = {approach: _mean(sample) for approach, sample in measured.items() if sample.n}
        if shares:
            low, high = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
            spans.append(f"{shares[low]:.0f} % ({low}) to {shares[high]:.0f} % ({high}) of {words}")
    what = _listed(spans)
    return f"But to be sure is no sign of a digit: with all corrections, networks say so just as firmly of {what}."


def worth(material: Material) -> str:
    """Say which mistakes change the accuracy."""
    measured = [one for one in mistakes(material) if one.accuracy]
    if not measured:
        return NOT_MEASURED
    clear = [one for one in measured if one.accuracy and one.accuracy.is_clear]
    clear.sort(key=lambda one: -abs(one.accuracy.mean if one.accuracy else 0))
    effects = f", {_largest(clear)}" if clear else ""
    rest = len(measured) - len(clear)
    return (
        f"Of {len(measured)} mistakes, corrected one at a time, {len(clear)} change the test accuracy beyond chance"
        f"{effects}. Of the other {rest} no effect on the accuracy shows."
        f"{_hardly(material)}"
    )


def _hardly(material: Material) -> str:
    """Say which reports can hardly come from a run without the mistake."""
    names = load_short_names()
    found: list[str] = []
    protocols: set[str] = set()
    for mine in end_results_against(material.results, material.claims):
        corrected = [one for one in mine.hardly_from if one.alternative.kind == CORRECTED]
        if corrected:
            name = names.get(mine.claim.id, mine.claim.metric)
            found.append(f"{mine.claim.printed} ({mine.claim.source}, {name})")
            protocols |= {one.protocol for one in corrected}
    if not found:
        return ""
    caution = ", both measured by the common protocol" if COMMON in protocols else ""
    return (
        f" {_listed(found)} can hardly come from a run without the mistake: over {OVERWHELMING:.0f} times less likely "
        f"under the corrected recipe{caution}."
    )


def _largest(clear: Sequence[Mistake]) -> str:
    """Return the effects, the largest first and with its words."""
    first, *others = (_effect(one) for one in clear)
    why = f"the most where {clear[0].rung.title}: {first} (95 % interval)"
    return f"{why}; {_listed(others)}" if others else why


def _effect(one: Mistake) -> str:
    change = one.accuracy
    assert change is not None
    assert change.interval is not None
    low, high = (f"{100 * end:+.2f}" for end in change.interval)
    return f"{one.approach} {100 * change.mean:+.2f} points [{low}, {high}]"


def _mean(sample: Sample) -> float:
    assert sample.mean is not None
    return sample.mean


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


FINDINGS = (
    Finding("reports", "Do the reported numbers hold?", reports, end_results_figure.NAME, "headlines"),
    Finding("sure", "Can a network be believed when it is 99 % sure?", sure, confidence_figure.NAME, "confidence"),
    Finding("worth", "What is each mistake worth?", worth, mistakes_figure.NAME, "mistakes"),
)


def sentences(material: Material) -> dict[str, str]:
    """Return the answer of every finding."""
    return {finding.name: finding.answer(material) for finding in FINDINGS}
