"""The context of a fit in this process that leaves nothing behind: for a notebook and for searches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from bench.core.errors import Diverged
from bench.interface import Context, Posterior

Tell = Callable[[int, Mapping[str, float]], object]
"""(epoch from 1, what the document prints after it) -> ignored."""


class FitAlone(Context):
    """The context of a fit that is neither resumed nor measured."""

    def __init__(self, seed: int, device: torch.device, steps_per_epoch: int | None, tell: Tell | None) -> None:
        """Take the run seed, the device, the most steps of an epoch (None: all) and what to call after each epoch."""
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
