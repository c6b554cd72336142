"""Times our kernels, a library alone and our adapter of it in turn, in rounds whose order alternates; their table.

An adapter's steps are those of its real `fit`. `BlockContext` interrupts it between epochs, and the other sides have
their blocks there. So all sides of a round run on the same machine in the same minute, and the adapter's time includes
what a fit does beside its steps.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from bench.core.environment import OtherLoad
from bench.core.precision import without_denormals
from bench.core.reasons import in_words
from bench.core.text import THREE
from bench.core.timing import Stopwatch
from bench.interface import Posterior, Split
from bench.measure.measuring import first_rows, predict_split
from bench.show.table import Entry, Table
from benchmarks.command import in_own_process, notes
from benchmarks.libraries.loops import LOOPS, Loop
from benchmarks.throughput.blocks import cycle, fitting, time_block
from benchmarks.throughput.measure import make_subject, median_and_range
from benchmarks.throughput.training import BlockContext, Subject
from implementations._methods import WIDTHS
from implementations._seeds import all_rows
from implementations.linear_bbb import LinearBbb, Seeds

BATCH = 128
PILOT_STEPS = 5
KEEPS_NETWORKS = "posteriors sghmc"  # it has no Gaussians, so that our kernels are not comparable


@dataclass(frozen=True)
class Amounts:
    """How much is measured of each library."""

    rounds: int = 21  # of training steps
    block_s: float = 0.5  # seconds of a side's steps in a round
    predict_rounds: int = 21
    draws: int = 100
    images: int = 10_000


class Kernels:
    """Our linear_bbb, as its fit trains it, on the network of the libraries."""

    def __init__(self, subject: Subject) -> None:
        """Set up the network. Its hidden units are sigmoids, which take longer than the ReLU of the libraries."""
        (width,) = set(WIDTHS)
        recipe = LinearBbb(hidden_units=width, batch_size=BATCH)
        self._watch = Stopwatch(subject.device)
        self._context = BlockContext(subject.seed, subject.device, 1, self._watch, lambda: None)
        self._seeds = Seeds(recipe, subject.train, all_rows(subject.train), subject.task, [self._context])
        self._epoch = 0

    def steps(self, times: int) -> float:
        """Return the seconds of an epoch of `times` steps; there must be enough training rows for them."""
        self._epoch, self._context.steps_per_epoch = self._epoch + 1, times
        return time_block(self._watch, lambda: self._seeds.epoch(self._epoch), 1)

    def posterior(self) -> Posterior:
        """Return the posterior as it is now."""
        return self._seeds.posterior(0)


class Alone:
    """A library's own loop."""

    def __init__(self, loop: Loop, subject: Subject) -> None:
        """Take batches in the order of the file."""
        self.loop, self._train, self._watch = loop, subject.train, Stopwatch(subject.device)
        self._batches = cycle(len(subject.train), BATCH)

    def steps(self, times: int) -> float:
        """Return the seconds of `times` steps."""

        def step() -> None:
            where = next(self._batches)
            self.loop.step(self._train.x[where], self._train.y[where])

        with self.loop.session():
            return time_block(self._watch, step, times)

    def answers(self, images: Split, n_draws: int) -> float:
        """Return the seconds of all draws of all images."""
        with self.loop.session():
            return time_block(self._watch, lambda: self.loop.predict(images.x, n_draws), 1)


def measured(library: str, amounts: Amounts, threads: int | None = None) -> tuple[list[Compared], str]:
    """Measure one library; return the comparisons, and why the times do not count ('' if they do)."""
    if threads:
        torch.set_num_threads(threads)
    others = OtherLoad(torch.get_num_threads())
    with without_denormals():  # as a run's child process does
        return list(_compared(library, amounts)), in_words(*others.reasons())


def _compared(library: str, amounts: Amounts) -> Iterator[Compared]:
    subject = make_subject(LIBRARIES[library])
    assert subject.batch_size == BATCH
    alone = Alone(LOOPS[library][1](subject.task), subject)
    kernels = None if library == KEEPS_NETWORKS else Kernels(subject)
    yield from _training(library, subject, alone, kernels, amounts)
    if kernels is not None:
        yield from _predicting(library, subject, alone, kernels.posterior(), amounts)


def _training(
    library: str, subject: Subject, alone: Alone, kernels: Kernels | None, amounts: Amounts
) -> Iterator[Compared]:
    """Yield the comparison of training steps with the adapter, and with our kernels."""
    sides: dict[str, Callable[[int], float]] = {"library": alone.steps}
    if kernels is not None:
        sides["kernels"] = kernels.steps
    of_epoch = len(subject.train) // BATCH  # a call of our kernels is at most one epoch
    counts = {name: _fitting(steps, amounts.block_s, of_epoch) for name, steps in sides.items()}
    seconds: dict[str, list[float]] = {name: [] for name in sides}

    def blocks(names: Sequence[str]) -> None:
        for name in names:
            seconds[name].append(sides[name](counts[name]) / counts[name])

    adapter = _driven(subject, amounts, blocks, list(sides))
    theirs = seconds["library"]
    yield Compared(what="step", library=library, side="adapter", seconds=adapter, library_seconds=theirs)
    if kernels is not None:
        own = seconds["kernels"]
        yield Compared(what="step", library=library, side="kernels", seconds=own, library_seconds=theirs)


def _fitting(steps: Callable[[int], float], block_s: float, most: int) -> int:
    steps(1)  # the first step makes what is made only once
    return fitting(steps(PILOT_STEPS), PILOT_STEPS, block_s, most)


def _driven(
    subject: Subject, amounts: Amounts, blocks: Callable[[Sequence[str]], None], others: Sequence[str]
) -> list[float]:
    """Fit the adapter with blocks of the other sides between its own; return the seconds of its step in each round."""
    pilot = _fit(subject, 2, PILOT_STEPS, lambda: None)
    steps = fitting(pilot[-1], PILOT_STEPS, amounts.block_s, len(subject.train) // BATCH)
    plan = turns(amounts.rounds, others)
    own = _fit(subject, 1 + amounts.rounds, steps, lambda: blocks(next(plan)))
    return [one / steps for one in own[1:]]  # the first warms up


def turns(rounds: int, others: Sequence[str]) -> Iterator[list[str]]:
    """Yield the other sides that are measured after each block of the adapter; after its warm-up block, none.

    Even rounds have the order adapter, library, kernels; odd rounds have the opposite order.
    """
    yield []
    for one in range(rounds):
        reverse = list(reversed(others)) if one + 1 < rounds else []
        yield [*others, *reverse] if one % 2 == 0 else []


def _fit(subject: Subject, epochs: int, steps: int, between: Callable[[], None]) -> list[float]:
    context = BlockContext(subject.seed, subject.device, steps, Stopwatch(subject.device), between)
    dataclasses.replace(subject.approach, epochs=epochs).fit(subject.train, subject.task, context)
    return context.seconds


def _predicting(
    library: str, subject: Subject, alone: Alone, posterior: Posterior, amounts: Amounts
) -> Iterator[Compared]:
    """Yield the comparison of predictions with ours: with whole networks, and with `per_row`."""
    images = first_rows(subject.test, amounts.images)

    def ours(model: Posterior) -> Callable[[int], float]:
        return lambda n: predict_split(model, images, range(n), device=subject.device).seconds

    sides = {
        "kernels": ours(posterior),
        "library": lambda n: alone.answers(images, n),
        "per_row": ours(posterior.per_row()),
    }
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for side in sides.values():
        side(min(3, amounts.draws))  # warms up
    for one in range(amounts.predict_rounds):
        for name in list(sides) if one % 2 == 0 else list(reversed(sides)):
            seconds[name].append(sides[name](amounts.draws))
    theirs = seconds.pop("library")
    for name, own in seconds.items():
        yield Compared(what="predict", library=library, side=name, seconds=own, library_seconds=theirs)


def run(libraries: Sequence[str], amounts: Amounts, threads: int | None, tell: Callable[[str], object]) -> Table:
    """Measure each library of `LOOPS` that is named, in a process of its own: a framework leaves threads and memory.

    `threads`: of all sides; None for PyTorch's own choice. `tell` gets the name of each library before it is measured.
    """
    compared: list[Compared] = []
    loads: list[str] = []
    for library in libraries:
        tell(library)
        found, load = in_own_process(measured, library, amounts, threads)
        compared += found
        loads += [f"{library}: {load}"] if load else []
    packages = ["torch", *dict.fromkeys(LOOPS[library][0] for library in libraries)]
    versions = {name: importlib.metadata.version(name) for name in packages}
    return library_speed_table(compared, amounts.draws, amounts.images, versions, loads)


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
    named = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    remarks = [*(f"Times do not count: {load}." for load in loads), f"{named}.", *notes()]
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
