"""The scale of a claim: on it, seeds scatter about normally, as the t rule assumes.

    log       losses of the six-point regressions: positive numbers that fall by powers of ten
    logit     logit of (count + 1/2) / (images + 1): for fractions whose rarer answer has fewer than `RARE` images at
              the reported value, because the images are few or the fraction is near 0 or 1
    identity  all other numbers

The scale depends on the claim alone, never on our seeds. This rule was declared on 2026-11-23, after the numbers had
been seen.
"""

from __future__ import annotations

import math
import re
from typing import Literal, NamedTuple

from bench.judge.claims import Claim, print_interval

RARE = 100  # images: a count of 100 has a skewness of .1
TOY = "toy"


class Scale(NamedTuple):
    """A scale; for logit, also the number of images of the fraction."""

    name: Literal["identity", "log", "logit"]
    images: int = 0


IDENTITY, LOG = Scale("identity"), Scale("log")


def scale_of(claim: Claim) -> Scale:
    """Return the scale of a claim."""
    if claim.spread is not None:  # a report gives its runs' spread in the claim's unit
        return IDENTITY
    if claim.dataset == TOY and "loss" in claim.metric and print_interval(claim).low > 0:
        return LOG
    images = _images(claim.split)
    is_fraction = claim.unit == "fraction" and 0 <= claim.value <= 1
    if is_fraction and images and images * min(claim.value, 1 - claim.value) < RARE:
        return Scale("logit", images)
    return IDENTITY


def _images(split: str) -> int:
    """Return the number of images in a split's name, such as test10k, 100 random images of test10k, all 459; else 0."""
    found = re.search(r"(\d+)(k?)", split)
    return int(found[1]) * (1000 if found[2] else 1) if found else 0


def to_scale(scale: Scale, value: float) -> float:
    """Return a number on a scale; raises ValueError for a number that the scale cannot hold."""
    if scale.name == "identity":
        return value
    if scale.name == "log":
        return math.log(value)
    share = (value * scale.images + 0.5) / (scale.images + 1)
    return math.log(share) - math.log1p(-share)


def from_scale(scale: Scale, value: float) -> float:
    """Return the number from its value on a scale; a fraction is cut at 0 and 1."""
    if scale.name == "identity":
        return value
    if scale.name == "log":
        return math.exp(min(value, 700.0))  # above, exp overflows
    share = 1 / (1 + math.exp(min(-value, 700.0)))
    return min(1.0, max(0.0, (share * (scale.images + 1) - 0.5) / scale.images))


def ends_on_scale(claim: Claim, scale: Scale) -> tuple[float, float]:
    """Return the smallest and the largest number that prints as the claim, on the scale."""
    interval = print_interval(claim)
    low, high = interval.low, interval.high
    if claim.unit == "fraction" and 0 <= claim.value <= 1:
        low, high = max(0.0, low), min(1.0, high)
    return to_scale(scale, low), to_scale(scale, high)


def margin_on_scale(claim: Claim, scale: Scale) -> float:
    """Return the margin at the reported value: the smaller of its two sides, so that the scale never widens it."""
    if scale == IDENTITY:
        return claim.margin
    here, sides = to_scale(scale, claim.value), []
    for value in (claim.value - claim.margin, claim.value + claim.margin):
        is_inside = value > 0 if scale == LOG else 0 <= value <= 1
        if is_inside:
            sides.append(abs(to_scale(scale, value) - here))
    return min(sides, default=math.inf)


def width_in_words(scale: Scale, centre: float, width: float) -> str:
    """Return a width on a scale as text, in the claim's unit, measured from `centre`; on log it is a factor."""
    if scale == LOG:
        return f"a factor of {from_scale(LOG, width):.3g}"
    return f"{width_in_unit(scale, centre, width):.2g}"


def width_in_unit(scale: Scale, centre: float, width: float) -> float:
    """Return a width on a scale in the claim's unit, measured from `centre`: the larger of its two sides."""
    if scale == IDENTITY:
        return width
    middle = from_scale(scale, centre)
    return max(abs(from_scale(scale, centre + side * width) - middle) for side in (-1, 1))
