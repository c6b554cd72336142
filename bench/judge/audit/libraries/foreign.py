"""The objectives of examples in TensorFlow and JAX: the form in which their code gives them, made-up rows; NumPyro's.

tensorflow_objectives.py has the code of TensorFlow's. None imports PyTorch. What NUTS samples from is -log p(rows,
weights): there is no posterior with parameters, and so no KL. What can be counted is the prior: how often it counts
while the data count once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bench.judge.audit.libraries import library
from bench.judge.audit.libraries.examples import BATCH, HUNDRED

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


INSTALL = "numpyro"
NUTS_SIZES = (3, 5, 5, 1)


def nuts(corrected: bool) -> ForeignObjective:
    """Return -log p of all rows and of the weights, as NumPyro sums it from a model of the example's form."""
    del corrected  # no change is needed
    jit = library("jax", INSTALL).jit  # as NUTS does
    jnp, random = library("jax.numpy", INSTALL), library("jax.random", INSTALL)
    numpyro, distributions = library("numpyro", INSTALL), library("numpyro.distributions", INSTALL)
    log_density = library("numpyro.infer.util", INSTALL).log_density
    trace, substitute = (getattr(library("numpyro.handlers", INSTALL), name) for name in ("trace", "substitute"))

    def model(x: Rows, y: Rows) -> None:
        hidden = x
        for index, (n_in, n_out) in enumerate(pairwise(NUTS_SIZES)):
            hidden = hidden if index == 0 else jnp.tanh(hidden)
            normal = distributions.Normal(jnp.zeros((n_in, n_out)), 1.0).to_event(2)
            hidden = hidden @ numpyro.sample(f"weights{index}", normal)
        precision = numpyro.sample("precision", distributions.Gamma(3.0, 1.0))
        with numpyro.plate("rows", len(x)):
            numpyro.sample("y", distributions.Normal(hidden, precision**-0.5).to_event(1), obs=y)

    def loss(weights: object, x: Rows, y: Rows) -> object:
        return -log_density(model, (x, y), {}, weights)[0]

    def by_site(weights: object, x: Rows, y: Rows) -> dict[str, object]:
        sites = trace(substitute(model, weights)).get_trace(x, y)
        chosen = {name: site for name, site in sites.items() if site["type"] == "sample"}
        return {name: -site["fn"].log_prob(site["value"]).sum() for name, site in chosen.items()}

    def nll(weights: object, x: Rows, y: Rows) -> object:
        return by_site(weights, x, y)["y"]

    def prior(weights: object) -> object:
        values = by_site(weights, *batches[0])
        return jnp.stack([value for name, value in values.items() if name != "y"]).sum()

    batches = numbers(NUTS_SIZES[0], HUNDRED)
    keys = random.split(random.PRNGKey(0), len(NUTS_SIZES) - 1)
    weights = {
        f"weights{index}": random.normal(key, shape)
        for index, (key, shape) in enumerate(zip(keys, pairwise(NUTS_SIZES), strict=True))
    }
    return ForeignObjective(weights | {"precision": jnp.array(3.0)}, jit(loss), jit(nll), batches, jit(prior))
