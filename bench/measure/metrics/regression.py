"""Scores of regression draws: S draws, B rows, D target dimensions."""

from __future__ import annotations

import math

import numpy as np

from bench.interface import Gaussian
from bench.measure.metrics.arrays import FloatArray, as_float

BAND_PERCENTILES = (2.5, 97.5)  # feldman2018's "95% Confidence"


def rmse(prediction: Gaussian, y: FloatArray) -> float:
    """Root of the mean squared error of the posterior mean against targets [B, D], target units."""
    mean = as_float(prediction.mean).mean(axis=0)
    return float(np.sqrt(((mean - y) ** 2).mean()))


def band(prediction: Gaussian) -> tuple[FloatArray, FloatArray]:
    """Return the 2.5 and 97.5 percentiles over draws of the function, each [B, D], target units.

    feldman2018 draws this band. It is a band of the *function*, without observation noise, so it does not show where
    95 % of the targets lie.
    """
    lower, upper = np.percentile(as_float(prediction.mean), BAND_PERCENTILES, axis=0)
    return lower, upper


def gaussian_nll(prediction: Gaussian, y: FloatArray) -> float:
    """Return the negative log-density of targets [B, D] under the mixture of the draws' Gaussians, nats per row.

    It is -log mean_s prod_d N(y_d | mean_sd, variance_sd); every variance must be positive.
    """
    mean, variance = as_float(prediction.mean), as_float(prediction.variance)
    log_density = -0.5 * ((y - mean) ** 2 / variance + np.log(2 * math.pi * variance)).sum(axis=2)
    return float(-(np.logaddexp.reduce(log_density, axis=0) - math.log(len(mean))).mean())
