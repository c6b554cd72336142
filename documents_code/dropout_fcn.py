"""alsibahi2019's network with dropout as the document runs it: modules, autograd, `torch.optim`.

Our code is tested against it and timed beside it; no result comes from it.
https://alsibahi.xyz/snippets/2019/06/15/pyro_mnist_bnn_kl.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional

Batches = Iterable[tuple[Tensor, Tensor]]  # images [B, 784] and labels int64 [B]


def network(n_inputs: int = 784, width: int = 1024, dropout: type[nn.Module] = nn.Dropout) -> nn.Sequential:
    """Return the document's network; `dropout` is the class of its dropout layers."""
    layers: list[nn.Module] = [dropout(0.2)]
    for n_in in (n_inputs, width, width):
        layers += [nn.Linear(n_in, width), dropout(0.5), nn.LeakyReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 10), nn.LogSoftmax(dim=-1))


def optimizer(net: nn.Module) -> torch.optim.Optimizer:
    """Return the document's optimiser."""
    return torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.95)


def published_loss(log_p: Tensor, y: Tensor) -> Tensor:
    """Return the binary cross-entropy that takes log-probabilities [B, 10] for logits."""
    return functional.binary_cross_entropy_with_logits(log_p, functional.one_hot(y, 10).to(log_p.dtype))


def training_step(
    net: nn.Module,
    sgd: torch.optim.Optimizer,
    x: Tensor,
    y: Tensor,
    loss_of: Callable[[Tensor, Tensor], Tensor] = published_loss,
) -> tuple[Tensor, int]:
    """Take one step; return the loss and the number of correct predictions, both of before it."""
    net.zero_grad()
    log_p = net(x)
    loss = loss_of(log_p, y)
    correct = int((log_p.argmax(-1) == y).sum().item())
    loss.backward()
    sgd.step()
    return loss, correct


def train_epoch(net: nn.Module, sgd: torch.optim.Optimizer, batches: Batches) -> tuple[float, float]:
    """Train on the batches in their order; return what an epoch prints: sum of batch losses, accuracy as a fraction."""
    total_loss, total, correct = 0.0, 0, 0
    for x, y in batches:
        loss, right = training_step(net, sgd, x, y)
        total_loss += loss.item()
        total += len(y)
        correct += right
    return total_loss, correct / total


def predict_all(net: nn.Module, batches: Iterable[Tensor], n_draws: int) -> Tensor:
    """Return log-probabilities [S, N, 10] of batches [B, 784]; in the document, a batch has one image."""
    return torch.cat([torch.stack([net(x).detach() for _ in range(n_draws)]) for x in batches], dim=1)
