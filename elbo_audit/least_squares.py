"""Least squares for gradients: write a gradient, measured in several draws, as a sum of known directions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from elbo_audit.factors import Array, Gradient

EXACT = 0.1  # tensors whose noise is below this share of the fitted gradient weigh alike
UNEXPLAINED = 0.05  # of a tensor's gradient: if the directions miss more, it holds something else
CHANGES = 0.05  # of the KL's weight: batches whose weights differ by less have the same weight
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
        return students_t(level, self.freedom) * self.error

    def times(self, factor: float) -> MeanOfDraws:
        """Return a multiple."""
        return MeanOfDraws(factor * self.value, abs(factor) * self.error, self.freedom)

    def plus_error(self, shared: float) -> MeanOfDraws:
        """Return the same value with one more, independent error."""
        return MeanOfDraws(self.value, math.hypot(self.error, shared), self.freedom)

    def sure(self, relative: float = 0.1) -> bool:
        """Return whether the error is small beside the value."""
        return math.isfinite(self.value) and 2 * self.error <= relative * abs(self.value)


@cache
def students_t(level: float, freedom: float) -> float:
    """Return the t that holds a share `level` of Student's distribution between -t and t; infinite `freedom`: normal.

    With t = sqrt(freedom) tan(angle), the angle's density is in proportion to cos(angle)^(freedom - 1), which is summed
    on a grid. A step of 1e-5 leaves about eight digits of t.
    """
    if math.isinf(freedom):
        return statistics.NormalDist().inv_cdf(0.5 + level / 2)
    angles = np.linspace(0.0, math.pi / 2, 100_001)
    density = np.cos(angles) ** (freedom - 1)
    shares = np.append(0.0, np.cumsum(density[1:] + density[:-1]))
    return math.sqrt(freedom) * math.tan(float(np.interp(level, shares / shares[-1], angles)))


def common(draws: Array) -> MeanOfDraws:
    """Return the squared length of what draws [D, ...] have in common: products of different draws are free of noise.

    The error is a jackknife's, because the numbers of one draw may share noise.
    """
    n = len(draws)
    if n < 3:
        return MeanOfDraws(math.nan, math.inf)
    draws = draws.reshape(n, -1)
    total, squares = draws.sum(0), np.square(draws).sum(1)
    value = float(total @ total - squares.sum()) / (n * (n - 1))
    without = (np.square(total - draws).sum(1) - (squares.sum() - squares)) / ((n - 1) * (n - 2))
    return MeanOfDraws(value, math.sqrt((n - 1) * float(without.var())))


@dataclass(frozen=True)
class GradientFit:
    """The coefficients of the directions in each draw."""

    draws: Array  # [draws, directions]; their mean fits the mean gradient
    doubt: Array  # [directions]; standard error that all draws share
    targets: Sequence[Gradient]
    columns: Sequence[Gradient]  # the directions; () if they are drawn
    drawn: Sequence[Sequence[Gradient]] = ()  # each direction in each draw

    def coefficient(self, index: int) -> MeanOfDraws:
        """Return the coefficient of one direction."""
        return MeanOfDraws.of(self.draws[:, index].tolist()).plus_error(float(self.doubt[index]))

    def ratio(self, above: int, below: int) -> MeanOfDraws:
        """Return one coefficient divided by the other. The standard error accounts for their shared noise."""
        one, other = self.draws[:, above], self.draws[:, below]
        divisor = float(other.mean())
        if not divisor or not math.isfinite(divisor):
            return MeanOfDraws(math.nan, math.inf)
        value = float(one.mean()) / divisor
        spread = MeanOfDraws.of(((one - value * other) / divisor).tolist())
        shared = (self.doubt[above] - value * self.doubt[below]) / divisor
        return MeanOfDraws(value, spread.error, spread.freedom).plus_error(float(shared))

    def left(self) -> MeanOfDraws:
        """Return the squared length of what the directions leave of the gradients, free of noise."""
        rows = [
            (_rows(self.targets, name), _rows(self.columns, name, self.targets[0][name].size))
            for name in self.targets[0]
        ]
        return common(np.concatenate([one - self.draws @ other for one, other in rows], 1))

    def missed(self, name: str, rounding: float) -> float:
        """Return the share of a tensor's gradient, above its `rounding`, that the directions surely do not explain."""
        size, doubt = self.targets[0][name].size, 0.0
        if not self.drawn:
            # Subtract from each draw its own fit, not that of the mean: the noise of other tensors moves the mean's
            # fit, which would leave the same residual in every draw.
            explained = self.draws @ _rows(self.columns, name, size)  # [draws, n]
        else:  # a draw's pseudo-value is no fit of its own
            each = np.stack([_rows(column, name, size) for column in self.drawn])
            found = [self.coefficient(index) for index in range(len(each))]
            explained = np.tensordot([one.value for one in found], each, 1)
            doubt = SURE * max(one.error / max(abs(one.value), 1e-300) for one in found)
        rest = common(_rows(self.targets, name) - explained)
        if not rest.value > max(SURE * rest.error, rounding**2):
            return 0.0
        length = math.sqrt(max(common(explained).value, 0.0)) if doubt else float(np.linalg.norm(explained.mean(0)))
        share = math.sqrt(rest.value) / math.hypot(math.sqrt(rest.value), length)
        return share if share > max(UNEXPLAINED, doubt) else 0.0


def fit(targets: Sequence[Gradient], columns: Sequence[Gradient], doubt: Gradient | None = None) -> GradientFit:
    """Return the coefficients of `columns` in the draws' gradients. The weight of a tensor is the inverse of its noise.

    The noise is the spread of the draws, not the residual of their mean: weights from the residual would depend on the
    error of the mean, and the standard errors would be wrong. `doubt` is the standard error that all targets share.
    """
    names = list(targets[0])
    if not names:
        unknown = np.full((len(targets), len(columns)), math.nan)
        return GradientFit(unknown, unknown[0], targets, columns)
    mean, noise = {}, {}
    for name in names:
        drawn = _rows(targets, name)
        mean[name] = drawn.mean(0)
        noise[name] = _rms(drawn - mean[name]) / math.sqrt(max(len(targets) - 1, 1))
    least = {name: 1e-9 * sum(_rms(column[name]) for column in columns if name in column) + 1e-300 for name in names}
    scale = {name: noise[name] + EXACT * _rms(mean[name]) + least[name] for name in names}
    solution = _solve([mean], columns, scale)[0]
    # A tensor without noise must not outweigh all others: if the loss leaves out its KL, it fits 0 exactly.
    fitted = {name: _rms(solution @ _rows(columns, name, mean[name].size)) for name in names}
    scale = {name: noise[name] + EXACT * fitted[name] + least[name] for name in names}
    shared = np.zeros(len(columns)) if doubt is None else _solve([doubt], columns, scale)[0]
    return GradientFit(_solve(targets, columns, scale), shared, targets, columns)


def fit_drawn(targets: Sequence[Gradient], columns: Sequence[Sequence[Gradient]]) -> GradientFit:
    """Return the coefficients of directions that are themselves drawn: `columns[k][i]` has the noise of `targets[i]`.

    Least squares would make a coefficient too small, because the noise makes the direction too long; products of
    different draws do not have this fault. The draws of the fit are the pseudo-values of a jackknife.
    """
    n, k = len(targets), len(columns)
    above, below = np.zeros((k, n, n)), np.zeros((k, k, n, n))  # products of draws; the diagonal is left out
    for name, first in targets[0].items():
        one = _rows(targets, name)
        others = np.stack([_rows(column, name, first.size) for column in columns])
        noise = _rms(one - one.mean(0)) + _rms(others - others.mean(1, keepdims=True))
        scale = noise / math.sqrt(n - 1) + EXACT * _rms(others.mean(1)) + 1e-300
        one, others = one / scale, others / scale
        above += others @ one.T
        below += np.tensordot(others, others, (2, 2)).transpose(0, 2, 1, 3)
    for products in (above, below):
        products[..., range(n), range(n)] = 0.0
    right, gram = (
        np.stack([whole, *(whole[..., None] - each.sum(-1) - each.sum(-2)).transpose(-1, *range(each.ndim - 2))])
        for each, whole in ((part, part.sum((-2, -1))) for part in (above, below))
    )
    norm = np.sqrt(np.abs(gram[0].diagonal())) + 1e-300
    inverse = np.linalg.pinv(gram / np.outer(norm, norm))
    solved = (inverse @ (right / norm)[..., None])[..., 0] / norm  # of all draws, then without each
    return GradientFit(n * solved[0] - (n - 1) * solved[1:], np.zeros(k), targets, (), columns)


def over_batches(found: GradientFit, scale: float, n_batches: int) -> tuple[MeanOfDraws, Sequence[float]]:
    """Return the weight in an epoch, and each batch's weight if batches differ by more than their noise; else ()."""
    weight = found.coefficient(0).times(scale)
    draws = (found.draws[:, 0] * scale).tolist()
    groups = [draws[index::n_batches] for index in range(n_batches) if draws[index::n_batches]]
    freedom = len(draws) - len(groups)
    if freedom < 1 or not all(map(math.isfinite, draws)):
        return weight, ()
    means = [sum(group) / len(group) for group in groups]
    within = sum((value - mean) ** 2 for group, mean in zip(groups, means, strict=True) for value in group) / freedom
    critical = MeanOfDraws(0.0, math.sqrt(within), freedom).half_width(1 - 0.001 / len(groups))
    middle = sum(means) / len(means)
    gap = max(abs(mean - middle) for mean in means)
    if gap <= critical or gap <= CHANGES * abs(middle):
        return weight, ()
    error = math.sqrt(within * sum(1 / len(group) for group in groups)) / len(groups)
    return MeanOfDraws(middle, error, freedom).plus_error(float(found.doubt[0]) * scale), means


def _solve(targets: Sequence[Gradient], columns: Sequence[Gradient], scale: Mapping[str, float]) -> Array:
    """Return the coefficients [targets, columns] for given scales of the tensors."""
    gram = np.zeros((len(columns), len(columns)))
    right = np.zeros((len(columns), len(targets)))
    for name, size in scale.items():
        drawn = _rows(targets, name) / size
        rows = _rows(columns, name, drawn.shape[1]) / size
        gram += rows @ rows.T
        right += rows @ drawn.T
    norm = np.sqrt(np.maximum(gram.diagonal(), 1e-300))  # the lengths of the directions differ by many powers of ten
    inverse = np.linalg.pinv(gram / np.outer(norm, norm), rcond=1e-12, hermitian=True)
    return np.asarray((inverse @ (right / norm[:, None]) / norm[:, None]).T)


def _rows(gradients: Sequence[Gradient], name: str, size: int = 0) -> Array:
    """Return a parameter's part of each gradient [gradients, n]; zeros of this size where a gradient has none."""
    return np.stack([gradient[name].ravel() if name in gradient else np.zeros(size) for gradient in gradients])


def _rms(values: Array) -> float:
    return math.sqrt(float(np.square(values).mean()))
