"""The table that answers a ladder's question: from the baseline to the reported number, one step after the other."""

from __future__ import annotations

from bench.core.text import Digits
from bench.judge.claims import Claim
from bench.judge.ladder.answer import Answer, StepEffect
from bench.judge.ladder.rungs import Step
from bench.judge.results import Results
from bench.show.tables.accuracy import ABSENT
from bench.show.tables.answer_words import conclusions
from bench.show.tables.cells import Entry, Measured, Missing, Table, results_table

THREE = Digits(decimals=3)
ADDED = Digits(decimals=3, signed=True)


def answer_table(approach: str, answer: Answer, results: Results) -> Table:
    """One row for each step of an approach's question, and one for each other estimator."""
    unit = answer.claim.unit
    columns = ["step", "fit"]
    for walk in answer.walks:
        columns += [f"{walk.estimator.name}, {unit}", f"added, by {walk.estimator.name}"]
    rows = [_step_row(answer, place) for place in range(len(answer.question.steps))]
    rows += [_estimator_row(answer, finding) for finding in answer.by_estimator]
    caption = (
        f"{answer.question.question} {_printed(answer.question.steps[0], answer.baseline)}, "
        f"{_printed(answer.question.steps[-1], answer.claim)}. Each step makes the change that it names to the line "
        "before; a change may concern several settings. The size of a step depends on the order of the steps. Added: "
        "mean difference of the same seeds with its 95 % t interval (number of seeds). Levels are of the seeds that "
        "every fit has. The steps' intervals are not adjusted for their number. Common protocol."
    )
    title = f"Where a reported number of {approach} comes from"
    return results_table(results, f"answer_{approach}", title, caption, columns, rows, conclusions(answer))


def _printed(step: Step, claim: Claim) -> str:
    return f"{step.approach} {step.recipe}: reported {claim.printed} {claim.unit}"


def _step_row(answer: Answer, place: int) -> list[Entry]:
    step = answer.question.steps[place]
    row: list[Entry] = [step.name, f"{step.approach} {step.recipe}"]
    for walk in answer.walks:
        row += [Measured(walk.levels[place], THREE), _added(walk.findings[place - 1]) if place else Missing(ABSENT)]
    return row


def _estimator_row(answer: Answer, finding: StepEffect) -> list[Entry]:
    step = answer.question.steps[-1]
    others = [Missing(ABSENT)] * (2 * len(answer.walks) - 2)
    return [finding.name, f"{step.approach} {step.recipe}", Missing(ABSENT), _added(finding), *others]


def _added(finding: StepEffect) -> Missing | str:
    paired = finding.added.paired
    if paired is None:
        return Missing(finding.added.gaps[0])
    text = ADDED.text(paired.mean)
    if paired.interval is not None:
        low, high = map(ADDED.text, paired.interval)
        text += f" [{low}, {high}] ({paired.n})"
    return text
