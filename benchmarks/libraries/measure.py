"""Times our kernels, a library alone and our adapter of it in turn, in rounds whose order alternates.

An adapter's steps are those of its real `fit`. `BlockContext` interrupts it between epochs, and the other sides have
their blocks there. So all sides of a round run on the same machine in the same minute, and the adapter's time includes
what a fit does beside its steps.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from bench.core.environment import OtherLoad
from bench.core.precision import without_denormals
from bench.core.reasons import in_words
from bench.core.timing import Stopwatch
from bench.interface import Posterior, Split
from bench.measure.measuring import first_rows, predict_split
from bench.show.table import Table
from benchmarks.command import in_own_process
from benchmarks.libraries.loops import LOOPS, Loop
from benchmarks.libraries.table import LIBRARIES, Compared, library_speed_table
from benchmarks.throughput.blocks import cycle, fitting, time_block
from benchmarks.throughput.measure import make_subject
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
