"""Tests of bench.core; and for them a made-up record, and scores of three rows."""

import numpy as np

from tests import synthetic

SCORES = {
    "mnist/label": np.arange(3),
    "mnist/predicted": np.arange(3),
    "mnist/predictive_entropy": np.zeros(3, np.float32),
    "mnist/max_probability": np.ones(3, np.float32),
}


def record(**changes):
    fields = {"key": "a" * 64, "fit_key": "b" * 64, "metrics": {"mnist/accuracy": 0.98}, "provenance": {}}
    return synthetic.record(**{"approach": "mlp", "protocol": "common", **fields, **changes})
