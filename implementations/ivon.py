"""IVON: an optimiser whose running mean of the curvature is the precision of a Gaussian for every weight.

Shen et al. 2024, arXiv 2402.17641, with the library ivon-opt. A step draws one network from the posterior; the product
of its noise and its gradient estimates the curvature h. With N rows and the weight decay d = 1 / (N prior_std^2), the
posterior's variance is 1 / (N (h + d)), and its fixed points are those of the evidence lower bound.

Objective (mean per training row, nats): -log p(y | x, w), and KL / N, which the steps know through d and N; the trace
holds the first.  Target: the mean-field posterior under N(0, prior_std^2).  Cost: one training with a draw of P normals
a step.  Fails when: h has no time to leave `hess_init`, which beta2 forgets in 1 / (1 - beta2) steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import ivon
import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from bench.interface import Context, Posterior, Split, Task
from implementations import _dense, _methods

STATE = ("momentum", "hess")  # of the optimiser's one group, beside the means


@dataclass(frozen=True)
class Ivon(_methods.GaussianMethod):
    """Training by the library's optimiser, with the values of its README."""

    learning_rate: float = 0.1  # in the first epoch
    hess_init: float = 1.0  # h at the start
    beta2: float = 0.99999  # share of h that a step keeps

    def fit(self, train: Split, task: Task, ctx: Context) -> Posterior:
        """Train; the trace holds the mean of the drawn networks' cross-entropies."""
        _dense.check_task("ivon", task, "classification")
        return _methods.learn(Newton(self, task, ctx), self, train, ctx)


class Newton(_methods.Learner):
    """Means, momenta and curvatures in training."""

    def __init__(self, recipe: Ivon, task: Task, ctx: Context) -> None:
        """Draw the first means."""
        self._recipe, self._task, self._seed = recipe, task, ctx.seed
        self._net = _methods.module_of(_methods.layout_of(task), _methods.initial(task, ctx))
        with _methods.new_tensors(ctx.dtype):
            self._ivon = ivon.IVON(
                self._net.parameters(),
                recipe.learning_rate,
                ess=task.n_train,
                hess_init=recipe.hess_init,
                beta2=recipe.beta2,
                weight_decay=1 / (task.n_train * recipe.prior_std**2),
            )
        (self._group,) = self._ivon.param_groups

    def begin(self, epoch: int, n_steps: int) -> None:
        """See `_methods.Learner`."""
        del n_steps
        self._group["lr"] = self._recipe.rate(epoch)

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        """See `_methods.Learner`."""
        with self._ivon.sampled_params(train=True):
            self._ivon.zero_grad()
            loss = torch.nn.functional.cross_entropy(self._net(x), y)
            torch.autograd.backward(loss)
        self._ivon.step()
        return loss.detach()

    def posterior(self) -> Posterior:
        """See `_methods.Learner`."""
        precision = self._group["ess"] * (self._group["hess"] + self._group["weight_decay"])
        mu, sigma = _methods.flat_of(self._net.parameters()), _methods.flat_of([precision.rsqrt()])
        return _methods.gaussian(self._task, self._recipe.prior_std, self._seed, mu, sigma)

    def state(self) -> Mapping[str, Tensor]:
        """See `_methods.Learner`."""
        kept = {name: _methods.flat_of([self._group[name]]) for name in STATE}
        return {"mean": _methods.flat_of(self._net.parameters()), "step": torch.tensor(self._ivon.current_step), **kept}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """See `_methods.Learner`."""
        mean = parameters_to_vector(self._net.parameters()).detach()
        vector_to_parameters(mean.copy_(state["mean"]), self._net.parameters())
        self._ivon.current_step = int(state["step"])
        for name in STATE:
            self._group[name].copy_(state[name])
