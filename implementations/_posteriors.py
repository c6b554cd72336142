"""Shared by the approaches of the library posteriors: its import, and the log posterior of the network."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from implementations._kernels.layout import Layout, affine

with warnings.catch_warnings():  # modules that the library imports give these warnings
    warnings.filterwarnings("ignore", message="The Tensor default of the field", category=FutureWarning)
    warnings.filterwarnings("ignore", message=r"`torch.jit.script.* is deprecated", category=DeprecationWarning)
    import posteriors as library
    import torchopt

__all__ = ["Batch", "library", "log_posterior", "torchopt"]

Batch = tuple[Tensor, Tensor]  # x [B, n_inputs], y int64 [B]


def log_posterior(layout: Layout, prior_std: float, n_rows: int) -> Callable[[Tensor, Batch], tuple[Tensor, Tensor]]:
    """Return the function (weights [P], batch) -> (log posterior / N estimated from the batch, nats []; logits [B, K]).

    The prior is N(0, prior_std^2) for every weight. The library's temperature must then be 1/N.
    """
    log_normaliser = layout.n_weights * (math.log(prior_std) + 0.5 * math.log(2 * math.pi))

    def log_posterior_per_row(flat: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        x, y = batch
        *hidden, last = layout.layers(flat)
        for layer in hidden:
            x = torch.relu(affine(x, *layer))
        logits = affine(x, *last)
        log_prior = -flat.square().sum() / (2 * prior_std**2) - log_normaliser
        return log_prior / n_rows - torch.nn.functional.cross_entropy(logits, y), logits

    return log_posterior_per_row
