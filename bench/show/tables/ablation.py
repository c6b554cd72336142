"""Tables `ablation_*` and `mistakes`: how much each change is worth, with its interval over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from bench.core.text import FRACTION, Digits
from bench.judge.ablation.definition import chosen
from bench.judge.ablation.effects import Effect, Numbers, effect_text, effects, seeds_lost
from bench.judge.ablation.single_changes import ALONE, CUMULATIVE, MEASURING, MNIST, Ablation, SingleChange
from bench.judge.comparison import ALPHA, ENOUGH, Estimate, holm_over
from bench.judge.results import conditions_text
from bench.judge.samples import Samples
from bench.show.inputs import Inputs
from bench.show.reasoning import p_text
from bench.show.table import Entry, Linked, Measured, Missing, Table
from bench.show.tables.reported import ABSENT

Found = Sequence[tuple[SingleChange, Mapping[tuple[str, str], Effect]]]
"""Single changes, each with its effects by data set and quantity."""
TITLES = {"accuracy": "accuracy", "nll": "NLL", "ece": "ECE", "entropy": "entropy", "auroc": "AUROC"}
TITLES |= {"refusal": "refused", "error": "error", "held_out_error": "held-out error"}
KINDS = (
    "Alone: one correction of the published recipe. Cumulative: one after the other, up to the corrected recipe. "
    "Control: another network or recipe. Variant: a change that corrects nothing. Measuring: two numbers of one fit."
)
UNITS = (
    "Accuracy (in changes of the refusal rule: of the accepted images), ECE, AUROC of the entropy and share refused by "
    "the median rule are fractions; NLL and entropy are nats per image."
)
ERRORS = (
    "Errors, of the network of the means after the last epoch, are fractions of the test images and of the 10,000 "
    "held-out training images. Fits of 100, 150 and 300 epochs are the first epochs of longer fits, where these exist."
)
LETTERS = "letters"
SPARE = ("refused", "ECE", "entropy", "NLL")  # columns that a narrow screen leaves out, the first one first
MISTAKE_COLUMNS = {
    "accuracy, points": ((MNIST, "accuracy"), 100.0, Digits(decimals=2, signed=True)),
    "NLL": ((MNIST, "nll"), 1.0, Digits(decimals=3, signed=True)),
    "letters' AUROC, points": ((LETTERS, "auroc"), 100.0, Digits(decimals=1, signed=True)),
}


def ablation_table(ablation: Ablation, found: Found, numbers: Numbers, data_sets: Sequence[str]) -> Table:
    """Return a row for each single change and data set: mnist, then `data_sets`."""
    protocol = " and ".join(sorted({source for source, _ in ablation.keys.values()}))
    shown = {quantity for place, quantity in ablation.keys if place in (MNIST, *data_sets)}
    names = [name for name in TITLES if name in shown]
    rows = [_level(ablation, numbers, "published", data_set, names) for data_set in (MNIST, *data_sets)]
    by_change = [
        (single_change, [effect for (place, _), effect in given.items() if place in (MNIST, *data_sets)])
        for single_change, given in found
    ]
    for single_change, given in found:
        for data_set in (MNIST, *data_sets):
            mine = {quantity: given[place, quantity] for place, quantity in given if place == data_set}
            if mine:
                entries = [_entry(mine.get(name), name) for name in names]
                counts = [effect.estimate.n for effect in mine.values() if effect.estimate]
                n = "-".join(map(str, dict.fromkeys((min(counts), max(counts))))) if counts else None
                rows.append([single_change.name, single_change.kind, data_set, n, *entries])
    if numbers.results.has_corrected(ablation.approach):
        rows += [_level(ablation, numbers, "corrected", data_set, names) for data_set in (MNIST, *data_sets)]
    columns = ["single change", "kind", "data set", "n", *(TITLES[name] for name in names)]
    partial = [effect for _, some in by_change for effect in some if effect.estimate]
    lost = dict.fromkeys(
        f"{missing_value.code}: {missing_value.reason}" for effect in partial for missing_value in seeds_lost(effect)
    )
    caption = (
        f"First and last lines (levels): mean over seeds, {protocol} protocol. Other lines: one single change, after "
        "minus before, mean difference with its 95 % t interval over the n seeds that both fits have. Where n is "
        "smaller than in the levels, changes and levels are of different seeds. No interval is adjusted for the number "
        f"of lines. {KINDS} {UNITS if 'accuracy' in names else ERRORS} ~: the interval of a fraction would reach "
        "beyond 0 or 1, where the t rule is rough."
    )
    return Table(
        f"ablation_{ablation.approach}",
        f"Ablation of {ablation.approach}",
        caption,
        columns,
        rows,
        [
            *(f"*: {reason}" for reason in lost),
            *(
                f"{single_change.name} ({single_change.kind}): {_title(single_change)}."
                for single_change, some in by_change
                if some
            ),
        ],
        conditions=conditions_text(numbers.results),
        origin=numbers.results.origin(),
        lines=as_lines(ablation, found),
        spare=SPARE,
    )


def _title(single_change: SingleChange) -> str:
    if single_change.kind == MEASURING:
        return single_change.title
    before, after = next(iter(single_change.numbers.values()))
    return f"{single_change.title}; {before.fit_text()} -> {after.fit_text()}"


def _level(ablation: Ablation, numbers: Numbers, recipe: str, data_set: str, names: Sequence[str]) -> list[Entry]:
    start = ablation.start(recipe)
    entries: list[Entry] = []
    most = 0
    for name in names:
        if (data_set, name) not in start:
            entries.append(Missing(ABSENT))
            continue
        place = start[data_set, name]
        values, missing_values = numbers.by_seed(place)
        most = max(most, len(values))
        samples = Samples(values, missing_values[0] if missing_values else None, numbers.sources(place, values))
        entries.append(Measured(samples, FRACTION))
    return [f"= {recipe}", "level", data_set, str(most) if most else None, *entries]


def _entry(effect: Effect | None, quantity: str) -> Missing | Linked:
    if effect is None:
        return Missing(ABSENT)
    if effect.estimate is None:
        return Missing(effect.missing_values[0], effect.sources)
    return Linked(effect_text(effect, quantity), effect.sources)


def as_lines(ablation: Ablation, found: Found) -> list[dict[str, str | float | None]]:
    """Return one line for each single change, data set and quantity, for machines."""
    return [
        _line(ablation, single_change, what, effect) for single_change, given in found for what, effect in given.items()
    ]


def _line(
    ablation: Ablation, single_change: SingleChange, what: tuple[str, str], effect: Effect
) -> dict[str, str | float | None]:
    (data_set, quantity), (before, after), found = what, single_change.numbers[what], effect.estimate
    low, high = (found and found.interval()) or (None, None)
    return {
        "approach": ablation.approach,
        "single change": single_change.name,
        "kind": single_change.kind,
        "title": single_change.title,
        "data set": data_set,
        "quantity": quantity,
        "from": f"{before.fit_text()} {before.source} {before.key}",
        "to": f"{after.fit_text()} {after.source} {after.key}",
        "n": found.n if found else 0,
        "seeds": " ".join(map(str, found.first.by_seed)) if found else "",
        "before": found.first.mean if found else None,
        "after": found.second.mean if found else None,
        "difference": found.difference if found else None,
        "low": low,
        "high": high,
        "reason": "; ".join(f"{missing_value.code}: {missing_value.reason}" for missing_value in effect.missing_values),
    }


class Mistake(NamedTuple):
    """A mistake of a document, and the effect of correcting it alone."""

    approach: str
    single_change: SingleChange
    effects: dict[tuple[str, str], Effect]  # by data set and quantity
    p: float | None = None  # of the accuracy's change, adjusted over all mistakes by Holm; None for one seed

    @property
    def is_clear(self) -> bool:
        """Return whether `ENOUGH` pairs show a change of the accuracy, adjusted for the number of mistakes tried."""
        return self.accuracy is not None and self.accuracy.n >= ENOUGH and self.p is not None and self.p < ALPHA

    @property
    def accuracy(self) -> Estimate | None:
        """Return the change of the accuracy."""
        return self.effects[MNIST, "accuracy"].estimate


@lru_cache(maxsize=1)  # the table, the figure and a finding ask for it
def mistakes(inputs: Inputs) -> list[Mistake]:
    """Return the effect of each correction of each published recipe, made alone."""
    made = []
    for ablation in chosen(()):
        found = effects(ablation, inputs.numbers)
        # A recipe's only correction has no single change of kind `ALONE`: the cumulative single change is the same
        # change.
        kind = ALONE if any(single_change.kind == ALONE for single_change, _ in found) else CUMULATIVE
        made += [
            Mistake(ablation.approach, single_change, changes)
            for single_change, changes in found
            if single_change.kind == kind
        ]
    adjusted = holm_over({place: one.accuracy for place, one in enumerate(made)})
    return [one._replace(p=adjusted.get(place)) for place, one in enumerate(made)]


def mistakes_table(inputs: Inputs) -> Table:
    """Return a row for each mistake."""
    found = mistakes(inputs)
    rows: list[list[Entry]] = [
        [
            one.approach,
            one.single_change.name,
            str(one.accuracy.n) if one.accuracy else None,
            *(change(one.effects[what], scale, digits) for what, scale, digits in MISTAKE_COLUMNS.values()),
            None if one.p is None else p_text(one.p),
        ]
        for one in found
    ]
    lost = dict.fromkeys(
        missing_value.reason for one in found for effect in one.effects.values() for missing_value in seeds_lost(effect)
    )
    notes = [
        *(f"*: {reason}" for reason in lost),
        *(f"{one.single_change.name}: {_title(one.single_change)}." for one in found),
    ]
    return Table(
        "mistakes",
        "What is each mistake of the documents worth?",
        "One mistake corrected, all others left: after minus before, mean difference over n paired seeds with its 95 % "
        "t interval. Accuracy and letters' AUROC (how well the entropy tells letters from digits) in percentage "
        "points, NLL in nats per image. Common protocol. Intervals are not adjusted for the number of mistakes: by "
        "chance alone, one in twenty excludes zero. p: of the change of the accuracy, adjusted for it (paired t test, "
        "Holm).",
        ["approach", "mistake", "n", *MISTAKE_COLUMNS, "p"],
        rows,
        notes,
        conditions=conditions_text(inputs.results),
        origin=inputs.results.origin(),
    )


def change(effect: Effect, scale: float, digits: Digits) -> Linked | Missing:
    """Return a difference with its interval, e.g. "+6.22 [+5.15, +7.30]"."""
    if effect.estimate is None:
        return Missing(effect.missing_values[0], effect.sources)
    text, interval = digits.text(scale * effect.estimate.difference), effect.estimate.interval()
    if interval is not None:
        text += " [{}, {}]".format(*(digits.text(scale * end) for end in interval))
    return Linked(text + ("*" if seeds_lost(effect) else ""), effect.sources)
