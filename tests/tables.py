"""Tables of made-up records, and their rows by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.core.records import Record
from bench.judge.claims import Claim
from bench.judge.results import Results
from bench.show.material import Material
from bench.show.tables.cells import Entry, Table
from tests.synthetic import manifests


def material(
    records: Sequence[Record], claims: Sequence[Claim] | None = None, known: Mapping[str, Any] | None = None
) -> Material:
    """Return records as if they had been read from a results folder."""
    made = Material(Path("no-such-folder"))
    vars(made)["_stored"] = (records, [])
    vars(made)["results"] = Results(records, manifests() if known is None else known)
    if claims is not None:
        vars(made)["claims"] = list(claims)
    return made


def by_column(table: Table) -> list[dict[str, Entry]]:
    """Return the entries of each row."""
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]
