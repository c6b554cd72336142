"""The objectives of examples in TensorFlow and JAX: in words, and the form in which their code gives them.

tensorflow_objectives.py and numpyro_objectives.py have the code. None of them imports PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.judge.audit.libraries.examples import BATCH, N_TRAIN, Example

SIZES = (784, 400, 400, 10)  # of the network, as of the examples in PyTorch

Rows = NDArray[np.float32]
Batch = tuple[Rows, Rows]


@dataclass(frozen=True)
class ForeignObjective:
    """An example's objective on batches of made-up rows.

    `loss` and `nll` take parameters, inputs, targets and a seed, and return a scalar of the framework. One seed gives
    both the same noise. `parameters` are JAX's arrays by name, or the Keras model, whose losses read its own variables.
    """

    parameters: object
    loss: Callable[[object, Rows, Rows, int], object]  # what a step minimises
    nll: Callable[[object, Rows, Rows, int], object]  # -log p summed over the batch
    batches: Sequence[Batch]
    n_train: int


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


WINES = 4163  # rows of the Keras tutorial's training set: 85 % of 4898
ROWS = 100  # of NumPyro's example, all in one batch

FOREIGN = {
    example.name: example
    for example in (
        Example(
            "DenseFlipout, docstring",
            "tensorflow-probability",
            BATCH,
            "docstrings of tfp.layers.DenseFlipout and DenseReparameterization, whose biases have no distribution",
            "loss = neg_log_likelihood + kl, a number for each row, with kl = sum(model.losses)",
            "loss = tf.reduce_mean(neg_log_likelihood) + kl / N",
        ),
        Example(
            "DenseFlipout, MNIST",
            "tensorflow-probability",
            BATCH,
            "examples/bayesian_neural_network.py, with dense layers alone; its biases have no distribution",
            "kernel_divergence_fn = kl_divergence(q, p) / NUM_TRAIN_EXAMPLES, and a mean cross-entropy",
            "none needed",
        ),
        Example(
            "DenseVariational",
            "tensorflow-probability",
            256,
            f"keras.io, Probabilistic Bayesian Neural Networks, experiment 2: 11-8-8-1 for N = {WINES:,} wines",
            "tfp.layers.DenseVariational(kl_weight=1 / train_size), and a mean squared error",
            "none needed; a mean squared error is a likelihood with variance 1/2",
        ),
        Example(
            "NUTS",
            "numpyro",
            ROWS,
            f"examples/bnn.py: 3-5-5-1 for N = {ROWS} rows; it samples, so what counts is the prior's -log p",
            "NUTS(model) on all rows",
            "none needed",
        ),
    )
}
"""By name. `per_epoch` of test_foreign_libraries.py has how often an epoch counts the KL, or the prior, of each."""

N_OF = {"DenseVariational": WINES, "NUTS": ROWS}
"""The training rows of the examples that have other data than `N_TRAIN` images."""


def n_train(name: str) -> int:
    """Return the number of training rows of an example."""
    return N_OF.get(name, N_TRAIN)
