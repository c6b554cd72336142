"""A foreign objective as the auditor sees it: a function of a batch whose noise can be repeated.

Nothing of the model is known but its parameters. Every call runs from a seed of its own and leaves torch's generator,
the parameters and their gradients as they were.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from bench.errors import ConfigError
from bench.streams import stream_seed

Batch = Sequence[Any]  # the arguments of the loss: usually (x, y)
Loss = Callable[..., Tensor]
Gradient = dict[str, Tensor]  # float64 on the CPU, by the parameter's name


@dataclass(frozen=True)
class Factor:
    """A group of weights with independent Gaussians: how the parameters make its means and standard deviations."""

    name: str
    mean: Callable[[], Tensor]
    std: Callable[[], Tensor]


def own_noise() -> AbstractContextManager[None]:
    """Return a context that puts torch's generators back, those of GPUs too."""
    return torch.random.fork_rng(devices=range(torch.cuda.device_count()))


class Objective:
    """Loss, parameters and batches of one size."""

    def __init__(
        self,
        loss: Loss,
        parameters: Iterable[tuple[str, Tensor]],
        batches: Sequence[Batch],
        nll: Loss | None = None,
    ) -> None:
        """Keep what is audited; raises ConfigError where it cannot be."""
        self.parameters = {name: value for name, value in parameters if value.requires_grad}
        self.batches = [tuple(batch) if isinstance(batch, (tuple, list)) else (batch,) for batch in batches]
        self._loss, self._nll = loss, nll
        if not self.parameters:
            raise ConfigError("no parameter requires a gradient; give model.named_parameters()")
        if len(self.batches) < 2:
            raise ConfigError(f"{len(self.batches)} batch was given; the audit compares batches: give three")
        sizes = {len(batch[0]) for batch in self.batches}
        if len(sizes) != 1:
            raise ConfigError(f"batches of {sorted(sizes)} rows were given; give batches of one size")
        (self.batch_size,) = sizes

    @property
    def has_nll(self) -> bool:
        """Return whether the likelihood is known apart from the loss."""
        return self._nll is not None

    def loss(self, batch: Batch, draw: int) -> Tensor:
        """Return the loss of a batch with the noise of a draw, a scalar with its graph."""
        return self._call(self._loss, "loss", batch, draw)

    def nll(self, batch: Batch, draw: int) -> Tensor:
        """Return -log p(y | x, w) summed over the batch, with the same noise."""
        assert self._nll is not None
        return self._call(self._nll, "nll", batch, draw)

    def _call(self, function: Loss, name: str, batch: Batch, draw: int) -> Tensor:
        with own_noise(), torch.enable_grad():
            torch.manual_seed(stream_seed(draw, "audit"))
            value = function(*batch)
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise ConfigError(f"{name}(*batch) returned {type(value).__name__}; it must return a tensor of one number")
        if not bool(value.isfinite().all()):
            raise ConfigError(f"{name} of a batch is {float(value)}; audit where training works, or give other batches")
        return value.reshape(())

    def gradient(self, value: Tensor) -> Gradient:
        """Return the gradient of a scalar by name, float64; zero where autograd sees no path."""
        if not value.requires_grad:
            return {name: torch.zeros(p.shape, dtype=torch.float64) for name, p in self.parameters.items()}
        found = torch.autograd.grad(value, list(self.parameters.values()), allow_unused=True)
        return {
            name: torch.zeros(p.shape, dtype=torch.float64) if g is None else g.detach().cpu().double()
            for (name, p), g in zip(self.parameters.items(), found, strict=True)
        }

    @contextlib.contextmanager
    def moved(self, shifts: Mapping[str, Tensor]) -> Iterator[None]:
        """Add to the parameters, and put them back at the end."""
        kept = {name: self.parameters[name].detach().clone() for name in shifts}
        try:
            for name, shift in shifts.items():
                self.parameters[name].data.add_(shift.to(kept[name]))
            yield
        finally:
            for name, value in kept.items():
                self.parameters[name].data.copy_(value)


_MEANS = r"mu|mean|loc|locs"
_SCALES: dict[str, Callable[[Tensor], Tensor]] = {
    "rho": softplus,
    "log_sigma": torch.exp,
    "log_std": torch.exp,
    "log_scale": torch.exp,
    "logsigma": torch.exp,
    "logvar": lambda raw: (raw / 2).exp(),
    "log_var": lambda raw: (raw / 2).exp(),
    "sigma": softplus,
    "std": softplus,
    "scale": softplus,
    "scales": softplus,
}
_POSITIVE = ("sigma", "std", "scale", "scales")  # taken as they are where they can be


def _identity(raw: Tensor) -> Tensor:
    return raw


def factors_by_name(values: Callable[[], Mapping[str, Tensor]]) -> list[Factor]:
    """Pair means and scales by their names: `fc1.weight_mu` with `fc1.weight_rho`, `mu_kernel` with `rho_kernel`.

    rho means softplus, log_sigma, log_std and log_scale exp, logvar exp of the half. A sigma, std or scale is taken as
    it is, or through softplus where one of its numbers is not positive.

    Args:
        values: returns the named values, with their graph to the parameters, each time anew.
    """
    known = values()
    found = []
    for name in known:
        hit = re.search(rf"(?:^|(?<=[._]))(?:{_MEANS})(?=$|[._])", name)
        if hit is None:
            continue
        for word, transform in _SCALES.items():
            partner = name[: hit.start()] + word + name[hit.end() :]
            if partner in known and known[partner].shape == known[name].shape:
                as_it_is = word in _POSITIVE and bool((known[partner] > 0).all())
                found.append(_factor(values, name, partner, _identity if as_it_is else transform))
                break
    return found


def _factor(
    values: Callable[[], Mapping[str, Tensor]], mean: str, scale: str, transform: Callable[[Tensor], Tensor]
) -> Factor:
    return Factor(f"{mean}, {scale}", lambda: values()[mean], lambda: transform(values()[scale]))
