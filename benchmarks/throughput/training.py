"""Training: our real `Approach.fit`, interrupted after every few steps for a block of the document's steps.

`BlockContext` cuts each epoch after a few steps, and its `epoch_end` stops our clock. Between two of our epochs, the
document's steps run in the same thread with their own clock. Our time includes what a fit does at the start of an epoch
(the order of the rows), but not the set-up and the first epoch.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from bench.core.streams import generator
from bench.core.timing import Stopwatch
from bench.interface import Approach, Context, Posterior, Split, Task
from benchmarks.throughput.blocks import WARM_UP, Comparison, MatrixProduct, Side, as_documented, fitting, time_block
from benchmarks.throughput.yardsticks import Yardstick

PILOT_STEPS = 4  # our steps that are timed first, to know how many fill a block; the document takes one
TINY_INPUTS = 8
TINY_STEPS, TINY_EPOCHS = 50, 5


@dataclass(frozen=True)
class Subject:
    """An approach with its data."""

    approach: Approach
    task: Task
    train: Split
    test: Split
    seed: int
    device: torch.device

    @property
    def batch_size(self) -> int:
        """Return the rows of a training step."""
        return int(getattr(self.approach, "batch_size", len(self.train)))


class BlockContext(Context):
    """Cuts every epoch to a block of steps, times it, and calls `between` while its clock is stopped."""

    def __init__(
        self, seed: int, device: torch.device, steps: int, watch: Stopwatch, between: Callable[[], object]
    ) -> None:
        self.seed, self.device, self.steps_per_epoch = seed, device, steps
        self.seconds: list[float] = []  # of each epoch
        self._watch, self._between = watch, between

    def restore(self) -> tuple[int, Mapping[str, Tensor]] | None:
        """Start the clock; a fit calls this when its set-up is done."""
        self._watch.start()
        return None

    def epoch_end(
        self,
        epoch: int,
        trace: Mapping[str, float],
        posterior: Callable[[], Posterior],
        state: Callable[[], Mapping[str, Tensor]],
    ) -> None:
        """See `Context.epoch_end`."""
        del epoch, trace, posterior, state
        self.seconds.append(self._watch.stop())
        self._between()
        self._watch.start()


def compare_training(
    subject: Subject, yardstick: Yardstick, product: MatrixProduct, rounds: int, block_s: float
) -> Comparison:
    """Time `rounds` rounds of blocks of about `block_s` seconds; a block is at most an epoch."""
    ours, document = steps_of_a_block(subject, yardstick, product, block_s)
    return alternate(subject, yardstick, product, ours, document, rounds)


def steps_of_a_block(subject: Subject, yardstick: Yardstick, product: MatrixProduct, block_s: float) -> tuple[int, int]:
    """Return how many of our steps, at most an epoch, and how many of the document's take about `block_s` seconds."""
    pilot = alternate(subject, yardstick, product, PILOT_STEPS, 1, rounds=1)
    epoch = max(1, len(subject.train) // subject.batch_size)
    ours = fitting(pilot.ours.seconds[0], PILOT_STEPS, block_s, epoch)
    return ours, fitting(pilot.document.seconds[0], 1, block_s)


def alternate(
    subject: Subject, yardstick: Yardstick, product: MatrixProduct, ours: int, document: int, rounds: int
) -> Comparison:
    """Time rounds of `ours` of our steps and `document` of the document's steps, after a warm-up round."""
    found = Comparison(Side(ours), Side(document), Side(product.flops))
    watch = Stopwatch(subject.device, yardstick.settle)  # for the document's steps and the product

    def between() -> None:
        with as_documented(subject.device), yardstick.session():
            found.document.seconds.append(time_block(watch, yardstick.step, document))
        found.product.seconds.append(time_block(watch, product, 1))

    context = BlockContext(subject.seed, subject.device, ours, Stopwatch(subject.device, yardstick.settle), between)
    approach = dataclasses.replace(subject.approach, epochs=WARM_UP + rounds)
    approach.fit(subject.train, subject.task, context)
    found.ours.seconds = context.seconds
    return found.without_first(WARM_UP)


def overhead_seconds(subject: Subject, yardstick: Yardstick) -> float:
    """Return the seconds of one of our steps that are no arithmetic: the median time of a step of a tiny network.

    The tiny network needs the same calls of Python and of the framework, with the same batch size. So its time would
    stay, however fast the arithmetic became. It is an upper bound if a framework works while Python prepares.
    """
    n_rows = TINY_STEPS * subject.batch_size
    source = generator(subject.seed, "overhead")
    x = torch.rand(n_rows, TINY_INPUTS, generator=source)
    y = torch.randint(subject.task.n_outputs, (n_rows,), generator=source)
    tiny = dataclasses.replace(subject.approach, epochs=WARM_UP + TINY_EPOCHS, **yardstick.smallest)
    task = dataclasses.replace(subject.task, n_train=n_rows, n_inputs=TINY_INPUTS)
    rows = Split(subject.train.name, x.to(subject.device), y.to(subject.device), torch.arange(n_rows))
    watch = Stopwatch(subject.device, yardstick.settle)
    context = BlockContext(subject.seed, subject.device, TINY_STEPS, watch, lambda: None)
    tiny.fit(rows, task, context)
    return statistics.median(context.seconds[WARM_UP:]) / TINY_STEPS


def short_fit(subject: Subject, steps: int = 2) -> Posterior:
    """Return a posterior after a few steps; how fast it predicts does not depend on its training."""
    watch = Stopwatch(subject.device)
    context = BlockContext(subject.seed, subject.device, steps, watch, lambda: None)
    return dataclasses.replace(subject.approach, epochs=1).fit(subject.train, subject.task, context)
