"""Reads the records of gated cells, and chooses those that count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.core.folder import Problem
from bench.core.records import Record
from bench.core.store import Store
from bench.judge.gate.config import TRAIN, Gate, GatedCell
from bench.judge.results import Results, select


@dataclass(frozen=True)
class Folder:
    """The records of one results folder that the gate compares."""

    store: Store
    results: Results
    problems: tuple[Problem, ...]

    @classmethod
    def read(cls, root: Path, gate: Gate) -> Folder:
        """Read the records under the gate's conditions, and a problem for each file that cannot be trusted."""
        store = Store(root)
        records, problems = store.all_records()
        chosen = select(records, gate.profile, gate.device.split(":")[0], gate.precision)
        return cls(store, Results(chosen, {}), tuple(problems))

    def cell(self, cell: GatedCell) -> list[Record]:
        """Return the newest record of each seed of a cell, in the order of the seeds."""
        found = self.results.cell(cell.approach, cell.recipe, cell.protocol)
        return sorted(found, key=lambda record: record.seed)


def fresh_records(gate: Gate, cell: GatedCell, fresh: Folder) -> list[Record]:
    """Return the fresh records of a cell that today's code planned; records of another plan do not count."""
    records = fresh.cell(cell)
    found = []
    for planned in gate.planned(cell, gate.seeds_of(cell)):
        found += [record for record in records if record.key == planned.key]
    return found


def finished(records: Sequence[Record]) -> list[Record]:
    """Return the finished records, which have numbers."""
    return [record for record in records if record.outcome == "done"]


def labels_measured(folder: Folder, record: Record) -> NDArray[np.generic] | None:
    """Return the labels of the test rows that a record was measured on; None if it has no scores of them."""
    labels = folder.store.scores(record).get("mnist/label")
    return labels if labels is not None and labels.size else None


def title_of(cell: GatedCell, record: Record) -> str:
    """Return the name of a record, for the text of a check."""
    return f"{cell.name}, seed {record.seed}"


def key_of(cell: GatedCell, key: str) -> str:
    """Return a metric's key in which the cell's training split replaces `TRAIN`."""
    return key.replace(TRAIN, cell.split)
