"""A method of group `methods` whose network is a module of PyTorch, trained by PyTorch's Adam."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from bench.interface import Context
from implementations._methods import Learner, Method


class ModuleLearner(Learner):
    """A module of PyTorch trained by Adam; a subclass defines the loss of a batch and the posterior."""

    def __init__(self, recipe: Method, net: nn.Module, ctx: Context) -> None:
        """Move the module to the fit's device."""
        self.recipe, self.net, self.seed = recipe, net.to(ctx.device), ctx.seed
        self._adam = torch.optim.Adam(net.parameters(), recipe.learning_rate, fused=True)
        for parameter in net.parameters():  # the first step would make these moments; `restore` may come before it
            zeros = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
            self._adam.state[parameter] = {"step": parameter.new_zeros(()), **zeros}

    @abstractmethod
    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the loss of a batch, nats a row, with gradient."""

    def begin(self, epoch: int, n_steps: int) -> None:
        """See `Learner`."""
        del n_steps
        self._adam.param_groups[0]["lr"] = self.recipe.rate(epoch)

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        """See `Learner`."""
        self._adam.zero_grad()
        loss = self.loss(x, y)
        torch.autograd.backward(loss)
        self._adam.step()
        return loss.detach()

    def tensors(self) -> Mapping[str, Tensor]:
        """See `Learner`."""
        named = dict(self.net.named_parameters())
        moments = {f"{name}/{key}": v for name, p in named.items() for key, v in self._adam.state[p].items()}
        return {**{name: parameter.detach() for name, parameter in named.items()}, **moments}
