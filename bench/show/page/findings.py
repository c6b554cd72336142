"""The findings of the suite: sentences whose numbers come from the records, each with its figure and its table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from bench.core.metric_table import SURE
from bench.core.text import counted, listed
from bench.data.manifest import OOD_LABELS
from bench.judge.comparison import CANNOT_TELL, CONFIRMED, CONTRADICTED
from bench.judge.samples import Samples
from bench.judge.stats.papers import PAPER
from bench.plan.registry import manifest
from bench.show.figures import forest as end_results_figure
from bench.show.figures import sure as sure_figure
from bench.show.figures.changes import MISTAKES
from bench.show.inputs import Inputs
from bench.show.page.worth import NOT_MEASURED, with_verb, worth
from bench.show.sentences import all_filled
from bench.show.tables.blundell2015 import noise_left, worth_of_choices
from bench.show.tables.blundell2015_answer import can_it_be_reproduced, in_one_line
from bench.show.tables.confidence import Confidence, RecipePlace, confidence
from bench.show.tables.methods_answer import methods_answer, methods_in_short
from bench.show.with_baseline import MINE

SHOWN = ("letters", "fashion_mnist", "noise_gaussian")
LEVEL = f"{100 * SURE:g} %"
TESTED = (CONFIRMED, CONTRADICTED, CANNOT_TELL)


@dataclass(frozen=True)
class MainFinding:
    """A question and its answer, with the names of the figure and the table that show it."""

    name: str
    question: str
    answer: Callable[[Inputs], str]
    figure: str
    table: str


def reports(inputs: Inputs) -> str:
    """Say how many end results are confirmed, contradicted and neither, and the same of the training curves."""
    found = Counter(verdict.outcome for verdict in inputs.judgement.ends)
    measured = sum(found[outcome] for outcome in TESTED)
    if not measured:
        return NOT_MEASURED
    few = len(inputs.judgement.ends) - measured
    without = f" {with_verb(few, 'more has', 'more have')} too few seeds." if few else ""
    said = (
        f"Of {counted(measured, 'number')} that the documents report after training, "
        f"{with_verb(found[CONFIRMED], 'is confirmed', 'are confirmed')}: 95 of 100 new runs of ours would land within "
        f"a margin of the reported number{_margins(inputs)}. {_contradicted(inputs)}{_open(inputs)}{without}"
    )
    return " ".join([said, *_curves(inputs)])


def _margins(inputs: Inputs) -> str:
    """Return the range of the margins of accuracies, in words."""
    found = {100 * verdict.claim.margin for verdict in inputs.judgement.ends if verdict.claim.metric == "accuracy"}
    span = " to ".join(f"{one:g}" for one in dict.fromkeys((min(found), max(found)))) if found else ""
    return f" ({span} percentage points for accuracies)" if span else ""


def _contradicted(inputs: Inputs) -> str:
    found = [verdict.claim for verdict in inputs.judgement.ends if verdict.outcome == CONTRADICTED]
    if not found:
        return "None is contradicted."
    named = listed([f"{one.printed} ({one.source})" for one in found])
    return f"{with_verb(len(found), 'is contradicted', 'are contradicted')}: {named}."


def _open(inputs: Inputs) -> str:
    """Say of how many end results no single run can tell, and how many of them no number of seeds can settle."""
    found = [verdict.on_scale for verdict in inputs.judgement.ends if verdict.outcome == CANNOT_TELL]
    if not found:
        return ""
    never = sum(one is not None and one.seeds_to_settle is None for one in found)
    why = f"; for {never} of them, no number of seeds can, as our runs scatter by more than the margin" if never else ""
    return f" For {len(found)}, no single run can tell{why}."


def _curves(inputs: Inputs) -> Iterator[str]:
    found = [one for one in inputs.judgement.curves if one.outcome in TESTED]
    contradicted = [one.on_scale for one in found if one.outcome == CONTRADICTED]
    if contradicted:
        is_small = all(one is not None and one.is_within_margin for one in contradicted)
        matters = ", by less than the margin" if is_small else ""
        confirmed = sum(one.outcome == CONFIRMED for one in found)
        rest = len(found) - confirmed - len(contradicted)
        cannot = f"; for {rest}, no single run can tell" if rest else ""
        yield (
            f"Of {counted(len(found), 'training curve')}, {with_verb(confirmed, 'is', 'are')} confirmed and "
            f"{with_verb(len(contradicted), 'is', 'are')} contradicted{matters}{cannot}."
        )


def _bayesian(networks: dict[RecipePlace, Confidence]) -> dict[RecipePlace, Confidence]:
    return {place: one for place, one in networks.items() if not _is_plain(place.approach)}


def _span(samples: Iterable[Samples]) -> str:
    """Return the smallest and the largest mean of percentages: "4 to 96 %"."""
    return _range(map(_mean, samples))


def _range(percentages: Iterable[float]) -> str:
    """Return the smallest and the largest: "4 to 96 %", or "4 %" if both are shown alike."""
    shown = [f"{one:.0f}" for one in sorted(percentages)]
    return f"{' to '.join(dict.fromkeys((shown[0], shown[-1])))} %"


def _is_plain(approach: str) -> bool:
    return manifest(approach.removeprefix(MINE)).noise == "none"


def sure(inputs: Inputs) -> str:
    """Say how often networks that are at least 99 % sure are right, and how often they are sure without a digit."""
    found = _classifiers(inputs)
    corrected = _corrected(found)
    if not corrected:
        return NOT_MEASURED
    return f"{_on_digits(found)} {_no_digits(corrected)}"


def _classifiers(inputs: Inputs) -> dict[RecipePlace, Confidence]:
    return {
        place: one
        for place, one in confidence(inputs).items()
        if place.approach in inputs.classifiers() and one.right.mean is not None
    }


def _corrected(found: dict[RecipePlace, Confidence]) -> dict[RecipePlace, Confidence]:
    return {place: one for place, one in found.items() if place.recipe == "corrected"}


def _on_digits(found: dict[RecipePlace, Confidence]) -> str:
    least = _rounded_down(min(_mean(one.right) for one in found.values()))
    broken = [place for place, one in found.items() if one.expected_accuracy.is_broken]
    said = (
        f"For each of the {len(found)} networks, published and corrected: where it is at least {LEVEL} sure of a "
        f"digit, at least {least} of its answers are right. It is that sure of "
        f"{_span(one.digits for one in found.values())} of the digits ({_trainings(found.values())})."
    )
    if not broken:
        return f"{said} None is right less often than its own probabilities say, beyond chance."
    names = {place: f"{place.approach} {'as ' * (place.recipe == 'published')}{place.recipe}" for place in broken}
    shown = [f"{names[one]} {_mean(found[one].expected):.2f} and {_mean(found[one].right):.2f} %" for one in broken]
    bayesian = _bayesian(_corrected(found))
    keeps = "; none of them is a corrected Bayesian one" if bayesian and not bayesian.keys() & set(broken) else ""
    whose = with_verb(len(broken), "network is overconfident: its", "networks are overconfident: their")
    return (
        f"{said} {whose} own probabilities predict more right answers than there are (predicted and right: "
        f"{'; '.join(shown)}){keeps}."
    )


def _rounded_down(percent: float) -> str:
    return f"{math.floor(10 * percent) / 10:.1f} %"  # "at least" must hold


def _sure_of(corrected: dict[RecipePlace, Confidence]) -> dict[str, dict[str, float]]:
    """Return, for each set of pictures without a digit, the percentage on which each approach is sure."""
    found = {
        OOD_LABELS[name]: {
            place.approach: _mean(one.no_digits[name]) for place, one in corrected.items() if one.no_digits[name].n
        }
        for name in OOD_LABELS
        if name in SHOWN
    }
    return {name: shares for name, shares in found.items() if shares}


def _no_digits(corrected: dict[RecipePlace, Confidence]) -> str:
    found = _sure_of(corrected)
    spans = [f"{_range(shares.values())} of the {name}" for name, shares in found.items()]
    worst = {max(shares, key=shares.__getitem__) for shares in found.values()}
    worst_of_all = ""
    if len(worst) == 1 and len(corrected) > 1:
        (name,) = worst
        named = f"the network without Bayes, {name}," if _is_plain(name) else name
        worst_of_all = f"; {named} is the worst on each kind"
    return (
        f"On pictures without a digit, the corrected networks are at least {LEVEL} sure of some digit in "
        f"{listed(spans)}{worst_of_all}."
    )


def _trainings(found: Iterable[Confidence]) -> str:
    counts = {one.right.n for one in found}
    if counts == {1}:
        return "one training each"
    return f"means of {' to '.join(map(str, dict.fromkeys((min(counts), max(counts)))))} trainings"


def _mean(sample: Samples) -> float:
    assert sample.mean is not None
    return sample.mean


FINDINGS = (
    MainFinding("reports", "Do the reported numbers hold?", reports, end_results_figure.NAME, "headlines"),
    MainFinding("sure", "Can a network be believed when it is 99 % sure?", sure, sure_figure.NAME, "sure"),
    MainFinding("worth", "How much does each mistake change?", worth, MISTAKES, "mistakes"),
)


def sentences(inputs: Inputs) -> dict[str, str]:
    """Return the sentences by name: of every finding, and of the paper of 2015."""
    found = {finding.name: finding.answer(inputs) for finding in FINDINGS}
    paper = {
        PAPER: as_list(can_it_be_reproduced(inputs.paper)),
        f"{PAPER}_short": in_one_line(inputs.paper),
        f"{PAPER}_choices": worth_of_choices(inputs.paper),
        f"{PAPER}_pruning": noise_left(inputs.paper),
    }
    methods = {"methods": as_list(methods_answer(inputs)), "methods_short": methods_in_short(inputs)}
    return {**all_filled(inputs), **found, **methods, **paper}


def as_list(points: Sequence[str]) -> str:
    """Return the first point as a paragraph, and the others as a list below it."""
    first, *others = points
    return "\n".join([first, *([""] if others else []), *(f"- {point}" for point in others)])
