"""A user's records beside those of a baseline: which records count, and how a reader tells them apart.

A cell that both have is the user's. An approach that only the user has is shown as `mine: NAME`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from msgspec import structs

from bench.core.records import Record
from bench.judge.samples import Gap
from bench.plan.freshness import is_stale
from bench.plan.manifests import ApproachManifest
from bench.show.cells import Entry, Measured, Table, sources_of

MINE = "mine: "
MARK = Gap("mine", "measured from your records; what is not marked comes with the suite")


@dataclass(frozen=True)
class Beside:
    """A user's records, and a baseline's records of other cells."""

    own: Sequence[Record]
    others: Sequence[Record] = ()
    known: frozenset[str] = frozenset()  # the approaches of the baseline

    @property
    def plain(self) -> list[Record]:
        """Return all records, with the names of approaches that their files have."""
        return [*self.own, *self.others]

    @cached_property
    def records(self) -> list[Record]:
        """Return all records; approaches that only the user has are shown under another name."""
        return [self._named(record) for record in self.own] + list(self.others)

    @cached_property
    def new(self) -> frozenset[str]:
        """Return the approaches that only the user has; none without a baseline."""
        return frozenset({record.approach for record in self.own} - self.known if self.others else ())

    @cached_property
    def own_keys(self) -> frozenset[str]:
        """Return the keys of the user's records."""
        return frozenset(record.key for record in self.own)

    def manifests(self, known: Mapping[str, ApproachManifest]) -> dict[str, ApproachManifest]:
        """Return the manifests by the names that are shown."""
        return {MINE + name if name in self.new else name: entry for name, entry in known.items()}

    def _named(self, record: Record) -> Record:
        if record.approach not in self.new or is_stale(record):  # stale records keep their name and are left out
            return record
        return structs.replace(record, approach=MINE + record.approach)

    def marked(self, table: Table) -> Table:
        """Return a table that marks the user's numbers, if it also shows numbers of the baseline."""
        if not self.others:
            return table
        unnamed = {record.key for record in self.own if record.approach not in self.new}  # else the name says it

        def marked(entry: Entry) -> Entry:
            if not isinstance(entry, Measured) or entry.mark or unnamed.isdisjoint(entry.sources):
                return entry
            return replace(entry, mark=MARK)

        return replace(table, rows=[[*map(marked, row)] for row in table.rows])

    def said(self) -> str:
        """Return a sentence that names the user's cells that a baseline has too, for captions; '' if there are none."""
        shared = [one for one in self.own if self.others and one.approach not in self.new and one.outcome == "done"]
        both = {f"{record.approach} {record.recipe} x {record.protocol}" for record in shared}
        return f"Yours: {', '.join(sorted(both))}." if both else ""

    def only_own(self, table: Table) -> Table:
        """Return the rows of a table that show any of the user's records."""
        own = self.own_keys
        rows = [row for row in table.rows if any(not own.isdisjoint(sources_of(entry)) for entry in row)]
        return replace(table, rows=rows)


def beside(own: Sequence[Record], baseline: Sequence[Record], conditions: tuple[str, str, str]) -> Beside:
    """Return a user's records beside a baseline's records of other cells, or alone if the baseline has none.

    Only the baseline's records of the conditions count. A cell is the user's if the user has a finished record of it.
    """
    taken = {record.series for record in own if record.outcome == "done" and not is_stale(record)}
    others = [record for record in baseline if record.series not in taken]
    if not any(record.conditions == conditions for record in others):
        return Beside(own)
    there = {record.series for record in others}
    kept = [record for record in own if record.series in taken or record.series not in there]
    return Beside(kept, others, frozenset(record.approach for record in baseline))
