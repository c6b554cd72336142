"""Six points, nothing learnt, and one planted fault: what a run makes of it is what is tested.

Objective: none.  Target: none.  Cost: none.  Fails when: it is asked to.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from bench.interface import Approach, Context, Gaussian, Noise, Posterior, Split, Task

MORE_THAN_ANY_MACHINE = 1 << 46  # bytes


@dataclass(frozen=True)
class Planted(Approach):
    """No training, and a fault."""

    noise: ClassVar[Noise] = "none"

    epochs: int = 1
    fault: str = ""  # name of a function below, or none
    size: int = 1  # numbers of the posterior

    def fit(self, train: Split, task: Task, ctx: Context) -> Posterior:
        """Do what the fault does, and otherwise return a posterior that predicts zero."""
        del task
        loss = FAULTS[self.fault]() if self.fault else 0.0
        posterior = Zero(self.size)
        ctx.epoch_end(1, {f"toy/{train.name}/train_loss": loss}, lambda: posterior, dict)
        return posterior

    def rebuild(self, arrays: Mapping[str, Tensor], task: Task, seed: int) -> Posterior:
        """Return the posterior that predicts zero."""
        del task, seed
        return Zero(arrays["zeros"].numel())


class Zero(Posterior):
    """The prediction 0 with variance 1."""

    n_draws = 1

    def __init__(self, size: int) -> None:
        """Hold `size` numbers."""
        self._size = size

    def predict(self, x: Tensor, draws: range, rows: Tensor) -> Gaussian:
        """Return the same for each of the B rows of x."""
        del rows
        zeros = torch.zeros(len(draws), len(x), 1)
        return Gaussian(zeros, torch.ones_like(zeros))

    def arrays(self) -> Mapping[str, Tensor]:
        """Return as many zeros as were asked for."""
        return {"zeros": torch.zeros(self._size)}


def _raise() -> float:
    raise ZeroDivisionError("a planted fault")


def _signal(number: int) -> float:
    os.kill(os.getpid(), number)
    time.sleep(60)  # the signal comes first
    return 0.0


def _allocate_bytes() -> float:
    return float(len(bytearray(MORE_THAN_ANY_MACHINE)))


def _allocate_tensor() -> float:
    return float(torch.zeros(MORE_THAN_ANY_MACHINE).sum())


def _exit() -> float:
    os._exit(3)


def _sleep() -> float:
    time.sleep(3600)
    return 0.0


FAULTS = {
    "exception": _raise,
    "segfault": lambda: _signal(signal.SIGSEGV),
    "abort": lambda: _signal(signal.SIGABRT),
    "killed": lambda: _signal(signal.SIGKILL),
    "exit": _exit,
    "memory": _allocate_bytes,
    "tensor-memory": _allocate_tensor,
    "not-a-number": lambda: float("nan"),
    "hang": _sleep,
}
