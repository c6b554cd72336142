"""Laplace approximation by laplace-torch: a Gaussian around the plain network, whose width is the loss's curvature.

Daxberger et al. 2021, arXiv 2106.14806, with the library laplace-torch: the generalised Gauss-Newton matrix in
Kronecker factors, of the last layer with one prior precision, or of all layers with one for each parameter tensor. The
precisions maximise the marginal likelihood; a task that asks for a weight decay has given it instead. A draw w of the
weights predicts f(x) + J(x) (w - w*), the network linearised at its weights w*: the library's predictive "glm", whose
integral over the logits is here the mean of draws instead of the probit formula.
With `all_sampled`, a draw predicts with the network of its weights instead: "nn".

Objective (mean per training row, nats): the cross-entropy; the prior comes in afterwards.  Target: the posterior, to
second order around the network.  Cost: one training, and a pass over the rows for the curvature; an answer is one pass,
and for each draw one of the last layer, or 1.34 passes for all layers.  Fails when: the network is far from a maximum.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from bench.core.errors import check_known
from bench.core.streams import normals_
from bench.data.torchvision_shim import make_importable
from bench.interface import Categorical, Context, Noise, Posterior, Split, Task
from implementations import _dense, _methods
from implementations._kernels.layout import Layout, linearised

make_importable()  # laplace-torch imports torchmetrics, which imports torchvision where it is installed
with warnings.catch_warnings():  # modules that the library imports give this warning
    warnings.filterwarnings("ignore", message="`torch.jit.script", category=DeprecationWarning)
    from laplace import Laplace
    from laplace.utils.matrix import Kron

SAMPLED = "all_sampled"
PRIORS = {"last_layer": "scalar", "all": "layerwise", SAMPLED: "layerwise"}
"""The prior precisions to fit: one, or one a parameter tensor."""
ROWS_OF_CURVATURE = 1000  # rows of a batch when the curvature is computed


@dataclass(frozen=True)
class LaplaceNetwork(_methods.Method):
    """Training of the network, and its curvature."""

    noise: ClassVar[Noise] = "weights"

    weights: str = "last_layer"  # or "all", both of the linearised network, or "all_sampled"

    def __post_init__(self) -> None:
        """Raise ConfigError on an unknown choice of weights."""
        check_known("choice of weights of laplace", PRIORS, self.weights)

    def fit(self, train: Split, task: Task, ctx: Context) -> Posterior:
        """Train; the trace holds the mean of the batch losses."""
        return _methods.learn(Curved(self, task, ctx, train), self, train, ctx)

    def rebuild(self, arrays: Mapping[str, Tensor], task: Task, seed: int) -> Posterior:
        """Return the posterior of a stored network and curvature."""
        return self.around(_methods.layout_of(task), arrays, seed)

    def around(self, layout: Layout, arrays: Mapping[str, Tensor], seed: int) -> LaplacePosterior:
        """Return the posterior of a network and its curvature."""
        kind = SampledLaplace if self.weights == SAMPLED else LaplacePosterior
        return kind(layout, arrays, seed)


class Curved(_methods.PlainNetworks):
    """A plain network in training, and the rows from which its curvature is computed."""

    def __init__(self, recipe: LaplaceNetwork, task: Task, ctx: Context, train: Split) -> None:
        """Draw the first weights."""
        super().__init__(recipe, task, ctx)
        n_rows = len(train) if ctx.steps_per_epoch is None else ctx.steps_per_epoch * recipe.batch_size
        self._laplace, self._precision = recipe, task.weight_decay * task.n_train
        self._rows = TensorDataset(train.x[:n_rows].cpu(), train.y[:n_rows].cpu())

    def posterior(self) -> Posterior:
        """Return the Gaussian around the network as it is now."""
        flat = self.weights()[0]
        prior = {"prior_precision": self._precision} if self._precision else {}
        drawn = self._laplace.weights.removesuffix("_sampled")
        found = Laplace(_methods.module_of(self.layout, flat), "classification", drawn, "kron", **prior)
        # With a generator of its own, the loader does not draw from the global one.
        found.fit(DataLoader(self._rows, ROWS_OF_CURVATURE, generator=torch.Generator()))
        if not prior:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="By default `link_approx` is `probit`")
                structure = PRIORS[self._laplace.weights]
                found.optimize_prior_precision(pred_type="glm", method="marglik", prior_structure=structure)
        named = {"network": flat, "prior": found.posterior_precision.deltas}
        for index, factors in enumerate(found.H_facs.kfacs):
            named |= {f"factors/{index}/{side}": factor for side, factor in enumerate(factors)}
        arrays = {name: value.detach().cpu().clone().contiguous() for name, value in named.items()}
        return self._laplace.around(self.layout, arrays, self.seed)


class LaplacePosterior(_methods.StoredPosterior):
    """The network, and the posterior precision of its drawn weights: those of the last layer, or all."""

    def __init__(self, layout: Layout, arrays: Mapping[str, Tensor], seed: int) -> None:
        """Keep the arrays, which the caller must not change afterwards.

        `prior` has the prior precisions of the drawn tensors, `factors` their curvature in Kronecker factors. The
        factors' eigenvectors are not kept, because rounding decides the directions of those with equal eigenvalues.
        """
        super().__init__(layout, arrays, seed)
        groups = [_methods.part_of(arrays, f"factors/{index}") for index in range(len(arrays["prior"]))]
        factors = [[group[side] for side in sorted(group)] for group in groups]
        self._precision = Kron(factors).decompose() + arrays["prior"]
        self._n_drawn = sum(math.prod(len(factor) for factor in pair) for pair in factors)

    def change(self, draw: int) -> Tensor:
        """Return how far a draw's weights are from the network's, [P]; zero for weights that are not drawn."""
        normals = normals_(self.kept["network"].new_empty(self._n_drawn), self.seed, "draw", draw)
        n_fixed = len(self.kept["network"]) - self._n_drawn
        return nn.functional.pad(self._precision.bmm(normals, exponent=-0.5), (n_fixed, 0))

    @torch.no_grad()
    def predict(self, x: Tensor, draws: range, rows: Tensor) -> Categorical:
        """Predict x [B, n_inputs] with each draw's linearised network."""
        del rows
        layers = self.layout.layers(self.kept["network"].to(x.device))
        x = x.to(self.kept["network"].dtype)
        changes = [self.layout.layers(self.change(draw).to(x.device)) for draw in draws]
        first = len(layers) - len(self.kept["prior"]) // 2  # a layer has two parameter tensors
        blocks = [linearised(block, layers, changes, first) for block in torch.split(x, _dense.ROWS_AT_A_TIME)]
        return Categorical(torch.log_softmax(torch.cat(blocks, dim=1), 2))


class SampledLaplace(_methods.DrawnNetworks, LaplacePosterior):
    """The same Gaussian, of which each draw is a network that is not linearised."""

    def network(self, draw: int) -> Tensor:
        """See `_methods.DrawnNetworks`."""
        return self.kept["network"] + self.change(draw)
