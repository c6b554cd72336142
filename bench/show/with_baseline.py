"""A user's records beside those of a baseline: which of them count, and how a reader tells them apart.

In a trained run that the user has finished, the user's records count. An approach that only the user has is shown as
`mine: NAME`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from msgspec import structs

from bench.core.records import Record
from bench.judge.samples import MissingValue
from bench.plan.freshness import NOT_RETRAINED, is_stale
from bench.plan.manifests import ApproachManifest
from bench.show.table import MINE, Entry, Linked, Measured, Table

GIVEN = " (not retrained)"  # ends the name of somebody's trained model that was only scored
MARK = MissingValue("mine", "measured from your records; what is not marked comes with the suite")


@dataclass(frozen=True)
class WithBaseline:
    """A user's records, and a baseline's records of other trained runs."""

    own: Sequence[Record]
    others: Sequence[Record] = ()
    known: frozenset[str] = frozenset()  # the approaches of the baseline

    @property
    def plain(self) -> list[Record]:
        """Return all records, with the approach names of their files."""
        return [*self.own, *self.others]

    @cached_property
    def records(self) -> list[Record]:
        """Return all records; an approach that only the user has is named `mine: NAME`."""
        return [self._named(record) for record in (*self.own, *self.others)]

    @cached_property
    def new(self) -> frozenset[str]:
        """Return the approaches that only the user has; none without a baseline."""
        return frozenset({record.approach for record in self.own} - self.known if self.others else ())

    @cached_property
    def own_keys(self) -> frozenset[str]:
        """Return the keys of the user's records."""
        return frozenset(record.key for record in self.own)

    def manifests(self, known: Mapping[str, ApproachManifest]) -> dict[str, ApproachManifest]:
        """Return manifests by the approach names of `records`."""
        return {MINE + name if name in self.new else name: entry for name, entry in known.items()}

    def _named(self, record: Record) -> Record:
        start = MINE if record.approach in self.new else ""
        end = GIVEN if record.recipe == NOT_RETRAINED else ""
        if not start + end or is_stale(record):  # no table shows a stale record
            return record
        return structs.replace(record, approach=start + record.approach + end)

    def marked(self, table: Table) -> Table:
        """Return the table with a mark at each of the user's numbers; unchanged if no record is the baseline's."""
        if not self.others:
            return table
        unnamed = {record.key for record in self.own if record.approach not in self.new}  # no `mine: ` tells them

        def marked(entry: Entry) -> Entry:
            if not isinstance(entry, Measured | Linked) or entry.mark or unnamed.isdisjoint(entry.sources):
                return entry
            if isinstance(entry, Linked) and not unnamed.issuperset(
                entry.sources
            ):  # such as a count of records of both
                return entry
            return replace(entry, mark=MARK)

        return replace(table, rows=[[*map(marked, row)] for row in table.rows])

    def said(self, shown: Iterable[Record]) -> str:
        """Return a sentence for captions: which runs of these records are the user's and not named `mine: NAME`.

        '' if there are none, or if no record is the baseline's.
        """
        own = [one for one in shown if one.key in self.own_keys and one.outcome == "done"] if self.others else []
        trained_runs = {
            f"{one.approach} {one.recipe} x {one.protocol}" for one in own if not one.approach.startswith(MINE)
        }
        return f"Yours: {', '.join(sorted(trained_runs))}." if trained_runs else ""


def with_baseline(
    own: Sequence[Record], baseline: Sequence[Record], conditions: tuple[str, str, str], fewest: int = 1
) -> WithBaseline:
    """Return a user's records, and a baseline's records of the trained runs of which the user finished too few seeds.

    Return the user's alone if none of the baseline's has these conditions (profile, device, precision). In a trained
    run that the baseline has and of which the user finished fewer than `fewest` seeds, the user's do not count.
    """
    finished = {(record.series, record.seed) for record in own if record.outcome == "done" and not is_stale(record)}
    taken = {series for series, n in Counter(series for series, _ in finished).items() if n >= fewest}
    others = [record for record in baseline if record.series not in taken]
    if not any(record.conditions == conditions for record in others):
        return WithBaseline(own)
    there = {record.series for record in others}
    kept = [record for record in own if record.series in taken or record.series not in there]
    return WithBaseline(kept, others, frozenset(record.approach for record in baseline))
