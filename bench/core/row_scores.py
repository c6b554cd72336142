"""The form of per-row scores, which are arrays in a file beside a record: names, types, shapes and bounds.

`Store.scores` checks it, so that code can rely on it. The right hash is not enough, because a results folder may come
from somebody else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Scores = Mapping[str, NDArray[np.generic]]
"""Numbers of each row of a data set, by "DATASET/KIND"."""

CLASSES = 10
INTEGERS = np.typecodes["AllInteger"]
FLOATS = "ef"  # float16 and float32
LOG_OTHERS = "log_others"  # log(1 - max_probability): of a confident row, only this tells how confident
KEPT = ("label", "predicted", LOG_OTHERS, "predictive_entropy")  # what the archives keep of seeds other than 0
SLACK = 0.01  # rounding to float16 changes a number below 4 by less than 0.002
LONGEST = {"rows": 60_000, "kept rows": 1_000, "draws": 10_000, "classes": CLASSES}
"""The longest axes that are accepted, because longer ones only cost time. Our largest data set has 10,000 rows, of
which 24 are kept with all draws."""


class _Kind(NamedTuple):
    """What the arrays of one kind look like."""

    types: str  # codes of NumPy
    axes: tuple[str, ...]
    low: float
    high: float


_ENTROPY = _Kind(FLOATS, ("rows",), -SLACK, math.log(CLASSES) + SLACK)  # nats
_KINDS = {
    "label": _Kind(INTEGERS, ("rows",), -1, CLASSES - 1),  # -1: none of the classes
    "predicted": _Kind(INTEGERS, ("rows",), 0, CLASSES - 1),
    "max_probability": _Kind(FLOATS, ("rows",), 0, 1 + SLACK),
    LOG_OTHERS: _Kind(FLOATS, ("rows",), -math.inf, math.log(1 - 1 / CLASSES) + SLACK),  # nats
    "predictive_entropy": _ENTROPY,
    "expected_entropy": _ENTROPY,
    "brier": _Kind(FLOATS, ("rows",), -SLACK, 2 + SLACK),
    "nll": _Kind(FLOATS, ("rows",), -SLACK, math.inf),
    "votes": _Kind(INTEGERS, ("rows", "classes"), 0, LONGEST["draws"]),
    "draws": _Kind(FLOATS, ("draws", "kept rows", "classes"), -math.inf, SLACK),  # log-probabilities
}
_NEEDED = {  # kind -> the kinds that must be there too, because tables and figures show them together
    "max_probability": ("label", "predicted", "predictive_entropy"),
    LOG_OTHERS: ("label", "predicted", "predictive_entropy"),
    "draws": ("label", "max_probability"),
}


def kept(scores: Scores) -> Scores:
    """Return the kinds of `KEPT`; {} if older code made the scores, which has no `LOG_OTHERS`."""
    found = {key: values for key, values in scores.items() if key.rpartition("/")[2] in KEPT}
    return found if any(key.endswith(f"/{LOG_OTHERS}") for key in found) else {}


def check_scores(scores: Scores) -> None:
    """Raise ValueError, which says what is wrong, if scores do not have the form that the common protocol writes."""
    by_set: dict[str, dict[str, NDArray[np.generic]]] = {}
    n_draws: int | None = None
    for key, values in scores.items():
        name, _, kind = key.rpartition("/")
        if not name or kind not in _KINDS:
            raise ValueError(f"there is an array '{key}', which no protocol writes")
        _check_array(key, values, _KINDS[kind])
        by_set.setdefault(name, {})[kind] = values
        if kind == "draws":
            n_draws = n_draws or len(values)
            if len(values) != n_draws:
                raise ValueError(f"data sets have different numbers of draws, {n_draws} and {len(values)}")
    for name, found in by_set.items():
        _check_set(name, found)


def _check_array(key: str, values: NDArray[np.generic], kind: _Kind) -> None:
    if values.dtype.char not in kind.types or not values.dtype.isnative:
        allowed = "whole numbers" if kind.types == INTEGERS else "float16 and float32"
        raise ValueError(f"{key} is of type {values.dtype}; allowed are {allowed}")
    if values.ndim != len(kind.axes):
        raise ValueError(f"{key} has shape {list(values.shape)}; allowed is [{', '.join(kind.axes)}]")
    for axis, length in zip(kind.axes, values.shape, strict=True):
        least = CLASSES if axis == "classes" else 1
        if not least <= length <= LONGEST[axis]:
            raise ValueError(f"{key} has {length} {axis}; allowed are {least} to {LONGEST[axis]}")
    if not (np.greater_equal(values, kind.low) & np.less_equal(values, kind.high)).all():  # NaN fails both
        raise ValueError(f"{key} has values that are not from {kind.low:.4g} to {kind.high:.4g}")


def _check_set(name: str, found: Mapping[str, NDArray[np.generic]]) -> None:
    """Raise ValueError if the arrays of one data set do not fit together."""
    if len({len(values) for kind, values in found.items() if kind != "draws"}) > 1:
        raise ValueError(f"the arrays of {name} have different numbers of rows")
    for kind, others in _NEEDED.items():
        lacking = sorted(set(others) - found.keys())
        if kind in found and lacking:
            raise ValueError(f"{name}/{kind} lacks {', '.join(lacking)}")
    if "draws" in found and found["draws"].shape[1] > len(found["label"]):
        raise ValueError(f"{name}/draws has more rows than {name}/label")
