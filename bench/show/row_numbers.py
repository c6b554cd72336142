"""Numbers that need the answer to each picture: of a threshold, at equal coverage, and of letters like no digit.

A record's scores hold them: prediction, log(1 - largest probability) and entropy of each row, in single precision. A
record without such scores has none of these numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from bench.core.metric_table import SURE
from bench.core.row_scores import LOG_OTHERS, Scores
from bench.data.files import find, read_idx
from bench.data.manifest import OOD_NAMES, manifest
from bench.judge.samples import MissingValue
from bench.measure.metrics.arrays import BoolArray, FloatArray
from bench.measure.metrics.coverage import accepted, refused_for, wrong_among
from bench.show.numbers import RISK, UNREACHED

LIKE_DIGITS = "DI"  # letters that are also a way to write 0 and 1: many answers to them are no mistake
LETTERS, LETTERS_LIKE_DIGITS = "letters", "letters_like_digits"
SHARES = (0.75, 0.9)  # of the digits that are answered, at equal coverage
NEVER = MissingValue("never", "it is sure of no digit")
FEW_LETTERS = MissingValue("n/a", "a short run has the first letters alone, and D and I cannot be left out")
NO_ROWS = MissingValue("n/a", "its answers to each picture are not stored: run --lacking trains it again")

SURE_OF, WRONG_OF_SURE, REFUSED = "sure", "wrong_of_sure", "refused"
SETS = ("mnist", *OOD_NAMES)


def wrong_at(share: float) -> str:
    """Return the name of the share of wrong answers among the surest `share` of the digits."""
    return f"wrong@{share:g}"


def accepted_at(share: float) -> str:
    """Return the name of the share of other pictures that are answered if `share` of the digits are."""
    return f"accepted@{share:g}"


def numbers_of_rows(scores: Scores) -> dict[str, float | MissingValue]:
    """Return numbers by "SET/NAME"; {} if the scores do not tell how sure each answer is.

    Shares are fractions of rows. `letters` are those that look like no digit; `letters_like_digits` are D and I.
    """
    sure = {
        name: -scores[f"{name}/{LOG_OTHERS}"].astype(np.float64) for name in SETS if f"{name}/{LOG_OTHERS}" in scores
    }
    if "mnist" not in sure:
        return {}
    short: dict[str, float | MissingValue] = {}
    if LETTERS in sure:
        letters, like_digits = sure.pop(LETTERS), _like_digits()
        if len(letters) == len(like_digits):  # a short run measures fewer, and does not say which
            sure |= {LETTERS_LIKE_DIGITS: letters[like_digits], LETTERS: letters[~like_digits]}
        else:
            names = (SURE_OF, *map(accepted_at, SHARES))
            short = {f"{of}/{name}": FEW_LETTERS for of in (LETTERS, LETTERS_LIKE_DIGITS) for name in names}
    hits = np.asarray(scores["mnist/predicted"] == scores["mnist/label"])
    found: dict[str, float | MissingValue] = {
        f"{name}/{SURE_OF}": float(_is_sure(values).mean()) for name, values in sure.items()
    }
    return short | found | _of_digits(sure["mnist"], hits) | _at_equal_coverage(sure)


def _is_sure(values: FloatArray) -> BoolArray:
    return np.asarray(-values <= float(np.float32(math.log(1 - SURE))))  # stored values are rounded alike


def _of_digits(sure: FloatArray, hits: BoolArray) -> dict[str, float | MissingValue]:
    """Return the share of wrong answers among the sure ones and among the surest, and how many to refuse."""
    answers = hits[_is_sure(sure)]
    refused = refused_for(sure, hits, RISK)
    return {
        f"mnist/{WRONG_OF_SURE}": float(1 - answers.mean()) if len(answers) else NEVER,
        f"mnist/{REFUSED}": UNREACHED if refused is None else refused,
        **{f"mnist/{wrong_at(share)}": wrong_among(sure, hits, share) for share in SHARES},
    }


def _at_equal_coverage(sure: Mapping[str, FloatArray]) -> dict[str, float]:
    digits = sure["mnist"]
    outside = {name: values for name, values in sure.items() if name != "mnist"}
    return {
        f"{name}/{accepted_at(share)}": accepted(digits, values, share)
        for share in SHARES
        for name, values in outside.items()
    }


@lru_cache(maxsize=1)
def _like_digits() -> BoolArray:
    """Return for each of the letters whether it is one of `LIKE_DIGITS`."""
    known = manifest(LETTERS)
    file = known.file("letters-labels")
    labels = read_idx(find(known, file, None), file.shape, file.sha256, known.how)
    return np.isin(labels, [ord(letter) - ord("A") for letter in LIKE_DIGITS])
