"""SGD with dropout, the second row of the paper's Table 1: 784-n-n-10 with ReLU.

Implements Blundell, Cornebise, Kavukcuoglu and Wierstra 2015, "Weight Uncertainty in Neural Networks", arXiv
1505.05424, as far as its set-up is known; blundell_dropout.toml names every choice that the paper leaves open. The
rates are those of Hinton et al. 2012, arXiv 1207.0580: 1/5 of the inputs and half of the hidden units.

Objective (nats, one batch): the sum over its rows of -log p(y | x, w, masks). Masks divide what they keep by its share,
so that the network of the test has dropout off and its weights as they are.
Target
    weights of largest likelihood under dropout.

Cost: as blundell_sgd, 32 random bits for each input and each hidden unit of a row, and the products with the masks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from bench.core.errors import ConfigError
from bench.core.streams import StepNoise
from bench.interface import Context, Noise, Split, Task
from implementations import _blundell


@dataclass(frozen=True)
class BlundellDropout(_blundell.PaperNetwork):
    """Training of the network with dropout."""

    noise: ClassVar[Noise] = "none"

    input_dropout: float = 0.2  # probability of dropping a pixel
    hidden_dropout: float = 0.5  # probability of dropping a hidden unit

    def __post_init__(self) -> None:
        """Raise ConfigError on a rate that is no probability."""
        for rate in (self.input_dropout, self.hidden_dropout):
            if not 0 <= rate < 1:
                raise ConfigError(f"blundell_dropout was given a dropout rate of {rate}; it must be in [0, 1)")

    def seeds(self, train: Split, task: Task, ctx: Context) -> _blundell.PlainSeed:
        """See `_blundell.PaperNetwork.seeds`."""
        return DropoutSeed(self, train, task, ctx)


class DropoutSeed(_blundell.PlainSeed):
    """One seed in training, with new masks for every row of every step."""

    def __init__(self, recipe: BlundellDropout, train: Split, task: Task, ctx: Context) -> None:
        """Draw the initial weights."""
        super().__init__(recipe, train, task, ctx)
        widths = recipe.layout(task).sizes[:-1]
        self._rates = [
            (width, recipe.hidden_dropout if depth else recipe.input_dropout) for depth, width in enumerate(widths)
        ]

    def masks(self, x: Tensor, noise: StepNoise) -> list[Tensor]:
        """See `_blundell.PlainSeed.masks`."""
        sizes = [len(x) * width for width, _ in self._rates]
        words = noise.words_(torch.empty(-(-sum(sizes) // 2), dtype=torch.int64, device=x.device)).view(torch.int32)
        parts = torch.split(words[: sum(sizes)], sizes)
        return [mask_of(part, width, rate, x.dtype) for part, (width, rate) in zip(parts, self._rates, strict=True)]


def mask_of(words: Tensor, width: int, rate: float, dtype: torch.dtype) -> Tensor:
    """Return factors [B, width]: 0 with probability `rate`, else 1 / (1 - rate); words are fair int32 [B width]."""
    threshold = round(rate * 2**32) - 2**31
    return (words >= threshold).view(-1, width).to(dtype).div_(1 - rate)
