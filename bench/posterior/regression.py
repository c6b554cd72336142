"""The methods of a regression's column, on the very target of the reference: network, priors and noise that is learnt.

All methods learn the whitened parameters of `network.py`, the noise among them, from PyTorch's usual first weights: a
prior is N(0, 1), and their energy is that of the reference. Each ends as S draws of all parameters; a seed has the same
first weights in every method. Shapes: C networks, S draws, P parameters, B rows, H hidden units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bench.core.errors import Diverged
from bench.core.streams import generator
from bench.interface import Split
from bench.posterior.columns import Column, Method, Value
from bench.posterior.compare import MEAN, SD
from bench.posterior.distance import Floats, mixture_log_density
from bench.posterior.network import Network

FALLS_TO = 0.01  # of Adam's rate, by its last step
FIRST_SD, NETWORKS = 0.05, 8  # of mean-field: of each parameter's posterior at first, and drawn for a gradient


class Fit(NamedTuple):
    """What a method is given."""

    network: Network
    train: Split
    values: Mapping[str, Value]  # hyper-parameters of methods.toml
    draws: int  # S
    seed: int

    def __call__(self, name: str) -> float:
        """Return a hyper-parameter."""
        return float(self.values[name])

    def source(self, name: str) -> torch.Generator:
        """Return the generator of a stream."""
        return generator(self.seed, name)

    def energy(self, z: Tensor, kept: Tensor | None = None, rows: Tensor | None = None) -> Tensor:
        """Return -log(likelihood x prior) of z [C, P] without constants, nats, [C]; the rows stand for all."""
        return self.nll(z, kept, rows) + z.square().sum(1) / 2

    def nll(self, z: Tensor, kept: Tensor | None = None, rows: Tensor | None = None) -> Tensor:
        """Return the NLL of all rows, as `energy`; kept [C, B, H] multiplies the hidden units."""
        part = self.train if rows is None else self.train.select(rows)
        weights = self.network.weights(z)
        assert weights.log_noise is not None
        log_sd = weights.log_noise[:, None]
        error = part.y - self.network.outputs(weights, part.x, kept).squeeze(-1)
        return ((error / log_sd.exp()).square() / 2 + log_sd).mean(1) * len(self.train)


def predictions(column: Column, method: Method, chosen: Mapping[str, Value], seed: int) -> dict[str, Floats]:
    """Train on all rows and return the normals of the test rows by draw, as `bench.distance` takes them.

    Raises:
        Diverged: a parameter or a prediction is no longer finite, or a matrix cannot be factorised.
    """
    data, network = column.data, column.task.network(column.data.train.x.shape[1])
    (test,) = data.sets.values()
    mean, sd = _normals(network, draws(network, method, chosen, seed, data.train), test)
    return {MEAN: data.centre + data.unit * mean, SD: data.unit * sd}


def nll(column: Column, method: Method, chosen: Mapping[str, Value], seed: int, train: Split, held_out: Split) -> float:
    """Return the NLL of held-out rows after training on others, nats a row; raises Diverged as `predictions`."""
    network = column.task.network(train.x.shape[1])
    mean, sd = _normals(network, draws(network, method, chosen, seed, train), held_out)
    return float(-mixture_log_density(mean, sd, held_out.y.double().numpy()).mean())


def _normals(network: Network, z: Tensor, split: Split) -> tuple[Floats, Floats]:
    """Return means and standard deviations of a split's rows by draw, float64 [S, B], standardised; raises Diverged."""
    mean, sd = network.predict(z, split.x)
    if not (mean.isfinite().all() and sd.isfinite().all() and (sd > 0).all()):
        raise Diverged(f"a normal of {split.name} is not finite")
    return mean.double().numpy(), sd.double()[:, None].expand(len(z), len(split)).numpy()


SINGULAR: tuple[type[Exception], ...] = (
    torch.linalg.LinAlgError,  # type: ignore[attr-defined]  # torch documents it, and its type stubs leave it out
    np.linalg.LinAlgError,
)
"""What a factorisation raises where a matrix cannot be inverted."""


def draws(network: Network, method: Method, chosen: Mapping[str, Value], seed: int, train: Split) -> Tensor:
    """Train a method and return its draws, float32 [S, P]; raises Diverged."""
    try:
        found = METHODS[method.approach](Fit(network, train, {**method.values, **chosen}, method.draws, seed)).detach()
    except SINGULAR as error:
        raise Diverged(f"linear algebra: {error}") from error
    if not found.isfinite().all():
        raise Diverged("a parameter is not finite")
    return found


def _first(fit: Fit, count: int = 1) -> Tensor:
    """Return the first parameters, [C, P]: PyTorch's of a linear layer, and the prior's mean of the noise."""
    source, parts = fit.source("init"), []
    for _ in range(count):
        for out, inputs in fit.network.widths:
            parts.append((2 * torch.rand(out * (inputs + 1), generator=source) - 1) * inputs**-0.5)
        parts.append(torch.zeros(1))
    return torch.cat(parts).view(count, -1) / fit.network.scales().float()


def _descend(fit: Fit, start: Tensor, loss: Callable[[Tensor], Tensor]) -> Tensor:
    """Return where Adam's steps on all rows lead, with a rate that falls by the same factor each step."""
    z, steps = start.clone().requires_grad_(), int(fit("steps"))
    adam = torch.optim.Adam([z], fit("learning_rate"))
    falling = torch.optim.lr_scheduler.ExponentialLR(adam, FALLS_TO ** (1 / steps))
    for _ in range(steps):
        (z.grad,) = torch.autograd.grad(loss(z).sum(), z)
        adam.step()
        falling.step()
    return z.detach()


def _modes(fit: Fit, count: int = 1) -> Tensor:
    """Return maxima of the posterior, [C, P], one of each first network."""
    return _descend(fit, _first(fit, count), fit.energy)


def _dropout(fit: Fit) -> Tensor:
    """Return networks without some hidden units, of one trained so (Gal and Ghahramani 2016).

    A row of a step has a mask of its own; a draw has one for all rows, which gives each row the same distribution.
    """
    share, source, hidden = fit("dropout"), fit.source("dropout"), fit.network.n_hidden

    def masks(*size: int) -> Tensor:
        return (torch.rand(*size, hidden, generator=source) >= share).float() / (1 - share)

    trained = _descend(fit, _first(fit), lambda z: fit.energy(z, masks(1, len(fit.train))))
    found = trained.repeat(fit.draws, 1)
    matrix, _ = fit.network.views(found)[1]
    matrix *= masks(fit.draws)[:, None]
    return found


def _laplace(fit: Fit) -> Tensor:
    """Return a maximum of the posterior, and draws of its last layer: exact, given the hidden units and the noise."""
    mode = _modes(fit).double()
    last = slice(-fit.network.n_hidden - 2, -1)

    def outputs(part: Tensor) -> Tensor:
        whole = torch.cat([mode[0, : last.start], part, mode[0, -1:]])[None]
        return fit.network.outputs(fit.network.weights(whole), fit.train.x).flatten()

    slopes = torch.func.jacrev(outputs)(mode[0, last])  # linear: the same everywhere
    _, noise = fit.network.predict(mode, fit.train.x[:1])
    precision = slopes.mT @ slopes / noise.square() + torch.eye(slopes.shape[1])
    normals = torch.randn(slopes.shape[1], fit.draws, generator=fit.source("laplace"), dtype=torch.float64)
    found = mode.repeat(fit.draws, 1)
    found[:, last] += torch.linalg.solve_triangular(torch.linalg.cholesky(precision).mT, normals, upper=True).mT
    return found.float()


def _sghmc(fit: Fit) -> Tensor:
    """Return what a walk with momentum visits in its second half (Chen et al. 2014), with mass N."""
    rate, friction, n = fit("learning_rate"), fit("friction"), len(fit.train)
    z, source = _first(fit).requires_grad_(), fit.source("walk")
    momentum, kept = torch.zeros_like(z), []
    epochs = int(fit("epochs"))
    for epoch in range(epochs):
        for rows in torch.split(torch.randperm(n, generator=source), int(fit("batch_size"))):
            (gradient,) = torch.autograd.grad(fit.energy(z, None, rows).sum(), z)
            normal = torch.randn(z.shape, generator=source) * (2 * friction * rate / n) ** 0.5
            momentum = (1 - rate * friction) * momentum - rate / n * gradient + normal
            z = (z + rate * momentum).detach().requires_grad_()
        if 2 * epoch >= epochs and epoch % int(fit("keep_every")) == 0:
            kept.append(z.detach())
    return torch.cat(kept)


def _mean_field(fit: Fit) -> Tensor:
    """Return draws of the independent normals with the largest ELBO, the noise's logarithm among them."""
    source, p = fit.source("mean field"), fit.network.n_parameters

    def loss(both: Tensor) -> Tensor:
        mean, log_sd = both.unbind()
        z = mean + log_sd.exp() * torch.randn(NETWORKS, p, generator=source)
        kl = (log_sd.mul(2).exp() + mean.square() - 1).sum() / 2 - log_sd.sum()
        return fit.nll(z).mean() + kl

    start = torch.cat([_first(fit), torch.full((1, p), np.log(FIRST_SD), dtype=torch.float32)])
    mean, log_sd = _descend(fit, start, loss).unbind()
    return mean + log_sd.exp() * torch.randn(fit.draws, p, generator=source)


def _ensemble(fit: Fit) -> Tensor:
    return _modes(fit, int(fit("members")))


METHODS: Mapping[str, Callable[[Fit], Tensor]] = {
    "map": _modes,
    "ensemble": _ensemble,
    "dropout": _dropout,
    "laplace": _laplace,
    "sghmc": _sghmc,
    "mean_field": _mean_field,
}
