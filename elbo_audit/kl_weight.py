"""What is measured of the KL: how often it counts in an epoch, of each group of weights and of all together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from elbo_audit.least_squares import SURE, MeanOfDraws

MISSING = 1e-4  # KLs in an epoch: float32's rounding alone can look like this much
NO_PULL = 0.05  # of the pull of the sigmas: a weaker one of the means is none
WEAK = 1e-3  # of the entropy's weight: what a pull may do to weights of the measured size without being judged
NOTHING = MeanOfDraws(0.0, 0.0)


@dataclass(frozen=True)
class TensorWeight:
    """How often the KL of one group of weights counts in an epoch, measured from this group alone."""

    name: str
    n: int  # number of weights
    per_epoch: MeanOfDraws  # of the entropy, where it is identifiable beside the prior's pull
    precision: MeanOfDraws | None = None  # 1 / prior variance; None where kl= hides it
    pull: MeanOfDraws | None = None  # the prior's pull in an epoch: the KL's weight / prior variance


class Pulls(NamedTuple):
    """The pull of the prior in an epoch on the means alone and on the sigmas alone: a Gaussian pulls both alike."""

    entropy: MeanOfDraws  # beside them
    means: MeanOfDraws
    scales: MeanOfDraws

    def odd(self, size: float) -> str:
        """Return "sign" if the prior pushes the means from zero, "missing" if it pulls the sigmas alone, else "".

        A prior around zero that falls to both sides pulls every mean to zero, be it a Gaussian or not. `size` is that
        of the weights.
        """
        if not (self.means.value or self.means.error):  # no parameter moves a mean and its pull
            return ""
        sign, least = math.copysign(1, self.entropy.value), WEAK * abs(self.entropy.value) / size**2
        means, scales = self.means.times(sign), self.scales.times(sign)
        if means.value < -max(SURE * means.error, least):
            return "sign"
        is_pulled = scales.value > max(SURE * scales.error, least)
        return "missing" if is_pulled and abs(means.value) + SURE * means.error < NO_PULL * scales.value else ""


@dataclass(frozen=True)
class KlWeight:
    """How often the KL counts in an epoch, and what is known of the prior under it."""

    per_epoch: MeanOfDraws  # of all groups together, as if they weighed alike; 1 for an ELBO
    precision: MeanOfDraws | None  # 1 / prior variance, beside `kl=` in units of its own; None where kl= hides it
    tensors: Sequence[TensorWeight]
    missed: dict[str, float]  # by parameter: share of its gradient that kl=, or else a KL of Gaussians, cannot explain
    by_batch: Sequence[float] = ()  # the weight in each batch; empty unless it surely changes from batch to batch
    size: float = math.nan  # root mean square of the weights' means and sigmas
    pull: MeanOfDraws | None = None  # the KL's weight / prior variance
    left: MeanOfDraws = NOTHING  # squared length of what the KL leaves of the groups' gradients
    undetermined: Sequence[str] = ()  # groups of too few numbers
    reading: str = ""  # how sigma was read, where its name allows two ways
    pulls: Pulls | None = None  # of all groups together; None beside `kl=`
    is_reverse: bool = False  # the KL in the loss, or `kl=`, is KL(p || q) of prior p and posterior q
    own_prior: MeanOfDraws | None = None  # 1 / prior variance in `kl=`, where its gradient shows it


def is_missing(weight: MeanOfDraws) -> bool:
    """Return whether a weight is zero, as far as its error and rounding tell."""
    return abs(weight.value) <= max(2 * weight.error, MISSING)


def is_entropy_turned(found: KlWeight) -> bool:
    """Return whether the entropy has the wrong sign, and the prior pulls as it should."""
    pull = None if found.pulls is None else found.pulls.means
    return found.per_epoch.value < 0 and pull is not None and pull.value > 0 and pull.sure()
