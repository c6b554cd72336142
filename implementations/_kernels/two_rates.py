"""SGD or Adam on one flat vector of means and rhos, each half with a learning rate of its own.

The steps are PyTorch's; `mixture_loops` beside this file takes the same ones in its pass. Shapes: P scalar weights.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from implementations._kernels.flat_adam import FlatAdam


class TwoRates:
    """Takes steps for mu and rho, `parameters` [2 P], with the gradient [2 P] that the caller leaves in `gradient`."""

    def __init__(self, parameters: Tensor, is_adam: bool) -> None:
        """Start with learning rates of 0; `parameters` are changed in place."""
        self.gradient = torch.zeros_like(parameters)
        self._parameters = parameters
        self._halves = [*zip(parameters.chunk(2), self.gradient.chunk(2), strict=True)]
        self.adams = [FlatAdam(half, gradient, 0.0) for half, gradient in self._halves] if is_adam else []
        self.rates = (0.0, 0.0)

    def set_rates(self, of_mu: float, of_rho: float) -> None:
        """Use these learning rates from the next step on."""
        self.rates = (of_mu, of_rho)
        for adam, rate in zip(self.adams, self.rates, strict=False):
            adam.set_learning_rate(rate)

    def step(self) -> None:
        """Take one step."""
        for adam in self.adams:
            adam.step()
        if not self.adams:
            for (half, gradient), rate in zip(self._halves, self.rates, strict=True):
                half.add_(gradient, alpha=-rate)

    def state(self) -> dict[str, Tensor]:
        """Return what `restore` needs, as CPU copies: parameters [2 P], and Adam's moments [2 P] and step count []."""
        if not self.adams:
            return {"parameters": self._parameters.to("cpu", copy=True)}
        of_mu, of_rho = (adam.state() for adam in self.adams)
        return {name: one if name == "step" else torch.cat([one, of_rho[name]]) for name, one in of_mu.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        self._parameters.copy_(state["parameters"])
        for place, adam in enumerate(self.adams):
            adam.restore({name: one if name == "step" else one.chunk(2)[place] for name, one in state.items()})
