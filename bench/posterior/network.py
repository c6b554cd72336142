"""A network with at most one hidden layer, its prior, and its predictions in plain PyTorch.

Shapes: C chains, P parameters, B rows, n inputs, H hidden units, K outputs. Parameters are whitened: z [C, P] has
independent standard normals under the prior. A chain's parameters are the first layer's matrix [H, n] and bias [H], the
second layer's [K, H] and [K], and, in regression, the logarithm of the noise's standard deviation. Without hidden units
there is one layer, [K, n] and [K], with the first prior of each pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor


@dataclass(frozen=True)
class Weights:
    """Parameters that are not whitened: (matrix [C, out, in], bias [C, out]) by layer, and log noise [C] or None."""

    layers: list[tuple[Tensor, Tensor]]
    log_noise: Tensor | None


@dataclass(frozen=True)
class Network:
    """Sizes, activation and prior of a network. All priors are normal, with mean 0 but for the noise.

    In regression there is one output, whose noise is normal and the same for all rows. The logarithm of its standard
    deviation has the prior N(log_noise_mean, log_noise_sd^2); with log_noise_sd 0 the noise is fixed.
    """

    n_inputs: int
    n_hidden: int  # 0: a linear model
    n_outputs: int
    activation: Literal["relu", "tanh"] = "relu"
    weight_sds: tuple[float, float] = (1.0, 1.0)  # of each layer's matrix
    bias_sds: tuple[float, float] = (1.0, 1.0)
    kind: Literal["classification", "regression"] = "classification"
    log_noise_mean: float = 0.0
    log_noise_sd: float = 1.0

    def __post_init__(self) -> None:
        if self.kind == "regression" and self.n_outputs != 1:
            raise ValueError(f"a regression has one output, not {self.n_outputs}")

    @property
    def widths(self) -> list[tuple[int, int]]:
        """Return each layer's (outputs, inputs)."""
        if not self.n_hidden:
            return [(self.n_outputs, self.n_inputs)]
        return [(self.n_hidden, self.n_inputs), (self.n_outputs, self.n_hidden)]

    @property
    def n_parameters(self) -> int:
        """Return P."""
        return sum(out * (inputs + 1) for out, inputs in self.widths) + (self.kind == "regression")

    def scales(self) -> Tensor:
        """Return each parameter's prior standard deviation, float64 [P]."""
        parts = []
        for (out, inputs), weight_sd, bias_sd in zip(self.widths, self.weight_sds, self.bias_sds, strict=False):
            parts += [(out * inputs, weight_sd), (out, bias_sd)]
        if self.kind == "regression":
            parts.append((1, self.log_noise_sd))
        return torch.cat([torch.full((size,), sd, dtype=torch.float64) for size, sd in parts])

    def weights(self, z: Tensor) -> Weights:
        """Return the parameters that z [C, P] stands for; they are differentiable by z."""
        scaled = z * self.scales().to(z)
        return Weights(self.views(scaled), scaled[:, -1] + self.log_noise_mean if self.kind == "regression" else None)

    def views(self, flat: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return each layer's (matrix [C, out, in], bias [C, out]) as views of flat [C, P]."""
        views, start = [], 0
        for out, inputs in self.widths:
            middle, end = start + out * inputs, start + out * (inputs + 1)
            views.append((flat[:, start:middle].view(len(flat), out, inputs), flat[:, middle:end]))
            start = end
        return views

    def outputs(self, weights: Weights, x: Tensor, kept: Tensor | None = None) -> Tensor:
        """Return logits or means of rows x [B, n], [C, B, K]; kept [C, B, H] multiplies the hidden units."""
        flowing = x.to(weights.layers[0][0]).expand(len(weights.layers[0][0]), -1, -1)
        for depth, (matrix, bias) in enumerate(weights.layers):
            if depth:
                flowing = flowing.relu() if self.activation == "relu" else flowing.tanh()
                flowing = flowing if kept is None else flowing * kept
            flowing = flowing @ matrix.mT + bias[:, None]
        return flowing

    def predict(self, z: Tensor, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Return each chain's prediction for rows x [B, n].

        Returns:
            Log-probabilities [C, B, K] in classification; in regression the means [C, B] and the noise's standard
            deviations [C].
        """
        with torch.no_grad():
            weights = self.weights(z)
            outputs = self.outputs(weights, x)
            if weights.log_noise is None:
                return outputs.log_softmax(-1)
            return outputs.squeeze(-1), weights.log_noise.exp()
