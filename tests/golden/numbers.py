"""What a trace is made of: numbers with the scale of their deviations, counted metrics, and what must be equal.

A trace is a mapping with three parts. `numbers` maps a name to [value, scale]: two traces deviate in it by the
difference of their values divided by the stored scale. `counted` maps a name to a metric that moves in steps when one
row changes sides. `exact` maps a name to an integer or a text.
"""

import functools
import hashlib
import math

import numpy as np

PARTS = ("numbers", "counted", "exact")
SMALLEST = 0.01  # scale of a number that is nearly zero, nats or a fraction
ROWS = 128  # measured rows of each data set
ONE_ROW = 1.5 / 100  # step of a counted metric: one row of the smallest data set, 100 images, and half a row


class Trace:
    """A trace while it is made."""

    def __init__(self):
        self.numbers, self.counted, self.exact = {}, {}, {}

    def number(self, name, value, scale=None):
        """Add a number; its own size is the scale unless one is given."""
        value = float(value)
        scale = max(abs(value), SMALLEST) if scale is None else max(float(scale), 1e-12)
        self.numbers[name] = [_short(value), _short(scale)]

    def as_json(self):
        """Return the trace as it is stored."""
        return {"numbers": self.numbers, "counted": self.counted, "exact": self.exact}


def _short(value):
    """Return a number with 10 digits, three more than float32 has."""
    return float(f"{value:.10g}")


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
    """Return the deviation of each number from its stored value, in units of its stored scale.

    A name that only one of the two has deviates infinitely.
    """
    names = {**stored["numbers"], **found["numbers"]}
    result = {}
    for name in names:
        if name not in stored["numbers"] or name not in found["numbers"]:
            result[name] = math.inf
            continue
        (value, scale), (other, _) = stored["numbers"][name], found["numbers"][name]
        result[name] = 0.0 if value == other else abs(value - other) / scale
        if not math.isfinite(result[name]):
            result[name] = math.inf
    return result


def complaints(stored, found, allowed):
    """Return a line for everything in which a trace is not the stored one, the largest excess first.

    Args:
        stored: the stored trace.
        found: the trace of today.
        allowed: returns the largest deviation that is allowed for a number, by its name.
    """
    off = [(value / allowed(name), value, name) for name, value in deviations(stored, found).items()]
    lines = [
        f"{name} deviates by {value:.2g} of its scale; {allowed(name):.2g} is allowed"
        for excess, value, name in sorted(off, reverse=True)
        if excess > 1
    ]
    for name in {**stored["counted"], **found["counted"]}:
        value, other = stored["counted"].get(name), found["counted"].get(name)
        if value is None or other is None or not abs(value - other) <= ONE_ROW:
            lines.append(f"{name} is {other} and was {value}; one row may change sides")
    for name in {**stored["exact"], **found["exact"]}:
        value, other = stored["exact"].get(name), found["exact"].get(name)
        if value != other:
            lines.append(f"{name} is {other} and was {value}")
    return lines
