"""The files of readings. A reading has the numbers of a fit that a ladder or a figure needs and no record has.

`bench.judge.ladder.taking` makes readings. A file has the form of a record (protocol "reading") with the hash of its
content, and stands in the folder `readings`.
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
"""Approach -> weights of the first hidden unit whose densities a figure shows: of the first pixel, as in rabanser2017,
and of a pixel in the middle, where digits have ink."""


def folder(store: Store) -> SealedFolder[Reading]:
    """Return a results folder's readings."""
    return SealedFolder(store.root, "readings", Reading, "reading", SCHEMA, reading_name, AGAIN)


def keys_of(ladder: Ladder) -> tuple[str, ...]:
    """Return the keys to read from the published fits of a ladder's approach, for the ladder and for figures."""
    rungs = dict.fromkeys(place.key for place in ladder.places() if place.source == "reading")
    return (*rungs, *itertools.chain(*weight_keys(ladder.approach)))


def weight_keys(approach: str) -> list[tuple[str, str]]:
    """Return the keys of mean and standard deviation of each weight that a figure shows."""
    return [(f"weights/mean@{place}", f"weights/std@{place}") for place in SHOWN_WEIGHTS.get(approach, ())]


def read_all(store: Store) -> tuple[list[Reading], list[Problem]]:
    """Return the readings made at today's versions, and the files that cannot be trusted."""
    readings, problems = folder(store).read_all()
    return [one for one in readings if one.version == VERSION and not is_stale(one)], problems
