"""A made-up record."""

from tests import synthetic


def record(**changes):
    fields = {"key": "a" * 64, "fit_key": "b" * 64, "metrics": {"mnist/accuracy": 0.98}, "provenance": {}}
    return synthetic.record(**{"approach": "mlp", "protocol": "common", **fields, **changes})
