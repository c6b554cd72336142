"""Masks of dropout from random bits: one bit a unit at rate 1/2, else 16 bits."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from bench.core.streams import StepNoise
from implementations._kernels.layout import Layout


class Rates(Protocol):
    """A recipe with two rates: the probabilities of dropping an input and a hidden unit."""

    @property
    def input_dropout(self) -> float:
        """Return the rate of the inputs."""

    @property
    def hidden_dropout(self) -> float:
        """Return the rate of the hidden units."""


@dataclass(frozen=True)
class Masks:
    """Reads the dropout masks of a row from its random 64-bit words."""

    widths: tuple[int, ...]  # units of the input and of each hidden layer
    rates: tuple[float, ...]  # probability of dropping a unit of each
    table: Tensor  # [256, 8]: the multipliers that the bits of a byte stand for at rate 1/2

    @classmethod
    def of(cls, recipe: Rates, layout: Layout, like: Tensor) -> Masks:
        """Return the masks of a recipe, in the type and on the device of `like`."""
        widths = layout.sizes[:-1]
        rates = (recipe.input_dropout, *[recipe.hidden_dropout] * (len(widths) - 1))
        bits = torch.arange(256).unsqueeze(1).bitwise_right_shift(torch.arange(8)).bitwise_and(1)
        return cls(widths, rates, 2 * bits.to(like))

    def to(self, device: torch.device) -> Masks:
        """Return the same masks for words on another device."""
        return dataclasses.replace(self, table=self.table.to(device))

    @property
    def n_words(self) -> int:
        """Return the number of 64-bit words that a row needs."""
        return sum(map(_words, self.widths, self.rates))

    def random_words(self, n_rows: int, source: StepNoise) -> Tensor:
        """Draw the words of `n_rows` rows, int64 [n_rows, n_words], on the device of the masks."""
        return source.words_(torch.empty(n_rows, self.n_words, dtype=torch.int64, device=self.table.device))

    def layers(self, words: Tensor) -> list[Tensor]:
        """Return the multipliers of each layer's units, 0 or 1 / (1 - rate), [B, width] each; words [B, n_words]."""
        parts = torch.split(words, [*map(_words, self.widths, self.rates)], dim=1)
        return [self._multipliers(*layer) for layer in zip(parts, self.widths, self.rates, strict=True)]

    def _multipliers(self, words: Tensor, width: int, rate: float) -> Tensor:
        if rate == 0:
            return self.table.new_ones(len(words), width)
        if rate == 0.5:
            index = words.view(torch.uint8).to(torch.int32).flatten()
            return self.table.index_select(0, index).view(len(words), -1)[:, :width]
        shorts = words.view(torch.int16)[:, :width]
        n_dropped = round(rate * 2**16)  # of the 2^16 values of a short, the lowest
        keep = torch.ge(shorts, n_dropped - 2**15, out=self.table.new_empty(shorts.shape))
        return keep.mul_(1 / (1 - rate))


def _words(width: int, rate: float) -> int:
    """Return how many 64-bit words a row of a layer needs: 1 bit a unit at rate 1/2, else 16 bits."""
    bits = {0.0: 0, 0.5: 1}.get(rate, 16)
    return math.ceil(width * bits / 64)
