"""What repeats bit for bit: a file for each approach, and their table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.core.folder import SealedFolder
from bench.core.records import Fields, Outcome, Provenance
from bench.core.text import Digits
from bench.judge.results import origin_of
from bench.judge.samples import Gap
from bench.plan.registry import manifests
from bench.show.cells import Entry, Missing, Number, Table, make_table

REPEATABILITY_SCHEMA = 1
TITLES = {
    "again": "the same process",
    "process": "a new process",
    "block-1": "blocks of 1 row",
    "block-10000": "blocks of 10,000",
    "threads-2": "2 threads",
    "cuda": "GPU",
}
TWO = Digits(significant=2)
CAPTION = (
    "The same seed is fitted again under each condition and compared with a fit on one thread, which predicts 256 rows "
    "in blocks of 64. Exact: all bits are equal. A number: the largest difference of stored weights, or of predicted "
    "probabilities over 4 draws (toys: of the predicted mean). Published recipe, profile smoke (one epoch of two "
    "steps). In a whole training, differences grow."
)
NOTHING_TO_COMPARE = Gap(
    "-", "nothing to compare: no weights, one fit's own weights, or predictions from equal weights"
)


class Likeness(Fields, frozen=True, kw_only=True):
    """Whether two computations gave the same bits, and how far apart they are."""

    exact: bool
    largest: float


class Condition(Fields, frozen=True, kw_only=True):
    """What a second computation under another condition gave; None where there is nothing to compare."""

    weights: Likeness | None = None
    predictions: Likeness | None = None
    missing: str | None = None  # why it was not computed


class Repeatability(Fields, frozen=True, kw_only=True):
    """The content of one file."""

    schema: int
    sha256: str = ""
    approach: str
    outcome: Outcome
    reason: str
    conditions: dict[str, Condition]
    provenance: Provenance


def repeatability_folder(results: Path) -> SealedFolder[Repeatability]:
    """Return what a results folder says of repeatability."""
    return SealedFolder(
        results,
        "determinism",
        Repeatability,
        "report",
        REPEATABILITY_SCHEMA,
        lambda one: f"{one.approach}.json",
        "*.json",
        "make it with python -m tests.stress determinism --write",
    )


def determinism_table(records: Sequence[Repeatability]) -> Table:
    """Two rows for each approach, its weights and its predictions, in the order of the approaches."""
    place = {name: index for index, name in enumerate(manifests())}
    chosen = sorted(records, key=lambda record: (place.get(record.approach, len(place)), record.approach))
    rows = [_row(record, what) for record in chosen for what in ("weights", "predictions")]
    columns, made = ("approach", "of", *TITLES.values()), origin_of([record.provenance for record in chosen])
    return make_table("determinism", "What is repeatable", CAPTION, columns, rows, origin=made)


def _row(record: Repeatability, what: str) -> list[Entry]:
    if record.outcome != "done":
        gap = Missing(Gap(record.outcome, record.reason))
        return [record.approach, what, *[gap] * len(TITLES)]
    found = [record.conditions[name] for name in TITLES]
    return [record.approach, what, *(_cell(one, getattr(one, what)) for one in found)]


def _cell(found: Condition, likeness: Likeness | None) -> Entry:
    if found.missing is not None:
        return Missing(Gap("n/a", found.missing))
    if likeness is None:
        return Missing(NOTHING_TO_COMPARE)
    return "exact" if likeness.exact else Number(likeness.largest, TWO)
