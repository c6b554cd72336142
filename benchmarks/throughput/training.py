"""Training: our real `Approach.fit`, interrupted after every few steps for a block of the document's steps.

`BlockContext` cuts each epoch after a few steps, and its `epoch_end` stops our clock. Between two of our epochs, the
document's steps run in the same thread with their own clock. Our time includes what a fit does at the start of an epoch
(the order of the rows), but not the set-up and the first epoch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from bench.core.timing import Stopwatch
from bench.interface import Approach, Context, Posterior, Split, Task
from benchmarks.throughput.blocks import WARM_UP, Comparison, Side, by_default_on, fitting, time_block
from benchmarks.throughput.documents import DocumentCode

PILOT_STEPS = 4  # our steps that are timed first, to know how many fill a block; the document takes one


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


def compare_training(subject: Subject, code: DocumentCode, rounds: int, block_s: float) -> Comparison:
    """Time `rounds` rounds of blocks of about `block_s` seconds; a block is at most an epoch."""
    pilot = alternate(subject, code, PILOT_STEPS, 1, rounds=1)
    epoch = max(1, len(subject.train) // subject.batch_size)
    ours = fitting(pilot.ours.seconds[0], PILOT_STEPS, block_s, epoch)
    return alternate(subject, code, ours, fitting(pilot.document.seconds[0], 1, block_s), rounds)


def alternate(subject: Subject, code: DocumentCode, ours: int, document: int, rounds: int) -> Comparison:
    """Time rounds of `ours` of our steps and `document` of the document's steps, after a warm-up round."""
    found = Comparison(Side(ours), Side(document))
    watch = Stopwatch(subject.device, code.settle)  # for the document's steps

    def between() -> None:
        with by_default_on(subject.device), code.session():
            found.document.seconds.append(time_block(watch, code.step, document))

    context = BlockContext(subject.seed, subject.device, ours, Stopwatch(subject.device, code.settle), between)
    approach = dataclasses.replace(subject.approach, epochs=WARM_UP + rounds)
    approach.fit(subject.train, subject.task, context)
    found.ours.seconds = context.seconds
    return found.without_first(WARM_UP)


def short_fit(subject: Subject, steps: int = 2) -> Posterior:
    """Return a posterior after a few steps; how fast it predicts does not depend on its training."""
    watch = Stopwatch(subject.device)
    context = BlockContext(subject.seed, subject.device, steps, watch, lambda: None)
    return dataclasses.replace(subject.approach, epochs=1).fit(subject.train, subject.task, context)
