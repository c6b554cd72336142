"""The table of speeds beside other people's libraries that `python -m benchmarks.libraries` prints."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bench.core.text import THREE
from bench.show.table import Entry, Table
from benchmarks.command import notes
from benchmarks.throughput.table import median_and_range

LIBRARIES = {  # name of a library's loop -> our adapter
    "torchbnn": "torchbnn_mlp",
    "bayesian-torch": "bayesian_torch_mlp",
    "posteriors vi.diag": "vi_diag",
    "Pyro AutoNormal": "autonormal",
    "posteriors sghmc": "sghmc",
}
COLUMNS = ("library", "step", "ours faster", "answers", "whole networks", "per_row", "adapter")
CAPTION = (
    "One network, 784-400-400-10, batches of 128. Step: a training step of the library alone, written as its README or "
    "documentation writes it; batches lie ready in memory. Ours faster: that time divided by the time of a step of "
    "linear_bbb's kernels. Answers: the library's time for {draws} draws of {images:,} images, one pass of all images "
    "per draw. Whole networks, per_row: that time divided by ours; per_row does less work for the same distribution of "
    "each image's answer. Adapter: time of our adapter's step divided by that of the library alone. Medians and ranges "
    "of rounds of both in turn. sghmc has no Gaussians: only its adapter is compared."
)


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One of our sides beside a library alone; both lists have an entry for each round."""

    what: Literal["step", "predict"]
    library: str
    side: Literal["kernels", "per_row", "adapter"]  # ours; "per_row" is for predictions only
    seconds: list[float]  # of a step, or of all draws of all images
    library_seconds: list[float]

    def slower(self) -> str:
        """Return how many times as long the library takes, as text."""
        return _ratio(self.library_seconds, self.seconds)


def library_speed_table(
    found: Sequence[Compared], draws: int, images: int, versions: Mapping[str, str], loads: Sequence[str] = ()
) -> Table:
    """Return a row for each library that was measured; `loads`: why times do not count, if they do not."""
    names = dict.fromkeys(one.library for one in found)
    rows = [_row(name, {(one.what, one.side): one for one in found if one.library == name}) for name in names]
    told = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    remarks = [*(f"Times do not count: {load}." for load in loads), f"{told}.", *notes()]
    caption = CAPTION.format(draws=draws, images=images)
    return Table("library_speed", "Speed beside other people's libraries", caption, COLUMNS, rows, remarks)


def _row(library: str, of: Mapping[tuple[str, str], Compared]) -> list[Entry]:
    adapter, kernels, answers = of["step", "adapter"], of.get(("step", "kernels")), of.get(("predict", "kernels"))
    per_row = of.get(("predict", "per_row"))
    return [
        library,
        f"{THREE.text(1e3 * statistics.median(adapter.library_seconds))} ms",
        None if kernels is None else kernels.slower(),
        None if answers is None else f"{THREE.text(statistics.median(answers.library_seconds))} s",
        None if answers is None else answers.slower(),
        None if per_row is None else per_row.slower(),
        _ratio(adapter.seconds, adapter.library_seconds),
    ]


def _ratio(above: Sequence[float], below: Sequence[float]) -> str:
    """Return median and range of the rounds' own ratios."""
    median, span = median_and_range([a / b for a, b in zip(above, below, strict=True)])
    return f"{median} ({span})"
