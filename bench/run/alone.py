"""A context for a fit in this process that stores nothing; notebooks and searches for hyper-parameters use it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from bench.core.errors import Diverged
from bench.interface import Context, Posterior

Tell = Callable[[int, Mapping[str, float]], object]
"""Called after each epoch with its number, from 1, and the numbers that the approach reports."""


class FitAlone(Context):
    """A context without checkpoints and without measurements."""

    def __init__(self, seed: int, device: torch.device, steps_per_epoch: int | None, tell: Tell | None) -> None:
        """Take the run seed, the device, the largest number of steps in an epoch (None: no limit), and `tell`."""
        self.seed, self.device, self.steps_per_epoch, self._tell = seed, device, steps_per_epoch, tell

    def epoch_end(
        self,
        epoch: int,
        trace: Mapping[str, float],
        posterior: Callable[[], Posterior],
        state: Callable[[], Mapping[str, Tensor]],
    ) -> None:
        """See `Context.epoch_end`."""
        del posterior, state
        for name, value in trace.items():
            if not math.isfinite(value):
                raise Diverged(f"{name} is {value} in epoch {epoch}; a smaller learning rate may help")
        if self._tell is not None:
            self._tell(epoch, trace)

    def restore(self) -> None:
        """See `Context.restore`."""
