"""Pair the parameters by name: which are mean and standard deviation of the same weights?"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from elbo_audit.factors import Array, Gaussian

_MEANS = r"mu|mean|loc|locs"
_POSITIVE = ("sigma", "std", "scale", "scales")  # taken as they are, if all their numbers are positive
_SCALES = {  # the name of the transform that makes sigma
    "rho": "softplus",
    **dict.fromkeys(("log_sigma", "log_std", "log_scale", "logsigma"), "exp"),
    **dict.fromkeys(("logvar", "log_var"), "exp of half"),
    **dict.fromkeys(_POSITIVE, "softplus"),
}
_ALL = "|".join((_MEANS, *_SCALES))
_AUTOGUIDE = ("locs", "scales")  # Pyro's guides append the site's name, which may hold any of the other words


def _word(words: str, name: str) -> re.Match[str] | None:
    """Return the last word for a mean or a scale in a name, if it is one of `words`; else None.

    A prior's parameters are not the posterior's: their names give None.
    """
    if any(part.startswith("prior") for part in re.split(r"[._]", name)):
        return None
    hits = [*re.finditer(rf"(?:^|(?<=[._]))(?:{_ALL})(?=$|[._])", name)]
    last = next((hit for hit in hits if hit.group() in _AUTOGUIDE), hits[-1] if hits else None)
    return last if last and re.fullmatch(words, last.group()) else None


def _is_a_layer(hit: re.Match[str]) -> bool:
    """Return whether the word names a layer that makes an output, as in `fc_mu.weight` and `mu_head.0.bias`."""
    return bool(re.fullmatch(r"(_.*)?\.(weight|bias)", hit.string[hit.end() :])) and hit.group() not in _AUTOGUIDE


def gaussians(values: Mapping[str, Array], trained: Collection[str]) -> list[Gaussian]:
    """Pair means and scales by their names: `fc1.weight_mu` with `fc1.weight_rho`, `mu_kernel` with `rho_kernel`.

    rho means softplus; log_sigma, log_std and log_scale mean exp; logvar means exp of its half. A sigma, std or scale
    is taken as it is, or through softplus where one of its numbers is not positive. Pairs of which nothing is `trained`
    are left out.
    """
    found = []
    for name, value in values.items():
        hit = _word(_MEANS, name)
        if hit is None or _is_a_layer(hit):
            continue
        for word, transform in _SCALES.items():
            scale = name[: hit.start()] + word + name[hit.end() :]
            if scale not in values or values[scale].shape != value.shape:
                continue
            if name in trained or scale in trained:  # else such as the mean and std of the inputs
                as_it_is = word in _POSITIVE and bool((values[scale] > 0).all())
                may_be_layer = hit.group() not in _AUTOGUIDE and name.endswith((".weight", ".bias"))
                found.append(Gaussian(name, scale, "identity" if as_it_is else transform, may_be_layer))
            break
    return found


def means_without_scale(names: Iterable[str], pairs: Iterable[Gaussian]) -> list[str]:
    """Return the names of each mu that is in no pair: its sigma has another name, or is no parameter."""
    paired = {name for pair in pairs for name in (pair.mean, pair.scale)}
    alone = {name: _word("mu", name) for name in names if name not in paired}
    return [name for name, hit in alone.items() if hit is not None and not _is_a_layer(hit)]
