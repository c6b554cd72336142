"""What other recipes of an approach measured of a number, for the pooled spread of its verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from bench.judge.ablation.single_changes import VARIANT
from bench.judge.alternatives.named import Alternative, learns_what_is_measured
from bench.judge.claims import ClaimRow, measure
from bench.judge.results import Results
from bench.judge.samples import Samples
from bench.judge.shorter import siblings
from bench.judge.stats.verdicts import end_results


def others(
    results: Results, approach: str, recipe: str, protocol: str, split: str, read: Callable[[str], Samples]
) -> tuple[Samples, ...]:
    """Return what `read` gives of each other recipe of the approach that this protocol measured.

    A recipe that trains on the rows that are measured is left out: its fits scatter less there.
    """
    entry = results.manifests.get(approach)
    names = siblings(results, approach, recipe, protocol)
    if entry is not None:
        names = [
            name for name in names if not learns_what_is_measured(Alternative(VARIANT, approach, name), entry, split)
        ]
    return tuple(map(read, names))


def with_others(rows: Iterable[ClaimRow], results: Results) -> list[ClaimRow]:
    """Return the rows of claims; those of end results with what other recipes measured by the published protocol."""
    every = list(rows)
    ends = {claim.id for claim in end_results(row.claim for row in every)}
    return [replace(row, others=_others(row, results)) if row.claim.id in ends else row for row in every]


def _others(row: ClaimRow, results: Results) -> tuple[Samples, ...]:
    claim = row.claim

    def read(recipe: str) -> Samples:
        return measure(claim, results.trained_run(claim.approach, recipe, "published"))

    return others(results, claim.approach, "published", "published", claim.split, read)
