"""Which parameters are mean and standard deviation of the same weights? By their names, or by their gradients."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Sized

from elbo_audit.factors import Array, Factor, Gaussian, norm, same_ratio
from elbo_audit.gradients import nudges
from elbo_audit.likelihood import DataWeight
from elbo_audit.objective import Case, Objective
from elbo_audit.weighing import shared_error

FEW = 4  # numbers of a parameter: the gradients of fewer may agree by chance
SEEN = 0.1  # of what the entropy's gradient would be: how much of it may be lost in rounding

_MEANS = r"mu|mean|loc|locs"
_POSITIVE = ("sigma", "std", "scale", "scales")  # taken as they are, if all their numbers are positive
_SCALES = {  # the name of the transform that makes sigma
    "rho": "softplus",
    **dict.fromkeys(("log_sigma", "log_std", "log_scale", "logsigma", "logstd", "logscale"), "exp"),
    **dict.fromkeys(("logvar", "log_var"), "exp of half"),
    **dict.fromkeys(_POSITIVE, "softplus"),
    "untransformed_scale": "softplus",  # of TensorFlow Probability
}
_ALL = "|".join((_MEANS, *_SCALES))
_AUTOGUIDE = ("locs", "scales")  # Pyro's guides append the site's name, which may hold any of the other words


def _word(words: str, name: str) -> re.Match[str] | None:
    """Return the last word for a mean or a scale in a name, if it is one of `words`; None for a prior's name."""
    if any(part.startswith("prior") for part in re.split(r"[._/]", name)):
        return None
    hits = [*re.finditer(rf"(?:^|(?<=[._/]))(?:{_ALL})(?=$|[._/])", name)]
    last = next((hit for hit in hits if hit.group() in _AUTOGUIDE), hits[-1] if hits else None)
    return last if last and re.fullmatch(words, last.group()) else None


def _is_a_layer(hit: re.Match[str]) -> bool:
    """Return whether the word names a layer that makes an output, as in `fc_mu.weight` and `mu_head.0.bias`."""
    return bool(re.fullmatch(r"(_.*)?\.(weight|bias)", hit.string[hit.end() :])) and hit.group() not in _AUTOGUIDE


def gaussians(values: Mapping[str, Array], trained: Collection[str]) -> list[Gaussian]:
    """Pair means and scales by their names: `fc1.weight_mu` with `fc1.weight_rho`, `mu_kernel` with `rho_kernel`.

    A sigma, std or scale is taken as it is; where one of its numbers is not positive, as softplus's argument or as a
    logarithm. Pairs of which nothing is `trained` are left out.
    """
    found = []
    for name, value in values.items():
        hit = _word(_MEANS, name)
        if hit is None or _is_a_layer(hit):
            continue
        for word in _SCALES:
            scale = name[: hit.start()] + word + name[hit.end() :]
            if scale not in values or not _fits(values[scale].shape, value.shape):
                continue
            if name in trained or scale in trained:  # else such as the mean and std of the inputs
                may_be_layer = hit.group() not in _AUTOGUIDE and name.endswith((".weight", ".bias"))
                found.append(Gaussian(name, scale, *_readings(word, values[scale]), may_be_layer))
            break
    return found


def case_of(
    objective: Objective,
    factors: Sequence[Factor | Gaussian] | None,
    n_train: int,
    prior_std: float | None,
    draws: int,
    n_batches: int | Sized | None,
) -> Case:
    """Return a case with the weights of these factors; without them, with those that the parameters' names pair."""
    lone: dict[str, str] = {}
    if factors is None:
        factors = pairs = gaussians({name: objective.value(name) for name in objective.names}, objective.shapes)
        lone = alone(objective.shapes, pairs) if "kl" not in objective.terms else {}
    groups = [objective.group(factor) for factor in factors]
    steps = len(n_batches) if isinstance(n_batches, Sized) else n_batches  # of a loader
    return Case(objective, groups, n_train, prior_std, draws, lone, steps)


def _fits(scale: tuple[int, ...], mean: tuple[int, ...]) -> bool:
    """Return whether a scale, which weights may share, broadcasts to the shape of the means."""
    behind = mean[len(mean) - len(scale) :]
    return len(scale) <= len(mean) and all(n in (1, wanted) for n, wanted in zip(scale, behind, strict=True))


def _readings(word: str, scale: Array) -> tuple[str, str]:
    """Return the transform that a scale's name and numbers mean, and the other one that they may mean; '' for none."""
    if word not in _POSITIVE:
        return _SCALES[word], ""
    return ("identity", "") if bool((scale > 0).all()) else ("softplus", "exp")


def alone(shapes: Mapping[str, tuple[int, ...]], pairs: Iterable[Gaussian]) -> dict[str, str]:
    """Return the means and scales that are in no pair, and what to give for each."""
    paired = {name for pair in pairs for name in (pair.mean, pair.scale)}
    left = {name: shape for name, shape in shapes.items() if name not in paired}
    found: dict[str, str] = {}
    for name in left:
        mean, scale = _word("mu", name), _word("|".join(_SCALES), name)
        if mean is not None and not _is_a_layer(mean):
            found[name] = f"{name} has no partner such as rho that can be trained; give factors= if it has another name"
        if scale is not None and not _is_a_layer(scale):
            likely = _means_of(scale, left)
            if likely or scale.group() == "rho":  # a log_sigma alone may be the noise of the observations
                pair = f"'{likely[0] if len(likely) == 1 else 'ITS MEAN'}', '{name}', '{_SCALES[scale.group()]}'"
                found[name] = f"{name} is named as a scale and has no mean; give factors=[Gaussian({pair})]"
    return found


def _means_of(hit: re.Match[str], left: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Return the parameters that may be the mean of a scale: `weight` of `weight_rho`; else a module's matrices."""
    name = hit.string
    bare = re.sub(r"[._]{2,}", lambda dots: dots.group()[0], name[: hit.start()] + name[hit.end() :]).strip("._")
    alike = [other for other in left if other != name and left[other] == left[name]]
    if bare in alike:
        return [bare]
    module = name.rpartition(".")[0]
    near = [other for other in alike if other.rpartition(".")[0] == module and not _word("|".join(_SCALES), other)]
    return near if hit.group() == "rho" or len(left[name]) > 1 else []


def drawn_without_kl(case: Case, data: DataWeight) -> list[str]:
    """Return pairs of parameters that make random weights, number by number, of which the loss holds no KL.

    If weights are mean + sigma x noise, the data's gradient by sigma is that by the mean times the noise: in all
    batches of a draw alike, and from draw to draw another. Parameters that have a KL do not move this noise: where they
    do, as the posterior of z does in a prior's mean + scale x z, it is z that has the KL.
    """
    objective = case.objective
    first, second = objective.batches[:2]
    judged = [] if case.has_kl else [name for group in case.groups for name in group.means | group.scales]
    asked = [name for name, shape in objective.shapes.items() if name not in judged and math.prod(shape) >= FEW]
    if len(asked) < 2:
        return []
    whole, own = objective.loss_gradient(first, 0), objective.nll_gradient(first, 0)
    doubt, bare = shared_error(objective, data), []
    for name in asked:
        slope = own[name]
        entropy = abs(data.weight) * objective.batch_size / case.n_train * slope.size**0.5  # its gradient by log sigma
        rounding, left = norm(doubt[name]), norm(whole[name] - data.of(0) * slope)
        if slope.any() and left <= rounding < SEEN * entropy:
            bare.append(name)
    pairs = [pair for pair in itertools.combinations(bare, 2) if objective.shapes[pair[0]] == objective.shapes[pair[1]]]
    if not pairs:
        return []
    shifts = nudges(objective, [name for name in objective.shapes if name not in bare])
    moved = objective.seen_near(shifts, lambda: objective.nll_gradient(first, 0))
    others = [(objective.nll_gradient(second, 0), True), (moved, True), (objective.nll_gradient(first, 1), False)]
    return [
        f"{one}, {other}"
        for one, other in pairs
        if all(same_ratio((own[one], own[other]), (slope[one], slope[other])) is alike for slope, alike in others)
    ]
