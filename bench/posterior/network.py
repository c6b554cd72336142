"""A network with at most one hidden layer, its prior, and its posterior's energy in plain PyTorch.

This is the reference of the compiled passes of `bench.posterior.gradient`.

Shapes: C chains, P parameters, B rows, n inputs, H hidden units, K outputs. Parameters are whitened: z [C, P] has
independent standard normals under the prior. A chain's parameters are the first layer's matrix [H, n] and bias [H], the
second layer's [K, H] and [K], and, in regression, the logarithm of the noise's standard deviation. Without hidden units
there is one layer, [K, n] and [K], with the first prior of each pair.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


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
        scaled, layers, start = z * self.scales().to(z), [], 0
        for out, inputs in self.widths:
            middle, end = start + out * inputs, start + out * (inputs + 1)
            layers.append((scaled[:, start:middle].reshape(-1, out, inputs), scaled[:, middle:end]))
            start = end
        return Weights(layers, scaled[:, start] + self.log_noise_mean if self.kind == "regression" else None)

    def outputs(self, weights: Weights, x: Tensor) -> Tensor:
        """Return logits or means of rows x [B, n], [C, B, K]."""
        flowing = x.to(weights.layers[0][0]).expand(len(weights.layers[0][0]), -1, -1)
        for depth, (matrix, bias) in enumerate(weights.layers):
            if depth:
                flowing = flowing.relu() if self.activation == "relu" else flowing.tanh()
            flowing = flowing @ matrix.mT + bias[:, None]
        return flowing

    def log_likelihood(self, z: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Return the summed log-likelihood of rows x [B, n] with targets y [B], nats, [C].

        y: int64 classes, or float targets of a regression.
        """
        weights = self.weights(z)
        outputs = self.outputs(weights, x)
        if weights.log_noise is None:
            chosen = y.expand(len(z), -1)[..., None]
            return outputs.log_softmax(-1).gather(-1, chosen).squeeze(-1).sum(-1)
        residuals = (y.to(z) - outputs.squeeze(-1)) * torch.exp(-weights.log_noise)[:, None]
        return -(residuals.square() / 2 + weights.log_noise[:, None] + HALF_LOG_2PI).sum(-1)

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


def energy_and_gradient(
    network: Network, x: Tensor, y: Tensor, z: Tensor, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Return the energy of z [C, P] and its gradient by autograd.

    The energy is -log(likelihood x prior) / temperature without the prior's constant, nats. A temperature below 1 makes
    a cold posterior (Wenzel et al. 2020, "How good is the Bayes posterior in deep neural networks really?").

    Returns:
        (energy float64 [C], gradient [C, P]).
    """
    leaf = z.detach().requires_grad_()
    energy = (leaf.square().sum(-1) / 2 - network.log_likelihood(leaf, x, y)) / temperature
    (gradient,) = torch.autograd.grad(energy.sum(), leaf)
    return energy.detach().double(), gradient
