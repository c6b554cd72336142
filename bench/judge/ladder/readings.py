"""Readings: numbers of fits that a ladder or a figure needs and no record holds, as files.

`bench.judge.ladder.taking` makes them.
A reading has the form of a record (protocol "reading"), sealed by its hash, in a folder of its own.
"""

from __future__ import annotations

import itertools

from bench.core.folder import Problem, SealedFolder
from bench.core.records import SCHEMA, Reading, reading_name
from bench.core.store import Store
from bench.judge.ladder.rungs import Ladder
from bench.plan.freshness import is_stale

AGAIN = "make the reading again with python -m bench ladder --run --all"
VERSION = 1  # of the definitions in `bench.judge.ladder.readers`: raise it when one changes
SHOWN_WEIGHTS = {"mxnet_bbb": (0, 14 * 28 + 14)}
"""Weights of the first hidden unit whose density is drawn: from the first pixel, as rabanser2017 does, and from one in
the middle, where digits have ink."""


def folder(store: Store) -> SealedFolder[Reading]:
    """Return a results folder's readings."""
    return SealedFolder(store.root, "readings", Reading, "reading", SCHEMA, reading_name, "*/*.json", AGAIN)


def keys_of(ladder: Ladder) -> tuple[str, ...]:
    """Return the keys that are read from the fits of an approach by its published recipe, for ladder and figures."""
    rungs = dict.fromkeys(place.key for place in ladder.places() if place.source == "reading")
    return (*rungs, *itertools.chain(*weight_keys(ladder.approach)))


def weight_keys(approach: str) -> list[tuple[str, str]]:
    """Return for each weight that a figure draws the keys of its mean and its standard deviation."""
    return [(f"weights/mean@{place}", f"weights/std@{place}") for place in SHOWN_WEIGHTS.get(approach, ())]


def read_all(store: Store) -> tuple[list[Reading], list[Problem]]:
    """Return all readings of today's versions, and the files that cannot be trusted."""
    readings, problems = folder(store).read_all()
    return [one for one in readings if one.version == VERSION and not is_stale(one)], problems
