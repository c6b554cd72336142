"""Types of arrays, and the checks of inputs that all metrics use."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from bench.core.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Labels: TypeAlias = "IntArray | Tensor"  # int64 [N], classes 0 .. K-1

SMALLEST_LOG = -1e4  # replaces -infinity, so that 0 log 0 = 0: exp(-1e4) is 0 in float64


def as_labels(labels: Labels, n_rows: int, n_classes: int) -> IntArray:
    """Return labels as int64 [N].

    Raises:
        ConfigError: there are no rows, the number of labels is wrong, or a label is no whole number or no class.
    """
    given = _in_memory(labels)
    if n_rows == 0:
        raise ConfigError("a metric was asked for 0 rows; it needs at least one: check the data set")
    if given.shape != (n_rows,):
        raise ConfigError(f"labels of shape {given.shape} were given for {n_rows} rows; give one label for each row")
    if given.dtype.kind not in "biuf" or not (given == np.floor(given)).all():  # NaN is not equal to itself
        raise ConfigError(f"labels such as {given[0]!r} ({given.dtype}) were given; give whole numbers, the classes")
    if given.min() < 0 or given.max() >= n_classes:
        text = f"labels from {given.min()} to {given.max()} were given; allowed are 0 to {n_classes - 1}"
        raise ConfigError(f"{text}: measure rows of no class as an out-of-distribution set")
    return given.astype(np.int64)


def as_float(values: FloatArray | Tensor) -> FloatArray:
    """Return float64 values in memory of the CPU."""
    return _in_memory(values).astype(np.float64, copy=False)


def _in_memory(values: npt.NDArray[np.generic] | Tensor) -> npt.NDArray[np.generic]:
    """Return values as an array in memory of the CPU, without importing PyTorch."""
    return np.asarray(values if isinstance(values, np.ndarray) else values.cpu())
