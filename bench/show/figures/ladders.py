"""The ladder of each approach, from the published to the corrected accuracy, one change at a time."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.judge.ladder.effects import Effect, effects
from bench.judge.ladder.rungs import CUMULATIVE, MNIST, Ladder, Rung
from bench.judge.ladder.selection import chosen
from bench.show.figures.figure import FIELD, Absent, Figure
from bench.show.figures.waterfall import WaterfallBar, waterfall
from bench.show.material import Material

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

WHAT = (MNIST, "accuracy")


def make(material: Material) -> Iterator[Figure | Absent]:
    """Give one figure for each approach that has a ladder with accuracies."""
    for ladder in chosen(()):
        found = [(rung, given[WHAT]) for rung, given in effects(ladder, material.numbers) if WHAT in given]
        if found:
            yield _ladder(material, ladder, found)


def _ladder(material: Material, ladder: Ladder, found: Sequence[tuple[Rung, Effect]]) -> Figure | Absent:
    name, title = f"ladder-{ladder.approach}", f"From the published to the corrected {ladder.approach}: test accuracy"
    start = material.numbers.by_seed(ladder.start()[WHAT])[0]
    measured = [(rung, effect.paired) for rung, effect in found if effect.paired is not None]
    if not start or not measured:
        return Absent(name, title, FIELD, f"no change is measured; python -m bench ladder {ladder.approach} --run does")
    steps = [rung for rung, _ in found if rung.kind == CUMULATIVE]
    is_whole = len(steps) > 0 and all(rung in [known for known, _ in measured] for rung in steps)
    bars = []
    for follows in (True, False):
        for rung, paired in measured:
            if (is_whole and rung.kind == CUMULATIVE) == follows:
                low, high = paired.interval or (None, None)
                base = None if follows else statistics.fmean(paired.before)
                label = rung.name if follows else f"{rung.name} ({rung.kind})"
                bars.append(WaterfallBar(label, paired.mean, low, high, paired.n, base))
    absent = [f"{rung.name} ({rung.kind})" for rung, effect in found if effect.paired is None]
    without = f" Not measured: {', '.join(absent)}." if absent else ""
    records = material.finished(ladder.approach)
    caption = (
        "Share of the test images classified right, mean probability of 100 draws. Black: published and corrected "
        "recipe; bars: what each correction changes, one after the other, then other changes, each from the number "
        "that it starts from; lines: 95 % t intervals of the mean difference of the same seeds, n of them, none for "
        f"one seed. Blue up, orange down.{without} {material.conditions(records)}"
    )
    last = "corrected" if is_whole else ""
    return Figure(name, title, caption, FIELD, _Draw(bars, statistics.fmean(start.values()), last))


@dataclass(frozen=True)
class _Draw:
    bars: Sequence[WaterfallBar]
    start: float
    last: str

    def __call__(self) -> Drawing:
        """Return the drawing."""
        return waterfall(self.bars, self.start, "test accuracy [fraction of images]", "published", self.last)
