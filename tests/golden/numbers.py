"""What a trace is made of, and how two traces are compared.

A trace is a mapping with two parts. `numbers` maps a name to a number, or to a list of numbers that summarise one
array: its norm and its projection on fixed signs. `exact` maps a name to an integer or a text.

The deviation of a list is its largest difference divided by the largest stored number of the list. The
deviation of a single number, which is a loss in nats or a share, is the difference divided by its size or by 1,
whichever is larger. There is one tolerance for all.
"""

import functools
import hashlib
import math

import numpy as np

PARTS = ("numbers", "exact")
ROWS = 128  # measured rows of each data set
TOLERANCE = 1e-10
"""Largest deviation allowed. docs/freshness.md: between processors, settings of their libraries and numbers of threads
traces deviate by less than a tenth of it, and each planted change by more than a thousand times it."""


class Trace:
    """A trace while it is made."""

    def __init__(self):
        self.numbers, self.exact = {}, {}

    def number(self, name, value):
        """Add a number."""
        self.numbers[name] = _short(value)

    def array(self, name, values):
        """Add an array, float64 of any shape, by its norm and its projection on fixed signs."""
        flat = np.asarray(values, dtype=np.float64).ravel()
        norm, projection = math.sqrt(float(flat @ flat)), float(flat @ signs(flat.size))
        self.numbers[name] = [_short(norm), _short(projection)]

    def as_json(self):
        """Return the trace as it is stored."""
        return {"numbers": self.numbers, "exact": self.exact}


def _short(value):
    """Return a number with 15 digits: rounding it changes it by less than 1e-14."""
    return float(f"{float(value):.15g}")


@functools.lru_cache(maxsize=16)
def signs(n):
    """Return fixed signs, float64 [n], from a hash of the position: a projection sees which element is which."""
    return np.where(mixed(np.arange(n, dtype=np.uint64)) & np.uint64(1), 1.0, -1.0)


def mixed(values):
    """Return well mixed 64-bit integers of 64-bit integers (splitmix64), uint64 of the same shape."""
    with np.errstate(over="ignore"):
        z = values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniform(values):
    """Return numbers in [0, 1), float64, that are hashes of integers."""
    return (mixed(values) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def digest_of(array):
    """Return a short hash of an array of integers, the same on every machine."""
    return hashlib.sha256(np.ascontiguousarray(array).astype("<i8").tobytes()).hexdigest()[:16]


def deviations(stored, found):
    """Return the deviation of each number from its stored value; a name that only one of the two has: infinity."""
    names = {**stored["numbers"], **found["numbers"]}
    return {name: _deviation(stored["numbers"].get(name), found["numbers"].get(name)) for name in names}


def _deviation(value, other):
    if value is None or other is None or np.shape(value) != np.shape(other):
        return math.inf
    if value == other:
        return 0.0
    least = 1.0 if np.ndim(value) == 0 else 0.0
    largest = max(least, float(np.max(np.abs(value))))
    difference = float(np.max(np.abs(np.subtract(value, other))))
    return difference / largest if largest > 0 and math.isfinite(difference) else math.inf


def complaints(stored, found):
    """Return a line for everything in which a trace is not the stored one, the largest deviation first."""
    off = sorted(((value, name) for name, value in deviations(stored, found).items()), reverse=True)
    lines = [
        f"{name} deviates by {value:.2g}; {TOLERANCE:.2g} is allowed" for value, name in off if not value <= TOLERANCE
    ]
    for name in {**stored["exact"], **found["exact"]}:
        value, other = stored["exact"].get(name), found["exact"].get(name)
        if value != other:
            lines.append(f"{name} is {other} and was {value}")
    return lines
