"""Least squares for gradients: write a gradient, measured in several draws, as a sum of known directions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from scipy import special
from torch import Tensor

from elbo_audit.objective import Gradient

EXACT = 0.1  # tensors whose noise is below this share of the fitted gradient weigh alike
UNEXPLAINED = 0.05  # of a tensor's gradient: if the directions miss more, it holds something else
SURE = 3.0
"""Jackknife standard errors. If 8 draws have nothing in common, `common` exceeds this less than once in 1,000 times."""


@dataclass(frozen=True)
class MeanOfDraws:
    """A mean over draws, its standard error, and the degrees of freedom that the error comes from."""

    value: float
    error: float
    freedom: float = math.inf

    @classmethod
    def of(cls, values: Sequence[float]) -> MeanOfDraws:
        """Return the mean of one number a draw."""
        if not all(map(math.isfinite, values)):
            return cls(math.nan, math.inf)
        spread = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.inf
        return cls(statistics.fmean(values), spread, max(len(values) - 1, 1))

    def half_width(self, level: float = 0.95) -> float:
        """Return the half-width of the interval of this level, from Student's t."""
        probability = 0.5 + level / 2
        quantile = (
            special.ndtri(probability) if math.isinf(self.freedom) else special.stdtrit(self.freedom, probability)
        )
        return float(quantile) * self.error

    def times(self, factor: float) -> MeanOfDraws:
        """Return a multiple."""
        return MeanOfDraws(factor * self.value, abs(factor) * self.error, self.freedom)

    def plus_error(self, shared: Tensor) -> MeanOfDraws:
        """Return the same value with one more, independent error."""
        return MeanOfDraws(self.value, math.hypot(self.error, float(shared)), self.freedom)

    def sure(self, relative: float = 0.1) -> bool:
        """Return whether the error is small beside the value."""
        return math.isfinite(self.value) and 2 * self.error <= relative * abs(self.value)


def common(draws: Tensor) -> MeanOfDraws:
    """Return the squared length of the vector that draws [D, n] have in common, free of their noise.

    It uses products of different draws only: noise that is independent from draw to draw leaves them zero on average.
    The error is a jackknife's, because the numbers of one draw may share noise.
    """
    n = len(draws)
    if n < 3:
        return MeanOfDraws(math.nan, math.inf)
    total, squares = draws.sum(0), draws.square().sum(1)
    value = float(total @ total - squares.sum()) / (n * (n - 1))
    without = ((total - draws).square().sum(1) - (squares.sum() - squares)) / ((n - 1) * (n - 2))
    return MeanOfDraws(value, math.sqrt((n - 1) * float(without.var(correction=0))))


@dataclass(frozen=True)
class GradientFit:
    """The coefficients of the directions in each draw."""

    draws: Tensor  # [draws, directions]; their mean fits the mean gradient
    doubt: Tensor  # [directions]; standard error that all draws share
    targets: Sequence[Gradient]
    columns: Sequence[Gradient]

    def coefficient(self, index: int) -> MeanOfDraws:
        """Return the coefficient of one direction."""
        return MeanOfDraws.of(self.draws[:, index].tolist()).plus_error(self.doubt[index])

    def ratio(self, above: int, below: int) -> MeanOfDraws:
        """Return one coefficient divided by the other. The standard error accounts for their shared noise."""
        one, other = self.draws[:, above], self.draws[:, below]
        value = float(one.mean() / other.mean())
        spread = MeanOfDraws.of(((one - value * other) / other.mean()).tolist())
        shared = (self.doubt[above] - value * self.doubt[below]) / other.mean()
        return MeanOfDraws(value, spread.error, spread.freedom).plus_error(shared)

    def missed(self, name: str, rounding: float) -> float:
        """Return the share of a tensor's gradient that the directions surely do not explain; else 0.

        Rounding may leave a residual of length `rounding`.
        """
        explained = self.draws @ torch.stack([column[name].flatten() for column in self.columns])  # [draws, n]
        # Subtract from each draw its own fit, not that of the mean: the noise of other tensors moves the mean's fit,
        # which would leave the same residual in every draw.
        rest = common(torch.stack([target[name].flatten() for target in self.targets]) - explained)
        if not rest.value > max(SURE * rest.error, rounding**2):
            return 0.0
        share = math.sqrt(rest.value) / math.hypot(math.sqrt(rest.value), float(explained.mean(0).norm()))
        return share if share > UNEXPLAINED else 0.0


def fit(targets: Sequence[Gradient], columns: Sequence[Gradient], doubt: Gradient | None = None) -> GradientFit:
    """Return the coefficients of `columns` in the draws' gradients. The weight of a tensor is the inverse of its noise.

    The noise is the spread of the draws, not the residual of their mean: weights from the residual would depend on the
    error of the mean, and the standard errors would be wrong. For the same reason all draws have the same weights.

    Args:
        targets: the gradient in each draw.
        columns: the directions.
        doubt: the standard error that all targets share, such as that of the NLL's weight.
    """
    names = list(targets[0])
    if not names:
        unknown = torch.full((len(targets), len(columns)), math.nan, dtype=torch.float64)
        return GradientFit(unknown, unknown[0], targets, columns)
    drawn = {name: torch.stack([target[name] for target in targets]) for name in names}
    mean = {name: draws.mean(0) for name, draws in drawn.items()}
    noise = {name: _rms(draws - mean[name]) / math.sqrt(max(len(targets) - 1, 1)) for name, draws in drawn.items()}
    least = {name: 1e-9 * sum(_rms(column[name]) for column in columns) + 1e-300 for name in names}
    scale = {name: noise[name] + EXACT * _rms(mean[name]) + least[name] for name in names}
    solution = _solve([mean], columns, scale)[0]
    # A tensor without noise must not outweigh all others: if the loss leaves out its KL, it fits 0 exactly.
    scale = {name: noise[name] + EXACT * _rms(_combined(columns, solution, name)) + least[name] for name in names}
    shared = torch.zeros(len(columns)) if doubt is None else _solve([doubt], columns, scale)[0]
    return GradientFit(_solve(targets, columns, scale), shared, targets, columns)


def fit_drawn(targets: Sequence[Gradient], columns: Sequence[Gradient]) -> GradientFit:
    """Return the coefficient of one direction that is itself drawn: `columns[i]` has the noise of `targets[i]`.

    Least squares would make the coefficient too small, because the noise makes the direction too long. Products of
    different draws do not have this fault. Where target and direction have the same noise, as a sampled KL and
    log q - log p of the same draw, the coefficient is exact. The draws of the fit are the pseudo-values of a jackknife.
    """
    n, names = len(targets), list(targets[0])
    rows = {name: torch.stack([target[name].flatten() for target in targets]) for name in names}
    drawn = {name: torch.stack([column[name].flatten() for column in columns]) for name in names}
    scale = {
        name: (_rms(rows[name] - rows[name].mean(0)) + _rms(drawn[name] - drawn[name].mean(0))) / math.sqrt(n - 1)
        + EXACT * _rms(drawn[name].mean(0))
        + 1e-300
        for name in names
    }
    one, other = (torch.cat([part[name] / scale[name] for name in names], 1) for part in (rows, drawn))
    above, below = one @ other.T, other @ other.T  # [draws, draws], of which the diagonal is left out
    above, below = above - above.diagonal().diag(), below - below.diagonal().diag()
    without = (above.sum() - above.sum(0) - above.sum(1)) / (below.sum() - 2 * below.sum(0))
    pseudo = n * above.sum() / below.sum() - (n - 1) * without
    return GradientFit(pseudo[:, None], torch.zeros(1, dtype=torch.float64), targets, columns[:1])


def _solve(targets: Sequence[Gradient], columns: Sequence[Gradient], scale: Mapping[str, float]) -> Tensor:
    """Return the coefficients [targets, columns] for given scales of the tensors."""
    gram = torch.zeros(len(columns), len(columns), dtype=torch.float64)
    right = torch.zeros(len(columns), len(targets), dtype=torch.float64)
    for name, size in scale.items():
        rows = torch.stack([column[name].flatten() for column in columns]) / size
        gram += rows @ rows.T
        right += rows @ (torch.stack([target[name].flatten() for target in targets]) / size).T
    norm = gram.diagonal().clamp(min=1e-300).sqrt()  # the lengths of the directions differ by many powers of ten
    inverse: Tensor = torch.linalg.pinv(gram / norm.outer(norm), rtol=1e-12, hermitian=True)
    return (inverse @ (right / norm[:, None]) / norm[:, None]).T


def _combined(columns: Sequence[Gradient], solution: Tensor, name: str) -> Tensor:
    return sum((k * column[name] for k, column in zip(solution, columns, strict=True)), torch.zeros(()))


def _rms(values: Tensor) -> float:
    return float(values.square().mean().sqrt())
