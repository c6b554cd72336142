"""A made-up record, and the files that a store has moved to quarantine."""

from tests import synthetic


def set_aside(root):
    return [path for path in (root / "quarantine").glob("*") if path.name != "reasons.txt"]


def record(**changes):
    fields = {"key": "a" * 64, "fit_key": "b" * 64, "metrics": {"mnist/accuracy": 0.98}, "provenance": {}}
    return synthetic.record(**{"approach": "mlp", "protocol": "common", **fields, **changes})
