"""Mean-field variational inference by Pyro: the guide AutoNormal, a Gaussian for every weight.

A Bayesian network of `pyro.sample` statements under `TraceMeanField_ELBO`. The guide keeps its Gaussians in auxiliary
sites, so this estimator's KL is log q - log p of one draw. The likelihood of a batch of B rows is scaled by N / B;
otherwise the KL would count N / B times.

The objective is that of `vi_diag`, whose learning rate and prior it takes.

Objective (nats): N / B sum -log p(y | x, w) + KL, divided by N in the trace.  Target: the mean-field posterior under
N(0, prior_std^2).  Cost: a draw of P normals and its gradient a step.  Fails when: sigma has no time to grow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyro
import torch
from pyro import distributions as dist
from pyro.infer import SVI, TraceMeanField_ELBO
from pyro.infer.autoguide import AutoNormal, init_to_value
from torch import Tensor

from bench.interface import Context, Posterior, Split, Task
from implementations import _dense, _methods, _pyro
from implementations._kernels.layout import affine


@dataclass(frozen=True)
class AutoNormalMlp(_methods.GaussianMethod):
    """Training by Pyro's SVI."""

    learning_rate: float = 3e-3  # of Adam, in the first epoch
    sigma_start: float = 0.02  # of every weight

    def fit(self, train: Split, task: Task, ctx: Context) -> Posterior:
        """Train; the trace holds the mean of the batches' objectives, divided by N."""
        _dense.check_task("autonormal", task, "classification")
        with _pyro.isolated(ctx.device):
            return _methods.learn(Guided(self, task, ctx), self, train, ctx)


class Guided(_methods.Learner):
    """Model and guide in training; their parameters are in Pyro's store."""

    def __init__(self, recipe: AutoNormalMlp, task: Task, ctx: Context) -> None:
        """Draw the first means."""
        self._recipe, self._task, self._seed = recipe, task, ctx.seed
        first = _methods.layout_of(task).named(_methods.initial(task, ctx))
        self._names, self._shapes = list(first), [value.shape for value in first.values()]
        start = init_to_value(values={name: value.clone() for name, value in first.items()})
        self._guide = AutoNormal(self._model, init_loc_fn=start, init_scale=recipe.sigma_start)
        self._adam = _pyro.adam(recipe.learning_rate)
        self._svi = SVI(self._model, self._guide, self._adam, TraceMeanField_ELBO())
        torch.manual_seed(ctx.stream("init"))  # Pyro's first pass, which makes the parameters, draws numbers
        self._guide(torch.zeros(1, task.n_inputs).to(ctx.device, ctx.dtype), torch.zeros(1, dtype=torch.int64))

    def _model(self, x: Tensor, y: Tensor) -> None:
        prior = self._recipe.prior_std
        parts = []
        for name, shape in zip(self._names, self._shapes, strict=True):
            scale = x.new_full(shape, prior)
            parts.append(pyro.sample(name, dist.Normal(torch.zeros_like(scale), scale).to_event(len(shape))))
        layers = list(zip(parts[::2], parts[1::2], strict=True))
        for layer in layers[:-1]:
            x = torch.relu(affine(x, *layer))
        logits = affine(x, *layers[-1])
        with pyro.poutine.scale(scale=self._task.n_train / len(x)), pyro.plate("rows", len(x)):
            pyro.sample("y", dist.Categorical(logits=logits), obs=y)

    def begin(self, epoch: int, n_steps: int) -> None:
        """See `_methods.Learner`."""
        del n_steps
        self._adam.optimiser.param_groups[0]["lr"] = self._recipe.rate(epoch)

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        """See `_methods.Learner`."""
        return x.new_tensor(self._svi.step(x, y) / self._task.n_train)

    def posterior(self) -> Posterior:
        """See `_methods.Learner`."""
        mu, sigma = (
            _methods.flat_of(pyro.param(f"AutoNormal.{part}.{name}") for name in self._names)
            for part in ("locs", "scales")
        )
        return _methods.gaussian(self._task, self._recipe.prior_std, self._seed, mu, sigma)

    def state(self) -> Mapping[str, Tensor]:
        """See `_methods.Learner`."""
        return _pyro.save_state(self._adam)

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """See `_methods.Learner`."""
        _pyro.load_state(self._adam, state)
