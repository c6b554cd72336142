"""What needs no training of its own: least squares, and a Gaussian over the last layer of a trained network.

The last layer has features F [n, P], a ReLU unit each and a 1 for the bias, and the trained weights w. With noise of
precision b and weights of prior precision a, Laplace's approximation around w has the covariance (b F'F + a I)^-1, and

    log p(y) = n/2 log(b / 2 pi) - b/2 |y - F w|^2 + P/2 log a - a/2 |w|^2 - 1/2 log det(b F'F + a I)

as its estimate (MacKay 1992, Neural Computation 4, "A practical Bayesian framework for backpropagation networks", eq.
3.4; Daxberger et al. 2021, arXiv 2106.14806). It is concave in (log a, log b), so it has one maximum. There a = g /
|w|^2 and b = (n - g) / |y - F w|^2, where g, the sum of b l / (b l + a) over the eigenvalues l of F'F, is the number of
weights that the rows determine.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bench.uci.data import Floats, Regression, Split, standardise
from bench.uci.dropout import Array, Prepared
from bench.uci.scores import scores

ROUNDS = 100  # each at least halves the distance, in log(a / b), to the fixed point


class LastLayer(NamedTuple):
    """A Gaussian over the last layer's weights, in standardised units."""

    weights: Floats  # its mean [P], the bias last
    covariance: Floats  # [P, P]
    noise: float  # precision b
    prior: float  # precision a


def linear(data: Regression, split: Split) -> dict[str, float]:
    """Return the scores of least squares with an intercept on a split's test rows."""
    x, y = standardise(data.x[split.train], data.x[split.test]), data.y[split.train]
    design, points = (np.column_stack([np.ones(len(one)), one]) for one in (x.train, x.test))
    inverse = np.linalg.pinv(design.T @ design, hermitian=True)  # a constant feature has no effect
    weights = inverse @ (design.T @ y)
    freedom = len(y) - np.linalg.matrix_rank(design)
    noise = float(np.sum((y - design @ weights) ** 2)) / freedom
    variance = noise * (1 + np.einsum("ni,ij,nj->n", points, inverse, points))
    return scores((points @ weights)[None], variance[None], data.y[split.test])


def last_layer_laplace(parameters: Array, rows: Prepared, split: int) -> dict[str, float]:
    """Return the scores of a split's trained network of `dropout.Batch`, and both precisions."""
    seen, points = (features(parameters, one.x[split]) for one in (rows.train, rows.test))
    weights, unit = parameters[-points.shape[1] :].astype(np.float64), rows.sd[split]
    layer = last_layer(seen, rows.train.y[split].astype(np.float64), weights)
    mean, variance = predicted(layer, points)
    found = scores((rows.mean[split] + mean * unit)[None], (variance * unit**2)[None], rows.targets[split])
    return {**found, "tau": layer.noise / unit**2, "prior_precision": layer.prior}


def features(parameters: Array, x: Array) -> Floats:
    """Return what the last layer of a network of `dropout.Batch` sees of rows [n, d]: its units and a 1, [n, h + 1]."""
    d = x.shape[1]
    h = (len(parameters) - 1) // (d + 2)
    weights, biases = parameters[: h * d].reshape(h, d).astype(np.float64), parameters[h * d : h * (d + 1)]
    return np.column_stack([np.maximum(x @ weights.T + biases, 0.0), np.ones(len(x))])


def last_layer(seen: Floats, y: Floats, weights: Floats) -> LastLayer:
    """Return the Gaussian around trained weights whose precisions a and b maximise log p(y).

    Args:
        seen: features of the training rows [n, P], n > P.
        y: their targets [n].
        weights: of the trained last layer [P].
    """
    values, vectors = np.linalg.eigh(seen.T @ seen)
    values = np.maximum(values, 0.0)  # rounding makes those of dead units negative
    size, misfit = float(weights @ weights), float(np.sum((y - seen @ weights) ** 2))
    ratio = 1.0  # a / b
    for _ in range(
        ROUNDS
    ):  # the plain step may swing around the fixed point; its geometric mean with the last does not
        known = float(np.sum(values / (values + ratio)))
        ratio = float(np.sqrt(ratio * known / size * misfit / (len(y) - known)))
    known = float(np.sum(values / (values + ratio)))
    noise = (len(y) - known) / misfit
    covariance = (vectors / (noise * (values + ratio))) @ vectors.T
    return LastLayer(weights, covariance, noise, noise * ratio)


def predicted(layer: LastLayer, seen: Floats) -> tuple[Floats, Floats]:
    """Return the mean and variance of the targets of features [n, P], each [n]."""
    return seen @ layer.weights, 1 / layer.noise + np.einsum("ni,ij,nj->n", seen, layer.covariance, seen)
