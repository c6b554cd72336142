"""A gradient that several draws measured, as a sum of known directions: least squares, its error and what it misses."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bench.judge.audit.objective import Gradient

REWEIGHTED = 4  # rounds of least squares
EXACT = 0.1  # residuals below this share of the fit weigh alike
UNEXPLAINED = 0.05  # of a tensor's gradient: more that no direction explains is something else
SURE = 3.0
"""Jackknife standard errors: at 8 draws fewer than one in 1,000 vectors that have nothing in common is longer."""


@dataclass(frozen=True)
class Estimate:
    """A mean over draws and its standard error."""

    value: float
    error: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """Return the mean of draws."""
        if not all(map(math.isfinite, values)):
            return cls(math.nan, math.inf)
        spread = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.inf
        return cls(statistics.fmean(values), spread)

    def sure(self, relative: float = 0.1) -> bool:
        """Return whether the error is small beside the value."""
        return math.isfinite(self.value) and 2 * self.error <= relative * abs(self.value)


def common(draws: Tensor) -> Estimate:
    """Return the squared length of the vector that draws [D, n] have in common, free of their noise.

    Products of different draws only: noise that is independent from draw to draw leaves them zero on average. The error
    is a jackknife's, so that noise which the numbers of a draw share counts too.
    """
    n = len(draws)
    if n < 3:
        return Estimate(math.nan, math.inf)
    total, squares = draws.sum(0), draws.square().sum(1)
    value = float(total @ total - squares.sum()) / (n * (n - 1))
    without = ((total - draws).square().sum(1) - (squares.sum() - squares)) / ((n - 1) * (n - 2))
    return Estimate(value, math.sqrt((n - 1) * float(without.var(correction=0))))


@dataclass(frozen=True)
class Fit:
    """Coefficients of the directions: one row a draw, whose mean fits the mean gradient."""

    draws: Tensor  # [draws, directions]
    doubt: Tensor  # [directions], of a standard error that all draws share
    targets: Sequence[Gradient]
    columns: Sequence[Gradient]

    def coefficient(self, index: int) -> Estimate:
        """Return the coefficient of one direction."""
        return _with(Estimate.of(self.draws[:, index].tolist()), self.doubt[index])

    def ratio(self, above: int, below: int) -> Estimate:
        """Return one coefficient over another; where both share noise, the error knows."""
        one, other = self.draws[:, above], self.draws[:, below]
        value = float(one.mean() / other.mean())
        error = Estimate.of(((one - value * other) / other.mean()).tolist()).error
        return _with(Estimate(value, error), (self.doubt[above] - value * self.doubt[below]) / other.mean())

    def missed(self, name: str, rounding: float) -> float:
        """Return the share of a tensor's gradient that the directions surely do not explain; else 0.

        Args:
            name: of the tensor.
            rounding: length of a residual that rounding may leave.
        """
        explained = self.draws @ torch.stack([column[name].flatten() for column in self.columns])  # [draws, n]
        # Each draw less its own fit: the error of the mean's, which other tensors' noise makes, is in all draws alike.
        rest = common(torch.stack([target[name].flatten() for target in self.targets]) - explained)
        if not rest.value > max(SURE * rest.error, rounding**2):
            return 0.0
        share = math.sqrt(rest.value) / math.hypot(math.sqrt(rest.value), float(explained.mean(0).norm()))
        return share if share > UNEXPLAINED else 0.0


def _with(estimate: Estimate, doubt: Tensor) -> Estimate:
    return Estimate(estimate.value, math.hypot(estimate.error, float(doubt)))


def fit(targets: Sequence[Gradient], columns: Sequence[Gradient], doubt: Gradient | None = None) -> Fit:
    """Return the coefficients of `columns` in the draws' gradients; each tensor weighs by the inverse of its residual.

    The weights are those of the mean over draws, for all draws alike: weights of its own would tie a draw's
    coefficients to its noise.

    Args:
        targets: the gradient in each draw.
        columns: the directions.
        doubt: a standard error of all targets alike, such as that of the NLL's weight.
    """
    names = list(targets[0])
    if not names:
        unknown = torch.full((len(targets), len(columns)), math.nan, dtype=torch.float64)
        return Fit(unknown, unknown[0], targets, columns)
    mean = {name: torch.stack([target[name] for target in targets]).mean(0) for name in names}
    scale = {name: sum(_rms(column[name]) for column in columns) + 1e-300 for name in names}
    solution = _solve([mean], columns, scale)[0]
    # A tensor that fits exactly must not outweigh all others: one whose KL is left out fits 0 exactly.
    floor = {name: EXACT * _rms(_combined(columns, solution, name)) + 1e-9 * scale[name] for name in names}
    for _ in range(REWEIGHTED):
        scale = {n: _rms(mean[n] - _combined(columns, solution, n)) + floor[n] for n in names}
        solution = _solve([mean], columns, scale)[0]
    shared = torch.zeros(len(columns)) if doubt is None else _solve([doubt], columns, scale)[0]
    return Fit(_solve(targets, columns, scale), shared, targets, columns)


def _solve(targets: Sequence[Gradient], columns: Sequence[Gradient], scale: Mapping[str, float]) -> Tensor:
    """Return the coefficients [targets, columns] for given scales of the tensors."""
    gram = torch.zeros(len(columns), len(columns), dtype=torch.float64)
    right = torch.zeros(len(columns), len(targets), dtype=torch.float64)
    for name, size in scale.items():
        rows = torch.stack([column[name].flatten() for column in columns]) / size
        gram += rows @ rows.T
        right += rows @ (torch.stack([target[name].flatten() for target in targets]) / size).T
    norm = gram.diagonal().clamp(min=1e-300).sqrt()  # the two directions differ by many powers of ten
    inverse: Tensor = torch.linalg.pinv(gram / norm.outer(norm), rtol=1e-12, hermitian=True)
    return (inverse @ (right / norm[:, None]) / norm[:, None]).T


def _combined(columns: Sequence[Gradient], solution: Tensor, name: str) -> Tensor:
    return sum((k * column[name] for k, column in zip(solution, columns, strict=True)), torch.zeros(()))


def _rms(values: Tensor) -> float:
    return float(values.square().mean().sqrt())
