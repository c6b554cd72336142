"""Tables of made-up records, and their rows by column."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.core.records import Record
from bench.judge.claims import Claim, load_claims
from bench.judge.results import Results
from bench.show.inputs import Inputs
from bench.show.table import Entry, Table
from bench.show.tables.common import ACCURACY
from bench.show.tables.registry import one_table
from tests.synthetic import manifest, manifests, record


def inputs(
    records: Sequence[Record], claims: Sequence[Claim] | None = None, known: Mapping[str, Any] | None = None
) -> Inputs:
    """Return records as if they had been read from a results folder."""
    made = Inputs(Path("no-such-folder"))
    vars(made)["_stored"] = (records, [])
    vars(made)["results"] = Results(records, manifests() if known is None else known)
    if claims is not None:
        vars(made)["claims"] = list(claims)
    return made


def by_column(table: Table) -> list[dict[str, Entry]]:
    """Return the entries of each row."""
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


class Tables:
    """The tables of some records by name, each made when it is asked for."""

    def __init__(self, *records: Record) -> None:
        self.inputs = inputs(records)

    def __getitem__(self, name: str) -> Table:
        return one_table(self.inputs, name)


def line(table: Table, *start: str) -> dict[str, str]:
    """Return the texts of the one row that begins so, by column."""
    rows = list(shown_rows(table))
    (found,) = [row for row in rows if tuple(row.values())[: len(start)] == start]
    return found


def shown_rows(table: Table) -> list[dict[str, str]]:
    """Return the displayed texts of all rows, by column."""
    return [dict(zip(table.columns, row, strict=True)) for row in table.texts()]


def small() -> Inputs:
    key = "mnist/test10k/accuracy"
    records = [
        record("mlp", seed=0, epochs=[{"epoch": 9, key: 0.5}, {"epoch": 10, key: 0.979}]),
        record("mlp", seed=1, epochs=[{"epoch": 9, key: 0.5}, {"epoch": 10, key: 0.981}]),
        record("mlp", "published", "common", seed=0, metrics={"mnist/accuracy": 0.9801}),
        record("mlp", "corrected", "common", seed=0, outcome="failed", reason="a | b"),
        record("mlp", "published+lr-decay", "common", seed=0, metrics={"mnist/accuracy": 0.985}),
    ]
    known = {"mlp": manifest("mlp", "feldman2018"), "uniform": manifest("uniform", corrected=False)}
    claims = [
        claim for claim in load_claims() if re.fullmatch(r"feldman2018\.mlp\.epoch(09|10)\.test_accuracy", claim.id)
    ]
    return inputs(records, claims, known)


def small_accuracy() -> Table:
    return ACCURACY.make(small())
