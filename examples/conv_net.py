"""A small network for images, with dropout that stays on when it predicts."""

from dataclasses import dataclass

import torch
from torch import nn

from bench import ModuleApproach, NetworkPosterior


@dataclass(frozen=True)
class ConvNet(ModuleApproach):
    """Your method in one line."""

    noise = "row"  # each row has masks of its own; "none" without dropout: then change the manifest too

    epochs: int = 2  # your hyper-parameters, each with its value
    batch_size: int = 64
    learning_rate: float = 1e-3

    def network(self, task):
        """Your model: images [B, 784] with values in [0, 1] come in, logits [B, 10] go out (no softmax)."""
        return nn.Sequential(
            nn.Unflatten(1, (1, 28, 28)),
            nn.Conv2d(1, 8, kernel_size=5, stride=2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(0.25),
            nn.Linear(8 * 12 * 12, task.n_outputs),
        )

    def optimizer(self, net):
        """Your optimiser."""
        return torch.optim.Adam(net.parameters(), self.learning_rate)

    def train_epoch(self, net, batches, optimizer, epoch):
        """Your loop and loss, for epoch 1, 2, ...; dropout and all else of torch's global generator is seeded."""
        del epoch
        total = 0.0
        for x, y in batches:
            loss = nn.functional.cross_entropy(net(x), y)  # your loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        return total / len(batches)

    def posterior(self, net, seed):
        """Your prediction. With a seed, every draw drops units by row; NetworkPosterior(net) drops none."""
        return NetworkPosterior(net, seed)
