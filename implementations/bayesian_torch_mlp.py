"""Mean-field variational inference by bayesian-torch: a plain network whose layers `dnn_to_bnn` replaces.

The library's README: prior N(0, 1), means around 0, rho around -3, layers "Reparameterization", and the loss is the
cross-entropy plus `get_kl_loss(model) / batch_size`. `get_kl_loss` adds the *mean* KL of each tensor, so that the KL of
a tensor with n weights counts N / (B n) of what it counts in an evidence lower bound: 0.0015 for the first matrix here,
47 for the last bias.

Objective (mean per training row, nats): published as above; corrected -log p(y | x, w) + KL / N with the whole KL.
Target: the mean-field posterior under N(0, 1), corrected.  Cost: a draw of P normals and its gradient a step.
Fails when: several passes go before one backward pass, as the library overwrites its saved noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from bayesian_torch.layers import LinearReparameterization
from bayesian_torch.models.dnn_to_bnn import dnn_to_bnn, get_kl_loss
from torch import Tensor, nn

from bench.interface import Context, Posterior, Split, Task
from implementations import _dense, _methods
from implementations._module_learner import ModuleLearner


@dataclass(frozen=True)
class BayesianTorchMlp(_methods.GaussianMethod):
    """Training by the library's layers."""

    rho_start: float = -3.0  # mean of the first rho; sigma = log(1 + e^rho)
    whole_kl: bool = False  # KL / N of all weights; else the library's sum of mean KLs over the batch size

    def fit(self, train: Split, task: Task, ctx: Context) -> Posterior:
        """Train; the trace holds the mean of the batch losses, the KL included."""
        _dense.check_task("bayesian_torch_mlp", task, "classification")
        return _methods.learn(Reparameterised(self, task, ctx), self, train, ctx)


class Reparameterised(ModuleLearner):
    """The library's layers in training."""

    def __init__(self, recipe: BayesianTorchMlp, task: Task, ctx: Context) -> None:
        """Draw the first means and rhos as the library does."""
        net = _methods.module_of(_methods.layout_of(task), _methods.initial(task, ctx).cpu())
        prior = {
            "prior_mu": 0.0,
            "prior_sigma": recipe.prior_std,
            "posterior_mu_init": 0.0,
            "posterior_rho_init": recipe.rho_start,
            "type": "Reparameterization",
            "moped_enable": False,
        }
        with torch.random.fork_rng([]), _methods.new_tensors(ctx.dtype):
            torch.manual_seed(ctx.stream("init"))
            dnn_to_bnn(net, prior)
        super().__init__(recipe, net, ctx)
        self._layers = [layer for layer in net if isinstance(layer, LinearReparameterization)]
        self._recipe, self._task = recipe, task

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """See `ModuleLearner`."""
        fit = nn.functional.cross_entropy(self.net(x), y)
        if self._recipe.whole_kl:
            return fit + torch.stack([whole_kl(layer) for layer in self._layers]).sum() / self._task.n_train
        kl: Tensor = get_kl_loss(self.net)
        return fit + kl / self._recipe.batch_size

    def posterior(self) -> Posterior:
        """See `_methods.Learner`."""
        mu = [part for layer in self._layers for part in (layer.mu_weight, layer.mu_bias)]
        rho = [part for layer in self._layers for part in (layer.rho_weight, layer.rho_bias)]
        sigma = _methods.flat_of(rho).exp().log1p()
        return _methods.gaussian(self._task, self._recipe.prior_std, self.seed, _methods.flat_of(mu), sigma)


def whole_kl(layer: LinearReparameterization) -> Tensor:
    """Return the KL of a layer summed over its weights, nats []; the library's `kl_div` is the mean of a tensor."""
    found: Tensor = layer.mu_weight.new_zeros(())
    for part in ("weight", "bias"):
        mu, rho = (getattr(layer, f"{name}_{part}") for name in ("mu", "rho"))
        prior = (getattr(layer, f"prior_{part}_{name}") for name in ("mu", "sigma"))
        found = found + layer.kl_div(mu, rho.exp().log1p(), *prior) * mu.numel()
    return found
