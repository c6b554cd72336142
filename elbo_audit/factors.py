"""Groups of weights with independent Gaussians: how parameters make their means and standard deviations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elbo_audit.errors import AuditError, unknown_name

SAME_RATIO = 1e-3  # of the largest product of two gradients: float32 leaves less than this of equal ones

Array = NDArray[np.float64]
Gradient = dict[str, Array]  # by the parameter's name


@dataclass(frozen=True)
class Factor:
    """Means and standard deviations as functions without arguments, whose values the framework can differentiate."""

    name: str
    mean: Callable[[], object]
    std: Callable[[], object]
    may_be_layer: bool = False  # as in `Group`


@dataclass(frozen=True)
class Group:
    """A group of weights, in the present state of the parameters."""

    name: str
    mean: Callable[[], Array]
    std: Callable[[], Array]  # of the mean's shape, or one that broadcasts to it
    pullback: Callable[[Array, Array], Gradient]
    """From cotangents of mean and std to the gradient: that of sum(a x mean) + sum(b x std), by trained parameters."""
    may_be_layer: bool = False  # `mean.0.weight` may be the mean of weights, or of a layer that makes an output
    other: Group | None = None  # the same weights, if their sigma is read in the other way that its name allows

    def spread(self) -> Array:
        """Return a standard deviation for each mean, also if weights share one; raises AuditError for a misfit."""
        mean, std = self.mean(), self.std()
        try:
            return np.broadcast_to(std, mean.shape)
        except ValueError as error:
            shapes = f"{mean.shape} and {std.shape}"
            raise AuditError(f"mean and std of '{self.name}' have shapes {shapes}; give a std for each mean") from error

    def along(self, by_mean: Array | float, by_std: Array | float) -> Gradient:
        """Return the gradient of sum(a x mean) + sum(b x std) over all weights, from a and b."""
        shape = self.mean().shape
        of_mean, of_std = (np.full(shape, part, np.float64) for part in (by_mean, by_std))
        return self.pullback(of_mean, _folded(of_std, self.std().shape))

    def by_log_std(self) -> Gradient:
        """Return the gradient of the sum of log sigma, over the sigmas that there are."""
        return self.pullback(np.zeros_like(self.mean()), 1 / self.std())

    def entropy(self) -> Gradient:
        """Return the gradient of H = -sum log sigma, over all weights."""
        return self.along(0.0, -1 / self.spread())

    def second_moment(self) -> Gradient:
        """Return the gradient of C = sum (mean^2 + sigma^2) / 2, over all weights."""
        return self.along(self.mean(), self.spread())

    def reverse(self) -> tuple[Gradient, Gradient]:
        """Return the gradients of sum mean^2 / (2 sigma^2) and sum 1 / (2 sigma^2), the terms of a reverse KL."""
        mean, std = self.mean(), self.spread()
        return self.along(mean / std**2, -(mean**2) / std**3), self.along(0.0, -1 / std**3)

    @cached_property
    def means(self) -> frozenset[str]:
        """Return the names of the trained parameters that the means depend on."""
        return _paths(self.along(1.0, 0.0))

    @cached_property
    def scales(self) -> frozenset[str]:
        """Return the names of the trained parameters that the standard deviations depend on."""
        return _paths(self.along(0.0, 1.0))


def _paths(gradient: Gradient) -> frozenset[str]:
    return frozenset(name for name, slope in gradient.items() if slope.any())


def _folded(values: Array, shape: tuple[int, ...]) -> Array:
    """Return the sums of values over the axes along which an array of this shape was broadcast."""
    folded = np.asarray(values.sum(axis=tuple(range(values.ndim - len(shape)))))
    alike = tuple(i for i, n in enumerate(shape) if n != folded.shape[i])
    return np.asarray(folded.sum(axis=alike, keepdims=True))


def total(gradients: list[Gradient]) -> Gradient:
    """Return the sum of gradients, each by some of the parameters."""
    found: Gradient = {}
    for gradient in gradients:
        for name, part in gradient.items():
            found[name] = found[name] + part if name in found else part
    return found


def same_ratio(one: tuple[Array, Array], other: tuple[Array, Array]) -> bool:
    """Return whether two pairs of arrays of one shape have the same ratio, number by number, and are not all zero."""
    products = one[0] * other[1], one[1] * other[0]
    largest = float(max(np.abs(product).max() for product in products))
    return largest > 0 and float(np.abs(products[0] - products[1]).max()) <= SAME_RATIO * largest


def norm(values: Array) -> float:
    """Return the root of the sum of squares, whatever the axes."""
    return float(np.linalg.norm(values.ravel()))


class Transform(NamedTuple):
    """A function that makes sigma of a parameter, number by number, and its derivative."""

    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]


def _sigmoid(raw: Array) -> Array:
    return np.asarray(np.exp(-np.logaddexp(0.0, -raw)))


TRANSFORMS = {
    "softplus": Transform(lambda raw: np.logaddexp(0.0, raw), _sigmoid),
    "exp": Transform(np.exp, np.exp),
    "exp of half": Transform(lambda raw: np.exp(raw / 2), lambda raw: np.exp(raw / 2) / 2),
    "identity": Transform(lambda raw: raw, np.ones_like),
}


@dataclass(frozen=True)
class Gaussian:
    """Weights whose mean is one parameter and whose standard deviation is a transform of another one."""

    mean: str
    scale: str
    transform: str | Transform = "softplus"
    other: str = ""  # a transform that the name and the numbers of the scale allow too
    may_be_layer: bool = False  # as in `Group`

    def __post_init__(self) -> None:
        if isinstance(self.transform, str) and self.transform not in TRANSFORMS:
            raise unknown_name("transform", self.transform, TRANSFORMS)

    @property
    def name(self) -> str:
        """Return both names."""
        return f"{self.mean}, {self.scale}"

    def group(self, value: Callable[[str], Array], trained: Mapping[str, object]) -> Group:
        """Return the weights as functions of the values of the parameters, some of which are trained."""
        transform = TRANSFORMS[self.transform] if isinstance(self.transform, str) else self.transform

        def pullback(by_mean: Array, by_std: Array) -> Gradient:
            both = [{self.mean: by_mean}, {self.scale: by_std * transform.slope(value(self.scale))}]
            return {name: part for name, part in total(both).items() if name in trained}

        return Group(
            self.name,
            lambda: value(self.mean),
            lambda: transform.value(value(self.scale)),
            pullback,
            self.may_be_layer,
            replace(self, transform=self.other, other="").group(value, trained) if self.other else None,
        )
