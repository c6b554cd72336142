"""Floating-point operations of the matrix products that a step or a prediction needs, from the layer sizes.

A product [B, n_in] x [n_in, n_out] counts 2 B n_in n_out. Only matrix products count: noise, activations, losses and
optimisers do not, so that the share of the product rate that code reaches says how much of its time goes elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from bench.interface import Noise


def layer_flops(sizes: Sequence[int], n_rows: int) -> list[float]:
    """Return the operations of one forward pass of each layer; `sizes` are inputs, hidden units, outputs."""
    return [2.0 * n_rows * n_in * n_out for n_in, n_out in pairwise(sizes)]


def training_flops(sizes: Sequence[int], n_rows: int) -> float:
    """Return the operations of a step: forward, gradient of the weights, gradient of the inputs but the first's."""
    layers = layer_flops(sizes, n_rows)
    return 3 * sum(layers) - layers[0]


def prediction_flops(sizes: Sequence[int], n_rows: int, n_draws: int, noise: Noise) -> float:
    """Return the operations of `n_draws` predictions of `n_rows` rows.

    With noise "shared" the first layer's mean and variance are one product each, whatever the number of draws.
    """
    first, *rest = layer_flops(sizes, n_rows)
    return 2 * first + n_draws * sum(rest) if noise == "shared" else n_draws * (first + sum(rest))
