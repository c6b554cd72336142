"""Shared by the Pyro approaches: isolation of Pyro's global state, optimisers, resuming, minibatches.

Pyro has one global store of parameters, draws from PyTorch's global generator, and has a global validation switch.
`isolated` gives a fit its own state and then restores the caller's. So no fit disturbs another fit or a measurement.
"""

# mypy: allow-subclassing-any
# (Pyro has no types)
from __future__ import annotations

import ctypes
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyro
import torch
from pyro.optim import PyroOptim
from torch import Tensor
from torch.optim import Optimizer

from bench.interface import Split
from implementations._kernels.layout import check_masks


@contextmanager
def isolated(device: torch.device) -> Iterator[None]:
    """Give the body an empty parameter store, its own global generators and no validation.

    Validation is off, because today's Pyro checks the shape of a scalar log_prob and the event dimensions of model and
    guide. The documents' code fails these checks, which their Pyro did not have. Validation also costs time.
    """
    _keep_freed_memory()
    cuda = [device] if device.type == "cuda" else []
    with (
        torch.random.fork_rng(devices=cuda),
        pyro.validation_enabled(False),
        pyro.get_param_store().scope(),
        warnings.catch_warnings(),
    ):
        # The harness reports a loss that is not a number, once, as a diverged fit.
        warnings.filterwarnings("ignore", message="Encountered NaN", category=UserWarning)
        yield


def _keep_freed_memory() -> None:
    """Tell the C library, where it is glibc, to keep what tensors free rather than return it to the system.

    A step of pyro_hidden_layer frees and asks again for 40 MB in pieces of 4 MB. glibc gives such pieces back at once,
    and the page faults of getting them again (10,000 a step) were a fifth of the step's processor time.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", lambda *_: 0)
        mallopt(-3, 32 * 2**20)  # M_MMAP_THRESHOLD at its maximum: bytes from which a piece is mapped by itself
        mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: free bytes at the end of the heap that are returned


class OneOptimiser(PyroOptim):
    """A Pyro optimiser with one PyTorch optimiser for all parameters; Pyro's own has one for each parameter.

    After its step it sets the gradients to None. Otherwise `SVI.step` would fill them with zeros, and the next backward
    pass would add to these. The parameters must be the same in every step.
    """

    def __init__(self, constructor: type[Optimizer], arguments: dict[str, Any]) -> None:
        super().__init__(constructor, arguments)
        self._optimiser: Optimizer | None = None

    def __call__(self, params: Iterable[Tensor]) -> None:
        """Take one step for `params`, a set."""
        del params
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)

    @property
    def optimiser(self) -> Optimizer:
        """The PyTorch optimiser, made at the first use for all parameters that Pyro's store then holds."""
        if self._optimiser is None:
            parameters = [value for _, value in pyro.get_param_store().named_parameters()]
            self._optimiser = self.pt_optim_constructor(parameters, **self.pt_optim_args)
        return self._optimiser


def sgd(learning_rate: float, momentum: float) -> OneOptimiser:
    """Return `pyro.optim.SGD` with Nesterov momentum as one fused pass over all parameters."""
    arguments = {"lr": learning_rate, "momentum": momentum, "nesterov": True, "fused": True}
    return OneOptimiser(torch.optim.SGD, arguments)


def adam(learning_rate: float) -> OneOptimiser:
    """Return `pyro.optim.Adam` as one fused pass over all parameters."""
    return OneOptimiser(torch.optim.Adam, {"lr": learning_rate, "fused": True})


def save_state(optimiser: OneOptimiser) -> dict[str, Tensor]:
    """Return Pyro's unconstrained parameters and the optimiser's buffers as CPU tensors, for `load_state`."""
    state = {}
    for name, parameter in pyro.get_param_store().named_parameters():
        state[f"parameter/{name}"] = _copy(parameter)
        for key, value in optimiser.optimiser.state[parameter].items():
            if value is not None:
                state[f"optimiser/{name}/{key}"] = _copy(value)
    return state


def load_state(optimiser: OneOptimiser, state: Mapping[str, Tensor]) -> None:
    """Overwrite the parameters, which must exist, and the optimiser's buffers with what `save_state` returned."""
    for name, parameter in pyro.get_param_store().named_parameters():
        with torch.no_grad():
            parameter.copy_(state[f"parameter/{name}"])
        prefix = f"optimiser/{name}/"
        optimiser.optimiser.state[parameter] = {
            key[len(prefix) :]: value.to(value.device if value.dim() == 0 else parameter.device, copy=True)
            for key, value in state.items()
            if key.startswith(prefix)
        }


def _copy(value: Tensor) -> Tensor:
    return value.detach().to("cpu", copy=True)


def minibatches(
    train: Split, batch_size: int, generator: torch.Generator | None, limit: int | None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (images [B, n_inputs], labels [B]) of one epoch, at most `limit` batches; the last may be shorter.

    `generator` draws the order of the rows; None keeps the order of the file.
    """
    order = None if generator is None else torch.randperm(len(train), generator=generator).to(train.x.device)
    for start in range(0, len(train), batch_size)[:limit]:
        rows: Any = slice(start, start + batch_size)
        rows = rows if order is None else order[rows]
        yield train.x[rows], train.y[rows]


def masked_arrays(arrays: Mapping[str, Tensor], keep: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return arrays TENSOR/mean and TENSOR/std with zeros where keep[TENSOR] is False; tensors not named are kept.

    Raises:
        ConfigError, ContractViolation: as `check_masks`.
    """
    check_masks(keep, {key.rpartition("/")[0]: value for key, value in arrays.items()})
    masked = {}
    for key, value in arrays.items():
        kept = keep.get(key.rpartition("/")[0])
        masked[key] = value if kept is None else value.masked_fill(~kept.to(value.device), 0.0)
    return masked
