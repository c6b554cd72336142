"""feldman2018's deterministic classifier as the document runs it: modules, autograd, `torch.optim`.

Our code is tested against it and timed beside it; no result comes from it.
https://joshfeldman.net/ml/2018/12/17/WeightUncertainty.html
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional


class Classifier(nn.Module):
    """Two hidden layers; log-softmax outputs."""

    def __init__(
        self, n_inputs: int = 784, width: int = 400, activation: Callable[[Tensor], Tensor] = functional.relu
    ) -> None:
        """Make the three layers in PyTorch's default initialisation."""
        super().__init__()
        self.hidden1 = nn.Linear(n_inputs, width)
        self.hidden2 = nn.Linear(width, width)
        self.output = nn.Linear(width, 10)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """Return log-probabilities [B, 10] for x [B, n_inputs]."""
        x = self.activation(self.hidden1(x))
        x = self.activation(self.hidden2(x))
        return functional.log_softmax(self.output(x), dim=1)


def optimizer(net: nn.Module) -> torch.optim.Optimizer:
    """Return the document's optimiser."""
    return torch.optim.Adam(net.parameters(), lr=1e-3)


def training_step(net: nn.Module, adam: torch.optim.Optimizer, x: Tensor, y: Tensor) -> Tensor:
    """Take one step, return the loss of before it; the second log-softmax of the cross-entropy changes nothing."""
    adam.zero_grad()
    loss = functional.cross_entropy(net(x), y)
    loss.backward()
    adam.step()
    return loss
