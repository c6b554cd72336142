"""Tables `answer_*`: the steps from a baseline to a reported number, and which step changes the number most."""

from __future__ import annotations

from typing import Literal

from bench.core.text import Digits, counted
from bench.data.manifest import OOD_LABELS
from bench.judge.ablation.answer import Answer, LargestStep, Walk
from bench.judge.ablation.effects import Effect
from bench.judge.ablation.single_changes import Step
from bench.judge.claims import Claim
from bench.judge.comparison import Estimate
from bench.judge.results import Results
from bench.show.table import Entry, Measured, Missing, Table
from bench.show.tables.reported import ABSENT

THREE = Digits(decimals=3)
ADDED = Digits(decimals=3, signed=True)
Direction = Literal["raises", "lowers", "unclear", "not measured"]
"""What a step does to the number. `unclear`: its interval includes zero."""
WORDS: dict[Direction, str] = {
    "raises": "is raised by",
    "lowers": "is lowered by",
    "unclear": "is not clearly changed by",
    "not measured": "is not measured after",
}


def answer_table(approach: str, answer: Answer, results: Results) -> Table:
    """Return a row for each step of an approach's question, then one for each other estimator of the last step."""
    unit = answer.claim.unit
    columns = ["step", "fit"]
    for walk in answer.walks:
        columns += [f"{walk.estimator.name}, {unit}", f"added, by {walk.estimator.name}"]
    rows = [_step_row(answer, place) for place in range(len(answer.question.steps))]
    fit, others = rows[-1][1], [Missing(ABSENT)] * (2 * len(answer.walks) - 2)
    rows += [[name, fit, Missing(ABSENT), _added(effect), *others] for name, effect in answer.by_estimator.items()]
    caption = (
        f"{answer.question.question} {_printed(answer.question.steps[0], answer.baseline)}, "
        f"{_printed(answer.question.steps[-1], answer.claim)}. Each step changes what it names in the line before, "
        "sometimes several settings. The size of a step depends on the order of the steps. Added: mean difference over "
        "paired seeds with its 95 % t interval (number of seeds). Levels: over the seeds that every fit has. No "
        "interval is adjusted for the number of steps. Common protocol."
    )
    title = f"Where a reported number of {approach} comes from"
    fits = {(step.approach, step.recipe, "common") for step in answer.question.steps}
    shown = Results((one for one in results.records if one.combination in fits), results.manifests)
    return Table(f"answer_{approach}", title, caption, columns, rows, conclusions(answer)).of(shown)


def _printed(step: Step, claim: Claim) -> str:
    return f"{step.approach} {step.recipe}: reported {claim.printed} {claim.unit}"


def _step_row(answer: Answer, place: int) -> list[Entry]:
    step = answer.question.steps[place]
    row: list[Entry] = [step.name, f"{step.approach} {step.recipe}"]
    for walk in answer.walks:
        row += [Measured(walk.levels[place], THREE), _added(walk.added[step.name]) if place else Missing(ABSENT)]
    return row


def _added(effect: Effect) -> Missing | str:
    found = effect.estimate
    if found is None:
        return Missing(effect.missing_values[0])
    text, interval = ADDED.text(found.difference), found.interval()
    if interval is not None:
        low, high = map(ADDED.text, interval)
        text += f" [{low}, {high}] ({found.n})"
    return text


def conclusions(answer: Answer) -> list[str]:
    """Return a sentence for each estimator: which steps raise the number, and how far the largest is ahead."""
    claim = answer.claim
    subject = f"the {claim.metric.replace('_', ' ')} on {OOD_LABELS.get(claim.dataset, claim.dataset)}"
    return [f"By {walk.estimator.name}, {subject} {_conclusion(walk, claim.unit)}" for walk in answer.walks]


def _conclusion(walk: Walk, unit: str) -> str:
    """Say which steps raise the number, lower it or do neither clearly, and which is the largest."""
    groups: dict[Direction, list[str]] = {direction: [] for direction in WORDS}
    for name, effect in walk.added.items():
        only = " (one seed)" if effect.estimate and effect.estimate.n == 1 else ""
        groups[_direction(effect.estimate)].append(name + only)
    said = ". It ".join(f"{WORDS[direction]} {'; '.join(names)}" for direction, names in groups.items() if names)
    return f"{said}. {_largest(walk.largest, unit)}"


def _direction(found: Estimate | None) -> Direction:
    """Return whether a change raises or lowers the number; one seed has no interval, so its sign decides."""
    if found is None:
        return "not measured"
    if found.n > 1 and not found.excludes_zero:
        return "unclear"
    return "raises" if found.difference > 0 else "lowers"


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
    by = f"{found.lead.difference:+.3f} {unit} [{low:+.3f}, {high:+.3f}] ({counted(found.lead.n, 'seed')}{chosen})"
    # The lead is over the seeds that both steps have. Over these alone, the largest step may be the smaller one.
    if low > 0:
        return f", ahead of {found.following} by {by}"
    return f", but its lead over {found.following} is within chance: {by}"
