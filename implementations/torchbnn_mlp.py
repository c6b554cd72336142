"""Mean-field variational inference by torchbnn: a Gaussian for every weight, one draw of the weights a batch.

The library's demos of classification and regression have layers `BayesLinear(prior_mu=0, prior_sigma=0.1)` and add 0.1
times `BKLLoss(reduction="mean")` to the loss (they set 0.01 first, and 0.1 right before they train). `mean` divides the
KL by the number of weights P, and nothing divides it by N, so that it counts 0.1 N / P of what it counts in an evidence
lower bound: 1/80 of it here.

Objective (mean per training row, nats): published as above; corrected -log p(y | x, w) + KL / N, an evidence lower
bound.  Target: the mean-field posterior under N(0, 0.1^2), corrected.  Cost: a draw of P normals and its gradient a
step.  Fails when: the KL's weight follows neither N nor P.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
import torchbnn
from torch import Tensor, nn

from bench.core.errors import check_known
from bench.interface import Context, Posterior, Split, Task
from implementations import _dense, _methods
from implementations._module_learner import ModuleLearner

REDUCTIONS = ("mean", "sum")


@dataclass(frozen=True)
class TorchbnnMlp(_methods.GaussianMethod):
    """Training by the library's layers."""

    prior_std: float = 0.1  # of every weight, and sigma at the start
    reduction: str = "mean"  # of the KL over the weights, or "sum"
    kl_weight: float = 0.1  # factor of the KL; 0: 1/N

    def __post_init__(self) -> None:
        """Raise ConfigError on an unknown reduction."""
        check_known("reduction of torchbnn_mlp", REDUCTIONS, self.reduction)

    def fit(self, train: Split, task: Task, ctx: Context) -> Posterior:
        """Train; the trace holds the mean of the batch losses, the KL included."""
        _dense.check_task("torchbnn_mlp", task, "classification")
        return _methods.learn(BayesLinears(self, task, ctx), self, train, ctx)


class BayesLinears(ModuleLearner):
    """The library's layers in training."""

    def __init__(self, recipe: TorchbnnMlp, task: Task, ctx: Context) -> None:
        """Draw the first means as the library does."""
        sizes = _methods.layout_of(task).sizes
        with torch.random.fork_rng([]), _methods.new_tensors(ctx.dtype):
            torch.manual_seed(ctx.stream("init"))
            layers = [torchbnn.BayesLinear(0.0, recipe.prior_std, *ends) for ends in pairwise(sizes)]
        net = nn.Sequential(*(part for layer in layers for part in (layer, nn.ReLU())))[:-1]
        super().__init__(recipe, net, ctx)
        self._layers, self._task, self._prior_std = layers, task, recipe.prior_std
        self._kl = torchbnn.BKLLoss(reduction=recipe.reduction)
        self._kl_weight = recipe.kl_weight or 1 / task.n_train

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """See `ModuleLearner`."""
        kl: Tensor = self._kl(self.net).sum()
        return nn.functional.cross_entropy(self.net(x), y) + self._kl_weight * kl

    def posterior(self) -> Posterior:
        """See `_methods.Learner`."""
        mu = [part for layer in self._layers for part in (layer.weight_mu, layer.bias_mu)]
        log_sigma = [part for layer in self._layers for part in (layer.weight_log_sigma, layer.bias_log_sigma)]
        return _methods.gaussian(
            self._task, self._prior_std, self.seed, _methods.flat_of(mu), _methods.flat_of(log_sigma).exp()
        )
