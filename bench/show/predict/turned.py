"""Tells whether a picture may be turned: the networks are unsure of it as it is, and sure of it after a turn."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from bench.show.predict.normalise import Normalised
from bench.show.predict.predictor import PictureAnswer
from bench.show.predict.reading import Floats

Answerer = Callable[[Sequence[Normalised]], list[PictureAnswer]]

UNSURE, SURE = 0.7, 0.9  # of the likeliest digit's probability, mean over networks; error rates: docs/commands.md
TURNS = {1: "a quarter to the left", 2: "by half", 3: "a quarter to the right"}  # by number of quarters to the left


def with_remarks(
    images: Sequence[Normalised], answers: Sequence[Sequence[PictureAnswer]], networks: Sequence[Answerer]
) -> list[Normalised]:
    """Return the pictures, those that may be turned with a remark.

    Args:
        images: normalised pictures.
        answers: for each picture, the answers of all networks.
        networks: answer further pictures: the turned ones.
    """
    return [
        _with_remark(image, networks) if image.is_clear and _best(its_answers)[1] < UNSURE else image
        for image, its_answers in zip(images, answers, strict=True)
    ]


def _with_remark(image: Normalised, networks: Sequence[Answerer]) -> Normalised:
    views = [dataclasses.replace(image, pixels=turn(image.pixels, quarters)) for quarters in TURNS]
    by_network = [network(views) for network in networks]
    found = {
        words: _best([answers_of[place] for answers_of in by_network]) for place, words in enumerate(TURNS.values())
    }
    words = max(found, key=lambda each: found[each][1])
    digit, probability = found[words]
    if probability < SURE:
        return image
    remark = f"may be turned: turned {words}, it looks like a {digit} (mean probability {probability:.2f})"
    return dataclasses.replace(image, remarks=(*image.remarks, remark))


def _best(answers: Sequence[PictureAnswer]) -> tuple[int, float]:
    """Return the likeliest digit and its probability, mean over the networks."""
    means = np.mean([answer.probabilities for answer in answers], axis=0)
    return int(means.argmax()), float(means.max())


def turn(pixels: Floats, quarters: int) -> Floats:
    """Return a picture [28, 28] turned to the left by quarters around pixel (14, 14), which stays in its place."""
    turned = np.rot90(pixels, quarters)
    down, across = {0: (0, 0), 1: (1, 0), 2: (1, 1), 3: (0, 1)}[quarters % 4]
    return np.ascontiguousarray(np.roll(turned, (down, across), axis=(0, 1)))
