"""The table of speeds beside other people's libraries, from the file of `python -m benchmarks.libraries`."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable

from bench.core.text import THREE
from bench.judge.results import origin_of
from bench.judge.samples import Gap
from bench.show.cells import Entry, Missing, Table, make_table
from bench.show.library_speeds import AGAIN, Compared, LibrarySpeeds, Ratio, ratio

FASTER = 2.0  # times as fast as the fastest library, our kernels: a target
SIZES = (784, 400, 400, 10)  # of the layers
OVER = 1.05  # times as long as the library alone, an adapter at most: a target
LIBRARIES = {  # by the name of the measured loop, the adapter
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


def library_speed_table(found: LibrarySpeeds | None) -> Table:
    """Return a row for each library, also for one that nobody measured."""
    rows = [_row(name, found) for name in LIBRARIES]
    title = "Speed beside other people's libraries"
    if found is None:
        return make_table("library_speed", title, f"Nothing was measured: {AGAIN}.", COLUMNS, rows)
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
    return make_table("library_speed", title, caption, COLUMNS, rows, notes, origin=origin_of([found.provenance]))


def _rounds(found: LibrarySpeeds, what: str) -> int:
    return max((len(one.seconds) for one in found.compared if one.what == what), default=0)


def _products(found: LibrarySpeeds) -> Iterable[str]:
    """Say how fast whole networks multiply: their matrix products leave little to gain."""
    seconds = [
        statistics.median(one.seconds) for one in found.compared if (one.what, one.side) == ("predict", "kernels")
    ]
    if seconds:
        operations = 2.0 * found.draws * found.images * sum(a * b for a, b in itertools.pairwise(SIZES))
        yield (
            f"Answers with whole networks are {operations / 1e9:,.0f} billion operations in matrix products; ours does "
            f"{operations / 1e9 / statistics.median(seconds):,.0f} billion a second, the noise included."
        )


def _row(library: str, found: LibrarySpeeds | None) -> list[Entry]:
    not_measured = Missing(Gap("not measured", AGAIN))
    if found is None or not (own := [one for one in found.compared if one.library == library]):
        return [library, *[not_measured] * 6]
    of = {(one.what, one.side): one for one in own}
    adapter, answer = of.get(("step", "adapter")), of.get(("predict", "kernels"))
    step = of.get(("step", "kernels"), adapter)
    return [
        library,
        not_measured if step is None else f"{THREE.text(1e3 * statistics.median(step.library_seconds))} ms",
        _faster(of.get(("step", "kernels"))),
        "-" if answer is None else f"{THREE.text(statistics.median(answer.library_seconds))} s",
        _faster(answer),
        _faster(of.get(("predict", "per_row"))),
        "-" if adapter is None else _shown(ratio(adapter.seconds, adapter.library_seconds)),
    ]


def _faster(one: Compared | None) -> str:
    return "-" if one is None else _shown(ratio(one.library_seconds, one.seconds))


def _shown(found: Ratio) -> str:
    return f"{found.median:.2f} [{found.low:.2f}, {found.high:.2f}]"


def _targets(found: LibrarySpeeds) -> Iterable[str]:
    """Say of each target whether it is reached, by the median."""
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
