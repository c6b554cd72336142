"""What each mistake of the documents is worth: the corrected recipe minus the published one, seed by seed."""

from __future__ import annotations

from typing import NamedTuple

from bench.core.text import Digits
from bench.judge.ladder.effects import Effect, effects, seeds_lost
from bench.judge.ladder.rungs import ALONE, CUMULATIVE, MNIST, Rung
from bench.judge.ladder.selection import chosen
from bench.judge.results import conditions_text
from bench.judge.stats.paired import Paired
from bench.judge.stats.prediction import holm
from bench.judge.stats.rule import ALPHA
from bench.show.cells import Entry, Missing, Table, make_table
from bench.show.material import Material
from bench.show.reasoning import p_text

LETTERS = "letters"
COLUMNS = {
    "accuracy, points": ((MNIST, "accuracy"), 100.0, Digits(decimals=2, signed=True)),
    "NLL": ((MNIST, "nll"), 1.0, Digits(decimals=3, signed=True)),
    "letters' AUROC, points": ((LETTERS, "auroc"), 100.0, Digits(decimals=1, signed=True)),
}


class Mistake(NamedTuple):
    """A mistake of a document: what happens when it alone is corrected."""

    approach: str
    rung: Rung
    effects: dict[tuple[str, str], Effect]  # by data set and quantity
    p: float | None = None  # of the accuracy's change, adjusted over all mistakes by Holm; None for one seed

    @property
    def is_clear(self) -> bool:
        """Return whether chance does not explain the change of the accuracy, although several mistakes were tried."""
        return self.p is not None and self.p < ALPHA

    @property
    def accuracy(self) -> Paired | None:
        """Return the change of the accuracy."""
        return self.effects[MNIST, "accuracy"].paired


def mistakes(material: Material) -> list[Mistake]:
    """Return every correction of every published recipe by itself."""
    made = []
    for ladder in chosen(()):
        found = effects(ladder, material.numbers)
        kind = ALONE if any(rung.kind == ALONE for rung, _ in found) else CUMULATIVE  # a single correction is both
        made += [Mistake(ladder.approach, rung, changes) for rung, changes in found if rung.kind == kind]
    paired = {str(place): one.accuracy for place, one in enumerate(made)}
    adjusted = holm({place: one.p for place, one in paired.items() if one is not None and one.p is not None})
    return [one._replace(p=adjusted.get(str(place))) for place, one in enumerate(made)]


def mistakes_table(material: Material) -> Table:
    """Return a row for each mistake."""
    found = mistakes(material)
    rows: list[list[Entry]] = [
        [
            one.approach,
            one.rung.name,
            str(one.accuracy.n) if one.accuracy else None,
            *(change_text(one.effects[what], scale, digits) for what, scale, digits in COLUMNS.values()),
            None if one.p is None else p_text(one.p),
        ]
        for one in found
    ]
    lost = dict.fromkeys(gap.reason for one in found for effect in one.effects.values() for gap in seeds_lost(effect))
    notes = [*(f"*: {reason}" for reason in lost), *(f"{one.rung.name}: {one.rung.title}." for one in found)]
    return make_table(
        "mistakes",
        "What is each mistake of the documents worth?",
        "One mistake corrected, all others left: after minus before, mean difference over n paired seeds with its 95 % "
        "t interval. Accuracy and letters' AUROC (how well the entropy tells letters from digits) in percentage "
        "points, NLL in nats per image. Common protocol. Intervals are not adjusted for the number of mistakes: by "
        "chance alone, one in twenty excludes zero. p: of the change of the accuracy, adjusted for it (paired t test, "
        "Holm).",
        ["approach", "mistake", "n", *COLUMNS, "p"],
        rows,
        notes,
        conditions=conditions_text(material.results),
        origin=material.results.origin(),
    )


def change_text(effect: Effect, scale: float, digits: Digits) -> str | Missing:
    """Return a difference with its interval, e.g. "+6.22 [+5.15, +7.30]"."""
    if effect.paired is None:
        return Missing(effect.gaps[0])
    text = digits.text(scale * effect.paired.mean)
    if effect.paired.interval is not None:
        text += " [{}, {}]".format(*(digits.text(scale * end) for end in effect.paired.interval))
    return text + ("*" if seeds_lost(effect) else "")
