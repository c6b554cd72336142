"""VBLL: a Gaussian for each class's weights of the last layer, independent or not, above features that are trained.

Harrison et al. 2024, arXiv 2404.11599, with the library vbll: `DiscClassification` and its bound of the softmax,
E log sum_k exp(z_k) <= log sum_k exp(E z_k + Var z_k / 2). The library's layer has no bias: here it is the weight of a
feature that is always 1. The logits have a Gaussian noise of their own, which `logit_noise` leaves out; a draw has it
in its biases, so that each draw is one network and each row's prediction is the library's. The hidden layers have no
Gaussian. If a task asks for a weight decay d, the last layer's prior is N(0, 1 / (N d)), else it is the library's.

Objective (mean per training row, nats): the bound of -log p(y | x, w), and KL / N; the constant of the KL is left out.
Target: the posterior of the last layer given the others, below a bound.  Cost: one training; dense, each row takes a
product with each class's covariance.  Fails when: the hidden layers are unsure, which it cannot say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
import vbll
from torch import Tensor, nn

from bench.core.errors import check_known
from bench.core.streams import normals_
from bench.interface import Context, Noise, Posterior, Split, Task
from implementations import _dense, _methods
from implementations._module_learner import ModuleLearner

COVARIANCES = ("diagonal", "dense")
NO_NOISE = -20.0  # log sd of a noise that is none


@dataclass(frozen=True)
class Vbll(_methods.Method):
    """Training of features and last layer."""

    noise: ClassVar[Noise] = "weights"

    covariance: str = "diagonal"  # of a class's weights, or "dense", which the library takes by default
    logit_noise: bool = True  # learn the sd of each logit's own noise, as the library does; False: none

    def __post_init__(self) -> None:
        """Raise ConfigError on an unknown covariance."""
        check_known("covariance of vbll", COVARIANCES, self.covariance)

    def fit(self, train: Split, task: Task, ctx: Context) -> Posterior:
        """Train; the trace holds the mean of the batch losses, the KL included."""
        _dense.check_task("vbll", task, "classification")
        return _methods.learn(LastLayer(self, task, ctx), self, train, ctx)

    def rebuild(self, arrays: Mapping[str, Tensor], task: Task, seed: int) -> Posterior:
        """Return the posterior of a stored network and last layer."""
        return LastLayerPosterior(_methods.layout_of(task), arrays, seed)


class LastLayer(ModuleLearner):
    """Features and last layer in training."""

    def __init__(self, recipe: Vbll, task: Task, ctx: Context) -> None:
        """Draw the first weights: of the features as `mlp` does, of the last layer as the library does."""
        self._layout, self._decay = _methods.layout_of(task), task.weight_decay
        *_, width, n_outputs = self._layout.sizes
        features = _methods.module_of(self._layout, _methods.initial(task, ctx))[:-1]
        given = {"prior_scale": (width + 1) / (2 * task.n_train * self._decay)} if self._decay else {}
        with torch.random.fork_rng([]), _methods.new_tensors(ctx.dtype):
            torch.manual_seed(ctx.stream("init"))
            layer = vbll.DiscClassification(width + 1, n_outputs, 1 / task.n_train, recipe.covariance, **given)
        if not recipe.logit_noise:
            layer.dof = layer.wishart_scale = 0.0
            layer.noise_logdiag.requires_grad_(False).fill_(NO_NOISE)
        super().__init__(recipe, nn.ModuleList([features, layer]), ctx)
        self._features, self._layer = features, layer

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """See `ModuleLearner`."""
        loss: Tensor = self._layer(nn.functional.pad(self._features(x), (0, 1), value=1.0)).train_loss_fn(y)
        if not self._decay:
            return loss
        return loss + self._decay / 2 * sum(part.square().sum() for part in self._features.parameters())

    @torch.no_grad()
    def posterior(self) -> Posterior:
        """See `_methods.Learner`."""
        mean, weights = self._layer.W_mean, self._layer.W()
        is_diagonal = isinstance(weights, torch.distributions.Normal)
        root = (weights.scale if is_diagonal else weights.scale_tril).clone()
        of_bias = root[:, -1] if is_diagonal else root[:, -1, -1]
        of_bias.copy_(torch.hypot(of_bias, self._layer.noise().scale))  # the variances of a bias and its noise add up
        flat = _methods.flat_of([*self._features.parameters(), mean[:, :-1], mean[:, -1]])
        return LastLayerPosterior(self._layout, {"network": flat, "root": root.to("cpu", copy=True)}, self.seed)


class LastLayerPosterior(_methods.DrawnNetworks):
    """The network of the means, and for each class the root of the covariance of its weights.

    A class's F + 1 weights are those of the F features and its bias. The root is triangular, [K, F + 1, F + 1], or has
    standard deviations alone, [K, F + 1].
    """

    def network(self, draw: int) -> Tensor:
        """See `_methods.DrawnNetworks`."""
        root, flat = self.kept["root"], self.kept["network"].clone()
        normals = normals_(root.new_empty(root.shape[:2]), self.seed, "draw", draw)
        change = root * normals if root.dim() == 2 else (root @ normals.unsqueeze(-1)).squeeze(-1)
        matrix, bias = self.layout.layers(flat)[-1]
        matrix.add_(change[:, :-1])
        bias.add_(change[:, -1])
        return flat
