"""Test images turned and moved step by step: the steps, the names of their metrics, and the area under a curve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from bench.core.metric_table import FRACTION, GAP, NATS, SHARE_SURE, Better, Unit, metric

ROTATED, TRANSLATED = "rotated", "translated"
STEPS: Mapping[str, tuple[int, ...]] = {ROTATED: tuple(range(0, 181, 15)), TRANSLATED: tuple(range(0, 15, 2))}
"""Degrees to the left, and pixels; as in Ovadia et al. 2019, "Can You Trust Your Model's Uncertainty?"."""
MOST_ROWS = 1_000  # every tenth of the 10,000 test images: the first half of them is easier than the second
MEASURED = ("accuracy", "nll", "ece", SHARE_SURE)  # at every step


_CURVES: tuple[tuple[str, Unit, Better], ...] = (
    ("accuracy", FRACTION, "higher"),
    ("nll", NATS, "lower"),
    ("ece", GAP, "lower"),
    ("sure", FRACTION, "none"),
)


def step_key(kind: str, step: int, name: str) -> str:
    """Return the key of a metric of the images that are rotated by `step` degrees or translated by `step` pixels."""
    return f"mnist/{kind}_{step}/{name}"


def area_key(kind: str, name: str) -> str:
    """Return the key of the area under a metric's curve over all steps."""
    metric, at, parameter = name.partition("@")
    return f"mnist/{kind}/{metric}_area{at}{parameter}"


def area(steps: Sequence[float], values: Sequence[float]) -> float:
    """Return the area under the straight lines between the points, divided by its width; it is a mean value."""
    x, y = np.array(steps, dtype=np.float64), np.array(values, dtype=np.float64)
    return float(np.diff(x) @ (y[1:] + y[:-1]) / 2 / (x[-1] - x[0]))


for _name, _unit, _better in _CURVES:
    metric(
        f"{_name}_area",
        _unit,
        _better,
        f"area under {_name} against the angle or the distance by which images are moved (straight lines between "
        "the steps), divided by its width: the mean over the steps",
        "protocol shift; steps of Ovadia et al. 2019, 'Can You Trust Your Model's Uncertainty?'",
        rows="moved",
    )(area)


def areas(metrics: Mapping[str, float | None]) -> Iterator[tuple[str, float]]:
    """Yield the key and value of every area, from the metrics at the steps. A curve with a missing step has none."""
    for kind, steps in STEPS.items():
        for name in MEASURED:
            values = [metrics.get(step_key(kind, step, name)) for step in steps]
            known = [value for value in values if value is not None]
            if len(known) == len(steps):
                yield area_key(kind, name), area(steps, known)
