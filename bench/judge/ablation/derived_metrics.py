"""The files of derived metrics: the numbers of a fit that an ablation or a figure needs and no record has.

`bench.judge.ablation.taking` makes derived metrics. A file has the form of a record (protocol "derived") with
the hash of its content, and stands in the folder `derived_metrics`.
"""

from __future__ import annotations

import itertools

from bench.core.folder import Problem, SealedFolder
from bench.core.records import SCHEMA, DerivedMetrics, Naming
from bench.core.store import Store
from bench.judge.ablation.single_changes import Ablation
from bench.plan.freshness import is_stale

AGAIN = "make the derived metric again with python -m bench ablation --run --all"
VERSION = 1  # of the definitions in `bench.judge.ablation.readers`: raise it when one changes
SHOWN_WEIGHTS = {"mxnet_bbb": (0, 14 * 28 + 14)}
"""Approach -> weights of the first hidden unit whose densities a figure shows: of the first pixel, as in rabanser2017,
and of a pixel in the middle, where digits have ink."""


def folder(store: Store) -> SealedFolder[DerivedMetrics]:
    """Return a results folder's derived metrics."""
    return SealedFolder(store.root, "derived_metrics", DerivedMetrics, "derived", SCHEMA, _name, AGAIN)


def _name(derived: Naming) -> str:
    """Return the path of a derived metric below the folder of derived metrics."""
    return f"{derived.approach}/{derived.recipe}__{derived.profile}__seed{derived.seed}__{derived.key[:8]}.json"


def keys_of(ablation: Ablation) -> tuple[str, ...]:
    """Return the keys to read from the published fits of an ablation's approach, for the ablation and for figures."""
    single_changes = dict.fromkeys(place.key for place in ablation.places() if place.source == "derived")
    return (*single_changes, *itertools.chain(*weight_keys(ablation.approach)))


def weight_keys(approach: str) -> list[tuple[str, str]]:
    """Return the keys of mean and standard deviation of each weight that a figure shows."""
    return [(f"weights/mean@{place}", f"weights/std@{place}") for place in SHOWN_WEIGHTS.get(approach, ())]


def read_all(store: Store) -> tuple[list[DerivedMetrics], list[Problem]]:
    """Return the derived metrics made at today's versions, and the files that cannot be trusted."""
    derived_metrics, problems = folder(store).read_all()
    return [one for one in derived_metrics if one.version == VERSION and not is_stale(one)], problems
