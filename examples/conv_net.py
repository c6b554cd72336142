"""An ordinary `nn.Module` with convolutions and an optimiser of PyTorch, in a fit that can be interrupted and resumed.

Objective: mean cross-entropy of the batch, nats.  Target: none stated.  Cost: one pass.  Fails when: images show no
digit, because one network has no spread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from bench.interface import Approach, Categorical, Context, Noise, Posterior, Split, Task

SIDE = 28  # pixels; rows arrive as [B, 784]


def network(n_outputs: int) -> nn.Module:
    """Return a network for images [B, 1, 28, 28]."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 5, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(256, n_outputs),
    )  # fmt: skip


@dataclass(frozen=True)
class ConvNet(Approach):
    """Two convolutions and one linear layer."""

    noise: ClassVar[Noise] = "none"

    epochs: int = 3  # training epochs
    batch_size: int = 128  # images
    learning_rate: float = 1e-3  # of Adam

    def fit(self, train: Split, task: Task, ctx: Context) -> Posterior:
        """Train by Adam; the trace is the mean loss of an epoch's batches."""
        with torch.random.fork_rng():  # PyTorch's layers draw their first weights from the global generator
            torch.manual_seed(ctx.stream("init"))
            net = network(task.n_outputs).to(ctx.device, ctx.dtype)
        adam = torch.optim.Adam(net.parameters(), self.learning_rate)
        first = 1
        if (found := ctx.restore()) is not None:
            first = found[0] + 1
            restore(net, adam, found[1])
        for epoch in range(first, self.epochs + 1):
            order, losses = torch.randperm(len(train), generator=ctx.generator("shuffle", epoch)), []
            for rows in order.split(self.batch_size)[: ctx.steps_per_epoch]:
                x, y = (each[rows].to(ctx.device) for each in (train.x, train.y))
                loss = nn.functional.cross_entropy(net(x.reshape(-1, 1, SIDE, SIDE)), y)
                adam.zero_grad()
                loss.backward()
                adam.step()
                losses.append(float(loss.detach()))
            trace = {f"mnist/{train.name}/train_loss": sum(losses) / len(losses)}
            ctx.epoch_end(epoch, trace, lambda: ConvNetPosterior(weights(net)), lambda: state(net, adam))
        return ConvNetPosterior(weights(net))

    def rebuild(self, arrays: Mapping[str, Tensor], task: Task, seed: int) -> Posterior:
        """Return the posterior of stored weights."""
        del task, seed
        return ConvNetPosterior(arrays)


def weights(net: nn.Module) -> dict[str, Tensor]:
    """Return copies of the weights on the CPU, which further training does not change."""
    return {name: value.detach().cpu().clone() for name, value in net.state_dict().items()}


def state(net: nn.Module, adam: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return all that a resumed fit needs as tensors by name: the weights, and Adam's moments and step counts."""
    moments = adam.state_dict()["state"]
    named = {f"adam/{place}/{name}": value for place, kept in moments.items() for name, value in kept.items()}
    return {
        **{f"net/{name}": value for name, value in weights(net).items()},
        **{k: v.clone() for k, v in named.items()},
    }


def restore(net: nn.Module, adam: torch.optim.Optimizer, kept: Mapping[str, Tensor]) -> None:
    """Put the tensors of `state` back into network and optimiser."""
    net.load_state_dict({name.removeprefix("net/"): value for name, value in kept.items() if name.startswith("net/")})
    moments: dict[int, dict[str, Tensor]] = {}
    for name, value in kept.items():
        if name.startswith("adam/"):
            _, place, moment = name.split("/")
            moments.setdefault(int(place), {})[moment] = value.clone()
    adam.load_state_dict({**adam.state_dict(), "state": moments})


class ConvNetPosterior(Posterior):
    """One network, so one draw."""

    n_draws: int | None = 1
    noise: Noise = "none"

    def __init__(self, arrays: Mapping[str, Tensor]) -> None:
        """Keep the weights."""
        self._arrays = dict(arrays)
        with torch.device("meta"):  # no first weights, which PyTorch would draw from its global generator
            self._net = network(len(self._arrays["5.bias"]))
        self._net.load_state_dict(self._arrays, assign=True)

    def predict(self, x: Tensor, draws: range, rows: Tensor) -> Categorical:
        """Return log-probabilities [S, B, K] of images [B, 784]; every draw is the same network."""
        del rows
        with torch.no_grad():
            log_probs = torch.log_softmax(self._net.to(x.device)(x.reshape(-1, 1, SIDE, SIDE)), 1)
        return Categorical(log_probs.expand(len(draws), -1, -1))

    def arrays(self) -> Mapping[str, Tensor]:
        """Return the weights."""
        return self._arrays
