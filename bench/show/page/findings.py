"""The findings of the suite: sentences whose numbers come from the records, each with its figure and its table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bench.core.text import counted, listed
from bench.judge.comparison import CANNOT_TELL, CONFIRMED, CONTRADICTED
from bench.judge.stats.papers import PAPER
from bench.show.figures import forest as end_results_figure
from bench.show.figures.changes import MISTAKES
from bench.show.inputs import Inputs
from bench.show.page.worth import NOT_MEASURED, with_verb, worth
from bench.show.sentences import MISSING, all_filled
from bench.show.tables.blundell2015 import noise_left, worth_of_choices
from bench.show.tables.blundell2015_answer import can_it_be_reproduced, in_one_line
from bench.show.tables.methods_answer import methods_answer
from bench.show.tables.uci import uci_answer

TESTED = (CONFIRMED, CONTRADICTED, CANNOT_TELL)


@dataclass(frozen=True)
class MainFinding:
    """A question and its answer, with the names of the figure ('' for none) and the table that show it."""

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
        f"{with_verb(found[CONFIRMED], 'is confirmed', 'are confirmed')}: 95 of 100 new runs of their code, mistakes "
        f"included, would land within a margin of the reported number{_margins(inputs)}. {_kinds(inputs)}"
        f"{_contradicted(inputs)}{_open(inputs)}{without}"
    )
    return " ".join([said, *_curves(inputs)])


def _margins(inputs: Inputs) -> str:
    """Return the range of the margins of accuracies, in words."""
    found = {100 * verdict.claim.margin for verdict in inputs.judgement.ends if verdict.claim.metric == "accuracy"}
    span = " to ".join(f"{one:g}" for one in dict.fromkeys((min(found), max(found)))) if found else ""
    return f" ({span} percentage points for accuracies)" if span else ""


def _kinds(inputs: Inputs) -> str:
    """Say how many accuracies and how many other numbers are confirmed."""
    judged = [verdict for verdict in inputs.judgement.ends if verdict.outcome in TESTED]
    accuracies, others = (
        [verdict.outcome == CONFIRMED for verdict in judged if verdict.claim.metric.endswith("accuracy") == is_accuracy]
        for is_accuracy in (True, False)
    )
    if not accuracies or not others:
        return ""
    return (
        f"Confirmed are {sum(accuracies)} of {len(accuracies)} accuracies and {sum(others)} of "
        f"{counted(len(others), 'other number')}, such as shares refused and entropies. "
    )


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
    why = f"; for {never} of them, no number of seeds can, as runs scatter by more than the margin" if never else ""
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


def which(inputs: Inputs) -> str:
    """Say which networks differ from the ordinary one beyond chance, and what they do if all answer equally often."""
    filled = all_filled(inputs)
    return " ".join(dict.fromkeys([filled["which"], filled["sure"]]))  # once, if both say that numbers are missing


def mistakes(inputs: Inputs) -> str:
    """Say what corrections do to the accuracy, and which one changes more than the accuracy shows."""
    wrong_sign = all_filled(inputs)["wrong_sign"]
    return worth(inputs) if wrong_sign == MISSING else f"{worth(inputs)} {wrong_sign}"


FINDINGS = (
    MainFinding("reports", "Do the reported numbers hold?", reports, end_results_figure.NAME, "headlines"),
    MainFinding("worth", "How much does each mistake change?", mistakes, MISTAKES, "mistakes"),
    MainFinding("which_network", "Which approach should I take?", which, "", "coverage"),
)


def sentences(inputs: Inputs) -> dict[str, str]:
    """Return the sentences by name: of every finding, of the paper of 2015 and of the UCI table."""
    from bench.posterior.columns import stored_columns  # here: it imports PyTorch, which the page does not need
    from bench.show.tables.columns import COLD, cold_answer, columns_answer

    found = {finding.name: finding.answer(inputs) for finding in FINDINGS}
    paper = {
        PAPER: as_list(can_it_be_reproduced(inputs.paper)),
        f"{PAPER}_short": in_one_line(inputs.paper),
        f"{PAPER}_choices": worth_of_choices(inputs.paper),
        f"{PAPER}_pruning": noise_left(inputs.paper),
    }
    columns = {f"posterior-{one.name}": as_list(columns_answer(one)) for one in stored_columns(inputs.store.root)}
    answers = {"methods": as_list(methods_answer(inputs)), "uci": as_list(uci_answer(inputs.store.root))}
    is_shipped = COLD.is_relative_to(inputs.store.root.resolve()) and COLD.is_file()
    columns["posterior-cold"] = cold_answer() if is_shipped else NOT_MEASURED
    return {**all_filled(inputs), **found, **columns, **answers, **paper}


def as_list(points: Sequence[str]) -> str:
    """Return the first point as a paragraph, and the others as a list below it."""
    first, *others = points
    return "\n".join([first, *([""] if others else []), *(f"- {point}" for point in others)])
