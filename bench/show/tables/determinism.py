"""The table of what repeats bit for bit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.core.text import Digits
from bench.judge.results import origin_of
from bench.judge.samples import Gap
from bench.show.cells import Entry, Missing, Number, Table, make_table
from bench.show.measured import Condition, Likeness, Repeatability

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


def determinism_table(records: Sequence[Repeatability], order: Iterable[str]) -> Table:
    """Two rows for each approach, its weights and its predictions; `order` names the approaches."""
    place = {name: index for index, name in enumerate(order)}
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
