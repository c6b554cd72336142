"""Speeds beside other people's libraries, and the table that `python -m benchmarks.libraries` prints."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from bench.core.records import Provenance
from bench.core.text import THREE
from bench.judge.results import origin_of
from bench.judge.samples import Gap
from bench.show.table import Entry, Missing, Table

AGAIN = "python -m benchmarks.libraries measures it"
LEVEL = 0.95  # least probability that an interval holds the median
FASTER = 2.0  # target: our kernels are this many times as fast as the fastest library
SIZES = (784, 400, 400, 10)  # units of the layers
OVER = 1.05  # target: an adapter takes at most this many times as long as the library alone
LIBRARIES = {  # name of a library's loop -> our adapter
    "torchbnn": "torchbnn_mlp",
    "bayesian-torch": "bayesian_torch_mlp",
    "posteriors vi.diag": "vi_diag",
    "Pyro AutoNormal": "autonormal",
    "posteriors sghmc": "sghmc",
}
COLUMNS = ("library", "step", "ours faster", "answers", "whole networks", "per_row", "adapter")
CAPTION = (
    "One network, 784-400-400-10, batches of {batch}. Step: a training step of the library alone, written as its "
    "README or documentation writes it; batches lie ready in memory. Ours faster: that time divided by the time of a "
    "step of linear_bbb's kernels. Answers: the library's time for {draws} draws of {images:,} images, one pass of all "
    "images per draw. Whole networks, per_row: that time divided by ours; per_row does less work for the same "
    "distribution of each image's answer. Adapter: time of our adapter's step divided by that of the library alone. "
    "Medians of rounds of both in turn, {rounds} of steps and {answers} of answers, with 95 % intervals. sghmc has no "
    "Gaussians: only its adapter is compared."
)


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One of our sides beside a library alone; both lists have an entry for each round."""

    what: Literal["step", "predict"]
    library: str
    side: Literal["kernels", "per_row", "adapter"]  # ours; "per_row" is for predictions only
    seconds: list[float]  # of a step, or of all draws of all images
    library_seconds: list[float]


@dataclass(frozen=True, kw_only=True)
class LibrarySpeeds:
    """The measurements of all libraries."""

    batch_size: int
    draws: int
    images: int
    versions: dict[str, str]  # of the libraries
    load: str  # why times do not count; '' if they do
    compared: list[Compared]
    provenance: Provenance


class Ratio(NamedTuple):
    """The median of the ratios of all rounds, and its interval."""

    median: float
    low: float
    high: float


def ratio(above: Sequence[float], below: Sequence[float]) -> Ratio:
    """Return the ratio above / below; each round gives one."""
    found = [a / b for a, b in zip(above, below, strict=True)]
    return Ratio(statistics.median(found), *median_interval(found))


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return an interval for the median that is valid for every distribution, of at least `LEVEL` from six values on.

    The k-th smallest lies above the median if fewer than k values lie below it: the chance is P(Binomial(n, 1/2) < k).
    k is the largest whose chance is at most (1 - LEVEL) / 2: 6 of 21 values. Fewer than six values give their range.
    """
    n, k, chance = len(values), 0, 0.5 ** len(values)
    while chance <= (1 - LEVEL) / 2:
        k += 1
        chance += math.comb(n, k) * 0.5**n
    ordered = sorted(values)
    return ordered[max(k, 1) - 1], ordered[n - max(k, 1)]


def library_speed_table(found: LibrarySpeeds) -> Table:
    """Return the table with a row for each library, also for one that was not measured."""
    rows = [_row(name, found) for name in LIBRARIES]
    title = "Speed beside other people's libraries"
    caption = CAPTION.format(
        batch=found.batch_size,
        draws=found.draws,
        images=found.images,
        rounds=_rounds(found, "step"),
        answers=_rounds(found, "predict"),
    )
    versions = ", ".join(f"{name} {version}" for name, version in sorted(found.versions.items()))
    load = [f"Times do not count: {found.load}."] if found.load else []
    notes = [*load, *_targets(found), *_products(found), f"{versions}."]
    return Table("library_speed", title, caption, COLUMNS, rows, notes, origin=origin_of([found.provenance]))


def _rounds(found: LibrarySpeeds, what: str) -> int:
    return max((len(one.seconds) for one in found.compared if one.what == what), default=0)


def _products(found: LibrarySpeeds) -> Iterable[str]:
    """Yield a note on the rate of our matrix products in answers with whole networks."""
    seconds = [
        statistics.median(one.seconds) for one in found.compared if (one.what, one.side) == ("predict", "kernels")
    ]
    if seconds:
        operations = 2.0 * found.draws * found.images * sum(a * b for a, b in itertools.pairwise(SIZES))
        yield (
            f"Answers with whole networks are {operations / 1e9:,.0f} billion operations in matrix products; ours does "
            f"{operations / 1e9 / statistics.median(seconds):,.0f} billion a second, the noise included."
        )


def _row(library: str, found: LibrarySpeeds) -> list[Entry]:
    not_measured = Missing(Gap("not measured", AGAIN))
    if not (own := [one for one in found.compared if one.library == library]):
        return [library, *[not_measured] * 6]
    of = {(one.what, one.side): one for one in own}
    adapter, answer = of.get(("step", "adapter")), of.get(("predict", "kernels"))
    step = of.get(("step", "kernels"), adapter)
    return [
        library,
        not_measured if step is None else f"{THREE.text(1e3 * statistics.median(step.library_seconds))} ms",
        _faster(of.get(("step", "kernels"))),
        None if answer is None else f"{THREE.text(statistics.median(answer.library_seconds))} s",
        _faster(answer),
        _faster(of.get(("predict", "per_row"))),
        None if adapter is None else _shown(ratio(adapter.seconds, adapter.library_seconds)),
    ]


def _faster(one: Compared | None) -> str | None:
    return None if one is None else _shown(ratio(one.library_seconds, one.seconds))


def _shown(found: Ratio) -> str:
    return f"{found.median:.2f} [{found.low:.2f}, {found.high:.2f}]"


def _targets(found: LibrarySpeeds) -> Iterable[str]:
    """Yield a note for each target: whether the median reaches it."""
    for what, words in (("step", "training step"), ("predict", "answers with whole networks")):
        ratios = {
            one.library: ratio(one.library_seconds, one.seconds).median
            for one in found.compared
            if (one.what, one.side) == (what, "kernels")
        }
        if ratios:
            nearest = min(ratios, key=lambda name: ratios[name])
            reached = "reached" if ratios[nearest] >= FASTER else "missed"
            yield f"Target, {words}: {FASTER:g} times as fast as the fastest library, {nearest}: {reached}."
    over = {
        LIBRARIES[one.library]: ratio(one.seconds, one.library_seconds).median
        for one in found.compared
        if one.side == "adapter"
    }
    if over:
        missed = [f"{name} ({value:.2f})" for name, value in over.items() if value > OVER]
        reached = f"missed by {', '.join(missed)}" if missed else "reached"
        yield f"Target, adapters: at most {OVER:g} times the library alone: {reached}."
