"""Protocol `shift`: test digits that are turned or moved step by step, as no training image is.

How much worse are the answers, and is the network less sure of them? All methods see the same images; nothing in them
is random.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import ndimage

from bench.interface import Posterior, Split
from bench.measure.measuring import EpochMetrics, Measurement, draws_of, on_device, predict_split
from bench.measure.metrics.evaluate import evaluate_shift
from bench.measure.metrics.shifts import MOST_ROWS, ROTATED, STEPS, area_key, areas, step_key
from bench.measure.protocols import Protocol

SIDE = 28  # pixels
CASES = [(kind, step) for kind, steps in STEPS.items() for step in steps]
DIRECTIONS = ((0, 1), (1, 0), (0, -1), (-1, 0))  # (down, right) of images 0, 1, 2, 3; image 4 moves like image 0

Pixels = NDArray[np.float32]


def rotated(images: Pixels, degrees: float) -> Pixels:
    """Return images [N, 28, 28] turned to the left about their centre, (13.5, 13.5).

    A pixel is interpolated linearly between four pixels; pixels outside the image count as 0. Turns by right angles
    are exact.
    """
    return np.asarray(
        ndimage.rotate(images, degrees, axes=(2, 1), reshape=False, order=1, mode="grid-constant", cval=0.0)
    )


def translated(images: Pixels, pixels: int) -> Pixels:
    """Return images [N, 28, 28] moved by whole pixels: image i in direction i mod 4 of right, down, left and up.

    Pixels that leave the image are lost, and zeros come in on the other side.
    """
    found, padded = np.empty_like(images), np.pad(images, ((0, 0), (pixels, pixels), (pixels, pixels)))
    for place, (down, right) in enumerate(DIRECTIONS):
        y, x = pixels * (1 - down), pixels * (1 - right)
        found[place :: len(DIRECTIONS)] = padded[place :: len(DIRECTIONS), y : y + SIDE, x : x + SIDE]
    return found


def spread_rows(split: Split, most: int) -> Split:
    """Return every k-th row of a split from the first on, with the smallest k that leaves at most `most` rows."""
    return split.select(torch.arange(0, len(split), -(-len(split) // most)))


class Shift(Protocol):
    """Test digits rotated by 0 to 180 degrees or translated by 0 to 14 pixels; mean of probabilities over the draws."""

    @property
    def n_rows(self) -> int | None:
        """See `Protocol.n_rows`."""
        return self.budget.common_rows

    def final(self, posterior: Posterior, epochs: Sequence[EpochMetrics]) -> Measurement:
        """See `Protocol.final`. All images are predicted together: the weights of a draw are made only once or twice.

        A row has the same noise in all its positions.
        """
        del epochs
        test = spread_rows(self.split("test10k"), MOST_ROWS)
        alone = posterior.per_row()  # allowed: no metric depends on two rows of one draw
        predicted = predict_split(alone, self.moved(test), draws_of(alone, self.budget.draws))
        found, labels = Measurement(), test.y.numpy()
        for (kind, step), log_probs in zip(CASES, np.split(predicted.summary.log_mean_probs, len(CASES)), strict=True):
            found.add(f"mnist/{kind}_{step}", *evaluate_shift(log_probs, labels))
        found.metrics.update(areas(found.metrics))
        for kind, step in CASES:
            why = found.missing.get(step_key(kind, step, "nll"))
            if why is not None:
                found.missing[area_key(kind, "nll")] = why
        found.arrays["noise"] = {"mnist": alone.noise}
        return found

    def moved(self, split: Split) -> Split:
        """Return the rows of a split once for each of `CASES`, moved by it."""
        images = split.x.cpu().numpy().reshape(-1, SIDE, SIDE)
        every = [rotated(images, step) if kind == ROTATED else translated(images, step) for kind, step in CASES]
        x, n = torch.from_numpy(np.concatenate(every)).flatten(1), len(CASES)
        return on_device(Split(split.name, x, split.y.repeat(n), split.rows.repeat(n)), self.device, self.dtype)
