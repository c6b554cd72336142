"""The alternatives to a published recipe, and what they measured of a number, for the pooled spread of its verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from bench.judge.ablation.definition import ablation
from bench.judge.ablation.single_changes import ALONE, CONTROL, CUMULATIVE, VARIANT
from bench.judge.claims import ClaimRow, measure
from bench.judge.flatness import siblings
from bench.judge.results import Results
from bench.judge.samples import Samples
from bench.judge.stats.verdicts import end_results
from bench.plan.manifests import ApproachManifest
from bench.plan.registry import of_group

CORRECTED, CORRECTION = "corrected", "correction"
KINDS = (CORRECTED, CORRECTION, VARIANT, CONTROL)
WITHOUT_BAYES = "none"  # `noise` in the manifest of a deterministic network
_HELD_OUT = ("heldout10k-of-train", "train60k")  # a split that a document measures, a training split with its rows


@dataclass(frozen=True)
class Alternative:
    """A recipe that a report could have come from instead of the published one."""

    kind: str  # one of `KINDS`
    approach: str
    recipe: str

    @property
    def name(self) -> str:
        """Return approach and recipe as text."""
        return f"{self.approach} {self.recipe}"


def alternatives(entry: ApproachManifest) -> list[Alternative]:
    """Return the alternatives to an approach's published recipe, each fit once.

    They are the fits that its ablation compares. If the ablation has no control, the documents' networks without Bayes
    are the controls.
    """
    if entry.task != "mnist":
        return []  # a toy has neither corrections nor an ablation
    found: dict[str, Alternative] = {}
    for one in _of_ablation(entry):
        if (one.approach, one.recipe) != (entry.name, "published"):
            found.setdefault(one.name, one)
    if CONTROL not in {one.kind for one in found.values()} and entry.noise != WITHOUT_BAYES:
        for other in of_group(entry.group).values():
            if other.document and other.task == entry.task and other.noise == WITHOUT_BAYES:
                found[other.name] = Alternative(CONTROL, other.name, "published")
    return sorted(found.values(), key=lambda one: KINDS.index(one.kind))


def _of_ablation(entry: ApproachManifest) -> Iterator[Alternative]:
    if "corrected" in entry.recipes:
        yield Alternative(CORRECTED, entry.name, "corrected")
    kinds = {ALONE: CORRECTION, CUMULATIVE: CORRECTION, VARIANT: VARIANT, CONTROL: CONTROL}
    for single_change in ablation(entry.name).single_changes:
        if single_change.kind in kinds:
            before, after = next(iter(single_change.numbers.values()))
            for place in (after, before):
                yield Alternative(kinds[single_change.kind], place.approach, place.recipe)


def learns_what_is_measured(alternative: Alternative, entry: ApproachManifest, split: str) -> bool:
    """Return whether an alternative trains on the rows of `split`, which the published recipe holds out."""
    if alternative.approach != entry.name:
        return False
    base = entry.recipes.get(alternative.recipe.partition("+")[0])
    return base is not None and split.startswith(_HELD_OUT[0]) and base.split == _HELD_OUT[1]


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
