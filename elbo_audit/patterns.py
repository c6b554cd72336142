"""Which mistake explains the measured weights of the KL, and what should the user do?"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from elbo_audit.findings import Advice
from elbo_audit.kl_weight import KlWeight, TensorWeight, is_missing
from elbo_audit.least_squares import MeanOfDraws

TOLERANCE = 0.05  # of the KL's weight, and of the prior's standard deviation
ALIKE = 0.1  # of a weight, or of a prior's width: groups that differ by less are not called different
RARE = 0.001  # chance that noise alone puts one of the groups outside its interval
NEAR = 0.002  # largest relative distance from the weight that a known mistake gives, beside the error of the weight
VAGUE = 0.1  # a weight whose interval is wider than this share of it could be that of several mistakes
SHORT = 0.01  # of a standard deviation: numbers of two digits are apart by at least this
MEAN = 0.02  # as `NEAR`, for a mean over tensors: each tensor's weight has an error of its own
ENTROPY = "the entropy, the sum of log sigma,"


class Setting(NamedTuple):
    """What the weight of the KL in an epoch depends on."""

    n_train: int
    batch_size: int
    data_weight: float  # of the batch's summed NLL in the loss: 1 for a sum, 1 / B for a mean over rows
    n_batches: float = 0.0  # of an epoch, if it is known
    reference: float | None = None  # 1 / variance of the prior that is meant; None if unknown
    plates: tuple[str, ...] = ()  # as in `Objective`

    @property
    def steps(self) -> float:
        """Return the number of batches in an epoch; N / B if it is not known."""
        return self.n_batches or self.n_train / self.batch_size

    @property
    def is_mean(self) -> bool:
        """Return whether the loss is a mean over the rows."""
        return self.batch_size > 1 and _near(self.data_weight * self.batch_size, 1.0, MEAN)

    @property
    def is_sum(self) -> bool:
        """Return whether the loss is a sum over the rows."""
        return abs(self.data_weight - 1) <= TOLERANCE


def cause_of(tensor: TensorWeight, reference: float | None) -> str:
    """Return what is wrong where a weight is not 1: "missing" (the KL), "entropy", or "weight" (of the whole KL).

    The entropy alone is wrong if it is missing though a prior pulls, or if the prior pulls once, as is meant.
    """
    if is_missing(tensor.per_epoch):
        return "missing" if tensor.pull is None or is_missing(tensor.pull) else "entropy"
    if tensor.pull is None or is_one(tensor.per_epoch):
        return "weight"
    if reference is None:
        return "entropy" if _is_log_of_square(tensor) else "weight"
    pull = tensor.pull.times(1 / reference)
    return "entropy" if is_one(pull, 2 * TOLERANCE) and pull.sure(4 * TOLERANCE) else "weight"


def _is_log_of_square(tensor: TensorWeight) -> bool:
    """Return whether log sigma seems to stand where log sigma^2 is meant, or the reverse.

    The entropy then counts 1/2 or 2 times, and the pull alone gives the prior that is meant. People write priors with
    few digits, and the standard deviation of a whole KL that counts 1/2 or 2 times differs from it by the root of 2.
    """
    weight = tensor.per_epoch
    if not any(abs(weight.value - other) <= 2 * weight.error + NEAR * other for other in (0.5, 2.0)):
        return False
    alone, whole = (root(part or MeanOfDraws(math.nan, math.inf)) for part in (tensor.pull, tensor.precision))
    return alone.sure(SHORT) and whole.sure(SHORT) and _is_short(alone) and not _is_short(whole)


def _is_short(std: MeanOfDraws) -> bool:
    """Return whether a standard deviation may be a number of at most two digits, given its error."""
    return abs(std.value - float(f"{std.value:.2g}")) <= 2 * std.error


def root(precision: MeanOfDraws) -> MeanOfDraws:
    """Return the standard deviation that belongs to a precision; NaN unless the precision is positive."""
    if not precision.value > 0:
        return MeanOfDraws(math.nan, math.inf)
    std = precision.value**-0.5
    return MeanOfDraws(std, std * precision.error / precision.value / 2, precision.freedom)


def is_one(weight: MeanOfDraws, tolerance: float = TOLERANCE) -> bool:
    """Return whether a weight may be 1, given its error."""
    return abs(weight.value - 1) <= tolerance + 2 * weight.error


def advice(tensors: Sequence[TensorWeight], common: TensorWeight | None, setting: Setting) -> tuple[str, Advice]:
    """Say which mistake makes these weights, and what to do; `common` is all groups as one, if they weigh alike."""
    if common is not None:
        cause = cause_of(common, setting.reference)
        if cause != "weight":
            return _of_part(cause, ["all"], [common], setting)
        low, high = interval(common.per_epoch)
        between = tuple(sorted((abs(1 / low), abs(1 / high)))) if low * high > 0 else ()
        text = _of_one_weight(common.per_epoch, tensors, setting)
        return text, Advice(cause, "KL", {"all": 1 / abs(common.per_epoch.value)}, interval=between)
    causes = {tensor.name: cause_of(tensor, setting.reference) for tensor in tensors}
    for cause in ("missing", "entropy"):
        hit = [tensor for tensor in tensors if causes[tensor.name] == cause]
        if hit:
            return _of_part(cause, [tensor.name for tensor in hit], hit, setting)
    multiply = {tensor.name: 1 / abs(tensor.per_epoch.value) for tensor in tensors}
    return _of_unlike_weights(tensors, setting), Advice("weight", "KL", multiply)


def _of_part(cause: str, names: list[str], tensors: Sequence[TensorWeight], setting: Setting) -> tuple[str, Advice]:
    """Say that the KL is missing, or that the entropy counts too often, too rarely or not at all."""
    step = setting.data_weight / setting.steps
    of = "" if names == ["all"] else f" of {', '.join(names)}"
    if cause == "missing":
        return f"the KL{of} is missing: add it to the loss", Advice(cause, "KL", {}, dict.fromkeys(names, step))
    absent = [name for name, t in zip(names, tensors, strict=True) if is_missing(t.per_epoch)]
    if absent:
        text = f"a prior pulls, but {ENTROPY}{of} is missing; subtract it from the loss"
        return text, Advice(cause, "entropy", {}, dict.fromkeys(absent, step))
    factors = {name: 1 / tensor.per_epoch.value for name, tensor in zip(names, tensors, strict=True)}
    shown = ", ".join(f"{tensor.per_epoch.value:.4g}" for tensor in tensors)
    by = ", ".join(f"{factor:.4g}" for factor in factors.values())
    text = f"{ENTROPY}{of} counts {shown} times in an epoch, the prior's pull once"
    if setting.reference is None:
        first = tensors[0]
        alone, whole = (root(part or MeanOfDraws(math.nan, math.inf)).value for part in (first.pull, first.precision))
        text += f" if its standard deviation is {alone:.3g} (log sigma for log sigma^2, or the reverse?)"
        other = f"if {whole:.3g} is meant, multiply the whole KL by it; give prior_std= to be sure"
    else:
        other = "no factor of the whole KL mends it"
    text += f": multiply the entropy by {by}; {other}"
    return text, Advice(cause, "entropy", factors)


def _of_unlike_weights(tensors: Sequence[TensorWeight], setting: Setting) -> str:
    for part, sizes in _sizes(tensors).items():
        sums = [abs(tensor.per_epoch.value) * n for tensor, n in zip(tensors, sizes, strict=True)]
        if len(set(sizes)) > 1 and all(_near(value, sums[0], MEAN) for value in sums):
            text = f"each weight is in inverse proportion to a size: the KL is a mean over each {part}; sum it"
            own = MeanOfDraws(sums[0], MEAN * sums[0] / 2)
            after = "" if is_one(own) else f"; after that: {_of_one_weight(own, (), setting)}"
            return f"{text}{after}"
    odd = [tensor for tensor in tensors if not is_one(tensor.per_epoch)]
    if 2 * len(odd) <= len(tensors):
        shown = " and of ".join(f"{tensor.name} by {1 / tensor.per_epoch.value:.3g}" for tensor in odd)
        return f"multiply the KL of {shown}: the others count once"
    shown = ", ".join(f"{tensor.name} by {1 / tensor.per_epoch.value:.3g}" for tensor in tensors[:12])
    return f"let every tensor's KL count once: multiply {shown}{' and so on' if len(tensors) > 12 else ''}"


def _sizes(tensors: Sequence[TensorWeight]) -> dict[str, list[int]]:
    """Return the number of weights in each tensor, and in its layer (the name up to the last dot).

    With kl= a tensor may be a mean or a scale alone, so that the weights of a layer cannot be counted.
    """
    sizes = {"tensor": [tensor.n for tensor in tensors]}
    if all(tensor.precision is not None for tensor in tensors):
        layers = [tensor.name.split(",")[0].rpartition(".")[0] for tensor in tensors]
        of = Counter[str]()
        for layer, tensor in zip(layers, tensors, strict=True):
            of[layer] += tensor.n
        sizes["layer (weights and bias together)"] = [of[layer] for layer in layers]
    return sizes


def _of_one_weight(weight: MeanOfDraws, tensors: Sequence[TensorWeight], setting: Setting) -> str:
    """Say which mistake makes the weight that all tensors have in common; a number, if none fits within its error."""
    value, margin = abs(weight.value), weight.half_width()
    n_weights = sum(tensor.n for tensor in tensors)
    if margin <= VAGUE * value:
        for other, text in _mistakes(n_weights, setting):
            if abs(value - other) <= margin + NEAR * other:
                return text
        for part, sizes in _sizes(tensors).items():
            for other, right in _divided(setting):
                if max(sizes, default=n_weights) < n_weights and all(
                    _near(abs(tensor.per_epoch.value) * n, other, MEAN)
                    for tensor, n in zip(tensors, sizes, strict=True)
                ):
                    return f"the KL is a mean over each {part}: sum it, and weigh it by {right}"
    return (
        f"multiply the KL by {1 / value:.4g}: it is weighed as if there were {setting.n_train / value:,.0f} "
        "training rows; if a warm-up or a temperature is meant, audit with its last value"
    )


def _mistakes(n_weights: int, setting: Setting) -> Iterator[tuple[float, str]]:
    """Yield the weight that each known mistake gives, and the advice. The first that fits is named."""
    n, batch, exact = setting.n_train, setting.batch_size, setting.steps
    by_n = f"the loss is a mean over rows, so divide by N = {n:,}"
    by_steps = f"divide by the number of batches, {exact:.6g}"
    for steps in (exact, math.ceil(exact), math.floor(exact)):
        if setting.is_mean:
            yield float(n), f"N is forgotten: the loss is a mean over rows, so divide the KL by N = {n:,}"
            yield n / batch, f"the KL is divided by the batch size: {by_n}"
            yield n / steps, f"the KL is divided by the number of batches: {by_n}"
            yield 1 / steps, f"the KL is divided by N and by the number of batches: divide by N = {n:,} alone"
            yield 1 / batch, f"the KL is divided by N and by the batch size: divide by N = {n:,} alone"
        elif setting.is_sum:
            yield exact, f"every batch pays the whole KL: {_to_all_rows(setting)}"
            yield exact / n, f"the KL is divided by N, but the loss is a sum: {by_steps}"
            yield exact / steps**2, "the KL is divided by the number of batches twice: divide once"
            yield exact / batch, f"the KL is divided by the batch size: the loss is a sum, so {by_steps}"
    if n_weights > 1 and (setting.is_mean or setting.is_sum):
        for value, right in _divided(setting):
            yield value / n_weights, f"the KL is divided by the {n_weights:,} weights: sum it, and weigh it by {right}"


def _to_all_rows(setting: Setting) -> str:
    """Say how the KL of each batch is weighed right: in a model of sites, by the weight of the likelihood."""
    if not setting.plates:
        return f"divide it by the number of batches, {setting.steps:.6g}"
    plate, scale = setting.plates
    n, rows = setting.n_train, setting.batch_size
    return f'put the observed site in {plate}("data", {n}, subsample_size={rows}), or in {scale}(scale={n / rows:.6g})'


def _divided(setting: Setting) -> list[tuple[float, str]]:
    """Return how often a KL counts, times the number of weights that divides it, and how to weigh it once summed."""
    right = "1 / N" if setting.is_mean else "1 / M"
    return [(1.0, "what you do"), *((float(n), right) for n in (setting.steps, setting.n_train, setting.batch_size))]


def interval(weight: MeanOfDraws) -> tuple[float, float]:
    """Return the 95 % interval of a weight."""
    return weight.value - weight.half_width(), weight.value + weight.half_width()


def known(found: KlWeight) -> list[TensorWeight]:
    """Return the groups whose weight is known well enough to compare. A weight that is surely near 0 is known too."""
    pairs = [(t, t.per_epoch) for t in found.tensors]
    return [t for t, weight in pairs if weight.sure() or (is_missing(weight) and weight.error < ALIKE)]


def differ(values: Sequence[MeanOfDraws]) -> bool:
    """Return whether two of the values differ by more than their errors and by more than `ALIKE`."""
    level = 1 - RARE / max(len(values), 1)
    return any(
        abs(one.value - other.value) > one.half_width(level) + other.half_width(level)
        and abs(one.value - other.value) > ALIKE * max(abs(one.value), abs(other.value))
        for one, other in itertools.combinations(values, 2)
    )


def unlike(found: KlWeight) -> bool:
    """Return whether the known weights of the groups differ."""
    return differ([tensor.per_epoch for tensor in known(found)])


def in_words(weight: MeanOfDraws) -> str:
    """Return a weight with its 95 % interval, in as many digits as tell the interval's ends apart."""
    relative = weight.half_width() / max(abs(weight.value), 1e-300)
    digits = 4 if not 0 < relative < 1 else min(max(2 - math.floor(math.log10(relative)), 4), 6)
    low, high = (f"{end:.{digits}g}" for end in interval(weight))
    return f"{weight.value:.{digits}g} times in an epoch (95 % interval {low} to {high})"


def _near(value: float, other: float, near: float) -> bool:
    return other > 0 and abs(math.log(max(value, 1e-300) / other)) < near
