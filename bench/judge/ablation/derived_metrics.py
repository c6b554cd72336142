"""The files of derived metrics: the numbers of a fit that an ablation needs and no record has.

`bench.judge.ablation.taking` makes derived metrics. A file has the form of a record (protocol "derived") with
the hash of its content, and stands in the folder `derived_metrics`.
"""

from __future__ import annotations

from bench.core.folder import Problem, SealedFolder
from bench.core.records import SCHEMA, DerivedMetrics, Naming
from bench.core.store import Store
from bench.judge.ablation.single_changes import Ablation
from bench.plan.freshness import is_stale

AGAIN = "make the derived metric again with python -m bench ablation --run --all"
VERSION = 1  # of the definitions in `bench.judge.ablation.readers`: raise it when one changes


def folder(store: Store) -> SealedFolder[DerivedMetrics]:
    """Return a results folder's derived metrics."""
    return SealedFolder(store.root, "derived_metrics", DerivedMetrics, "derived", SCHEMA, _name, AGAIN)


def _name(derived: Naming) -> str:
    """Return the path of a derived metric below the folder of derived metrics."""
    return f"{derived.approach}/{derived.recipe}__{derived.profile}__seed{derived.seed}__{derived.key[:8]}.json"


def keys_of(ablation: Ablation) -> tuple[str, ...]:
    """Return the keys to read from the published fits of an ablation's approach."""
    return tuple(dict.fromkeys(place.key for place in ablation.places() if place.source == "derived"))


def read_all(store: Store) -> tuple[list[DerivedMetrics], list[Problem]]:
    """Return the derived metrics made at today's versions, and the files that cannot be trusted."""
    derived_metrics, problems = folder(store).read_all()
    return [one for one in derived_metrics if one.version == VERSION and not is_stale(one)], problems
