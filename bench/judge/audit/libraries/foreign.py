"""The objectives of examples in TensorFlow and JAX: the form in which their code gives them, and made-up rows.

tensorflow_objectives.py and numpyro_objectives.py have the code. None of them imports PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.judge.audit.libraries.examples import BATCH

SIZES = (784, 400, 400, 10)  # of the network, as of the examples in PyTorch

Rows = NDArray[np.float32]
Batch = tuple[Rows, Rows]


@dataclass(frozen=True)
class ForeignObjective:
    """An example's objective on batches of made-up rows.

    `loss` and `nll` take parameters, inputs and targets, and return a scalar of the framework, with noise from
    TensorFlow's global seed. `parameters` are JAX's arrays by name, or the Keras model, which has its own variables.
    """

    parameters: object
    loss: Callable[[object, Rows, Rows], object]  # what a step minimises
    nll: Callable[[object, Rows, Rows], object]  # -log p summed over the batch
    batches: Sequence[Batch]
    kl: Callable[[object], object] | None = None  # unscaled, where the weights are no independent Gaussians


def digits(sizes: Sequence[int], batch_size: int = BATCH) -> list[Batch]:
    """Return three batches of made-up images [B, sizes[0]] in 0..1, with digits [B, sizes[-1]] of ones and zeros."""
    source = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(1,)))
    n_in, n_out = sizes[0], sizes[-1]
    return [
        (
            source.random((batch_size, n_in), dtype=np.float32),
            np.eye(n_out, dtype=np.float32)[source.integers(n_out, size=batch_size)],
        )
        for _ in range(3)
    ]


def numbers(n_in: int, batch_size: int) -> list[Batch]:
    """Return three batches of made-up rows [B, n_in] with a number each [B, 1]."""
    source = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(2,)))
    shapes = ((batch_size, n_in), (batch_size, 1))
    drawn = [tuple(source.standard_normal(shape, dtype=np.float32) for shape in shapes) for _ in range(3)]
    return [(x, y) for x, y in drawn]
