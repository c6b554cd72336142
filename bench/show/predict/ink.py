"""Finds the ink of a picture: subtracts a smooth background of any colour, and scales the rest.

Ink is what differs from the background along one line through colour space. So dark on light, light on dark and red on
green are the same case.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.core.errors import UnusableImage
from bench.show.predict.paper import FEWEST, Floats, digit_in, full_ink, on_sheet
from bench.show.predict.reading import Picture

SAMPLES = 64  # points a side of the grid that the background is fitted to
ROUNDS = 30  # of reweighting; in the worst cases tried, the fit no longer changed after 20
SMALLEST_RESIDUAL = 1e-4  # of colour; far below one step of 8 bits (0.004)
NOISE_SIGMAS = 5.0  # one pixel of Gaussian noise in 3 million is further out; of real grain, more are
TO_SIGMA = 1.4826  # median absolute deviation to standard deviation, for Gaussian noise
FAINTEST = 0.15  # of full ink: fainter pixels are a smudge, an artefact of JPEG or grain
LEAST_CONTRAST = 0.06  # of the range from black to white; a photograph of empty paper with a noise of 0.05 has less
LARGE = 0.25  # of the ink of the largest shape: a shape with less is no second digit
APART = 0.1  # least gap between two shapes, as a share of the drawing's longer side or of twice the shorter one
DARKEST_PAPER = 0.1  # darker paper counts as this dark: division by less would only enlarge noise


@dataclass(frozen=True)
class Ink:
    """What is drawn in a picture."""

    amount: Floats  # [H, W] from 0 (background) to 1 (full ink); 0 outside of what is drawn
    dark_on_light: bool
    is_clear: bool  # whether the ink stands out of the noise of the background
    n_shapes: int  # number of shapes that stand apart
    remarks: tuple[str, ...]  # what was left out


def find_ink(picture: Picture) -> Ink:
    """Separate ink and background; raises UnusableImage where there is no ink."""
    difference, paper = _without_background(on_sheet(picture.colours))
    amount, dark = _along_ink(difference)
    if dark:  # ink absorbs a share of the light, so the difference is smaller in the shade
        amount *= np.median(paper) / np.maximum(paper, DARKEST_PAPER)
    noise = TO_SIGMA * float(np.median(np.abs(amount)))
    above = amount[amount > NOISE_SIGMAS * noise]
    is_clear = len(above) >= max(1, FEWEST * amount.size)
    if not is_clear:  # nothing stands out: the picture is blank, or all of it is a pattern or noise
        above = amount[amount > 0]
    level = full_ink(above)
    if level < LEAST_CONTRAST:
        raise UnusableImage(
            f"{picture.path}: blank: no part differs enough from the background ({100 * LEAST_CONTRAST:.0f} % of black "
            "to white); give a picture with more contrast"
        )
    floor = min(max(FAINTEST, NOISE_SIGMAS * noise / level), 0.5)
    of_digit, remarks = digit_in(amount, floor * level)
    drawn = np.where(of_digit, (amount / full_ink(amount[of_digit])).clip(0, 1), 0).astype(np.float32)
    return Ink(drawn, dark, is_clear, shapes(drawn), tuple(remarks) if is_clear else ())


def shapes(drawn: Floats) -> int:
    """Return how many shapes stand side by side or one above the other, with columns or rows without ink between them.

    The strokes of one digit overlap in both directions or have only a small gap between them; they are one
    shape. The least gap between two shapes does not grow with the number of digits in a row.
    """
    shorter, longer = sorted(sides(drawn != 0))
    return max(_runs(drawn.sum(axis=axis), APART * min(longer, 2 * shorter)) for axis in (0, 1))


def sides(drawn: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """Return height and width of the smallest box around the drawing, pixels."""
    height, width = (int(np.ptp(np.flatnonzero(drawn.any(axis=1 - axis)))) + 1 for axis in (0, 1))
    return height, width


def _runs(mass: Floats, gap: float) -> int:
    """Return how many runs of mass, at least `gap` empty places apart, reach LARGE of the mass of the heaviest."""
    places = np.flatnonzero(mass)
    cuts = np.flatnonzero(np.diff(places) - 1 >= gap) + 1
    masses = [float(mass[run].sum()) for run in np.split(places, cuts)]
    return sum(each >= LARGE * max(masses) for each in masses)


def _without_background(colours: Floats) -> tuple[Floats, Floats]:
    """Return [H, W, 3] colours minus a smooth background, and the background's brightness [H, W].

    In each channel, the background is the surface of second degree with the least sum of absolute residuals, found by
    iteratively reweighted least squares (Schlossmacher 1973). Ink covers less than half of the pixels, so that it does
    not move this surface.
    """
    height, width = colours.shape[:2]
    rows = np.unique(np.linspace(0, height - 1, SAMPLES).round().astype(int))
    columns = np.unique(np.linspace(0, width - 1, SAMPLES).round().astype(int))
    design = _surface(rows / height, columns / width).reshape(-1, 6)
    grey = bool((colours[..., :1] == colours).all())
    channels = 1 if grey else 3
    sampled = colours[np.ix_(rows, columns)].reshape(-1, 3).astype(np.float64)
    fitted = [_least_absolute(design, sampled[:, channel]) for channel in range(channels)]
    everywhere = _surface(np.arange(height) / height, np.arange(width) / width).astype(np.float32)
    background = np.stack([everywhere @ weights.astype(np.float32) for weights in fitted], axis=2)
    return colours[..., :channels] - background, background.mean(axis=2)


def _surface(y: npt.NDArray[np.float64], x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the six terms of a surface of second degree at each point of a grid, [len(y), len(x), 6]."""
    down, across = np.meshgrid(2 * y - 1, 2 * x - 1, indexing="ij")
    return np.stack([np.ones_like(down), down, across, down * down, down * across, across * across], axis=2)


def _least_absolute(design: npt.NDArray[np.float64], values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    weights = np.zeros(design.shape[1])
    weights[0] = np.median(values)
    for _ in range(ROUNDS):
        trust = 1 / np.maximum(np.abs(values - design @ weights), SMALLEST_RESIDUAL)
        scaled = design * trust[:, None]
        weights = np.linalg.lstsq(scaled.T @ design, scaled.T @ values, rcond=None)[0]
    return weights


def _along_ink(difference: Floats) -> tuple[Floats, bool]:
    """Return how far each pixel [H, W] is from the background towards the ink, and whether ink is the darker."""
    if difference.shape[2] == 1:
        along = difference[..., 0]
        direction = np.ones(1, np.float32)
    else:
        flat = difference.reshape(-1, 3)
        strength = (flat**2).sum(axis=1)
        # The main direction of the differences; each pixel weighs as the square of its difference.
        direction = np.linalg.eigh((flat * strength[:, None]).T.astype(np.float64) @ flat)[1][:, -1].astype(np.float32)
        along = difference @ direction
    # Ink covers fewer pixels than paper, but differs more: the sum of cubes has the sign of the ink's direction.
    if float((along.astype(np.float64) ** 3).sum()) < 0:
        along, direction = -along, -direction
    return along, float(direction.sum()) < 0
