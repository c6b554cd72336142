"""The exact part of the gate: what no seed noise excuses.

What a check looks at must be there: without it in any finished fresh record, or without any such record, the check is
`missing`.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bench.core.errors import BenchError
from bench.core.reasons import in_words
from bench.core.records import Record
from bench.data.fingerprint import split_hash
from bench.data.manifest import data_hashes
from bench.data.splits import load_split
from bench.judge.claims import Gap
from bench.judge.gate.checks import FAIL, MISSING, NOT_COMPARABLE, PASS, Check, excuse
from bench.judge.gate.config import Gate, GatedCell
from bench.judge.gate.samples import Folder, finished, fresh_records, key_of, labels_measured, read, title_of
from bench.plan.registry import manifest

TEST_SPLIT = "test10k"
WITH_SEED = ("train50k", "heldout10k-of-train")  # splits that every seed draws for itself


def plan_check(gate: Gate, cell: GatedCell, reference: Folder) -> Check:
    """The reference answers what today's code would run: same recipe values, rows, data, draws and definitions."""
    records = reference.cell(cell)
    name = f"plan {cell.name}"
    if not records:
        return Check(name, MISSING, "no reference records")
    for record, planned in zip(records, gate.planned(cell, [record.seed for record in records]), strict=True):
        if planned.skip:
            return Check(name, NOT_COMPARABLE, in_words(planned.skip))
        both = [(planned.fit_key, planned.key), *([planned.twin_keys] if planned.twin_keys else [])]
        if (record.fit_key, record.key) in both:
            continue
        trained = record.fit_key in {fit_key for fit_key, _ in both}
        what = "is measured" if trained else "is trained"
        return Check(name, FAIL, f"it {what} otherwise than the reference was{_changed(record, planned.values)}")
    return Check(name, PASS, f"{len(records)} reference records answer today's plan")


def _changed(record: Record, values: Mapping[str, Any]) -> str:
    old = record.recipe_values
    names = [name for name in {**old, **values} if _plain(old.get(name)) != _plain(values.get(name))]
    return "".join(f"; {name} was {old.get(name)}, is {values.get(name)}" for name in names)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def data_check(gate: Gate, reference: Folder, fresh: Folder) -> Check:
    """Every data file is the one that the records were made from; fresh records name all that the reference's do."""
    today = data_hashes()
    changed: set[str] = set()
    silent, n_fresh = [], 0
    for cell in gate.cells:
        old, new = finished(reference.cell(cell)), finished(fresh.cell(cell))
        changed |= {
            name for record in [*old, *new] for name, sha in _made_from(record).items() if today.get(name) != sha
        }
        wanted = {name for record in old for name in _made_from(record)} or today.keys()
        silent += [title_of(cell, record) for record in new if not wanted <= _made_from(record).keys()]
        n_fresh += len(new)
    if changed:
        return Check("data", FAIL, f"not the files of the records: {', '.join(sorted(changed))}")
    if silent or not n_fresh:
        return Check("data", MISSING, _without(silent, n_fresh, "the hashes of its data files"))
    return Check("data", PASS, f"{n_fresh} fresh records, {len(today)} hashes")


def _made_from(record: Record) -> Mapping[str, str]:
    return record.provenance.data_sha256


def _without(titles: Sequence[str], n: int, what: str) -> str:
    """Say which of n fresh records lack something that a check looks at."""
    if not n:
        return "no fresh record has finished"
    return f"{len(titles)} of {n} fresh records without {what}, first {titles[0]}"


def split_checks(gate: Gate, fresh: Folder, today: datetime.date) -> list[Check]:
    """Every split has the rows that the gate file pins, when loaded here and in the fits of the fresh run."""
    trained = [cell for cell in gate.cells if manifest(cell.approach).task == "mnist"]
    return [
        *(_loaded(name, pinned) for name, pinned in gate.splits.items()),
        *(_trained_on(gate, cell, finished(fresh_records(gate, cell, fresh)), today) for cell in trained),
    ]


def _loaded(name: str, pinned: str) -> Check:
    split, _, seed = name.partition("/")
    try:
        found = split_hash(load_split(split, int(seed or 0)))
    except (BenchError, ValueError) as error:
        return Check(f"split {name}", MISSING, str(error))
    if found != pinned:
        return Check(f"split {name}", FAIL, f"rows of hash {found}, pinned is {pinned[:12]}...")
    return Check(f"split {name}", PASS, "")


def _trained_on(gate: Gate, cell: GatedCell, records: Sequence[Record], today: datetime.date) -> Check:
    title = f"rows learnt from, {cell.name}"
    if not records:
        return Check(title, *excuse(gate, cell.name, "no fresh seed has finished", today))
    for record in records:
        name = f"{cell.split}/{record.seed}" if cell.split in WITH_SEED else cell.split
        found = record.provenance.train_sha256
        if name not in gate.splits:
            return Check(title, MISSING, f"the gate file pins no split '{name}'; its hash here is {found}")
        if found != gate.splits[name]:
            return Check(title, FAIL, f"not those of {name}: hash {found}, pinned is {gate.splits[name][:12]}...")
    return Check(title, PASS, f"{len(records)} fits, rows as pinned")


def label_check(gate: Gate, fresh: Folder) -> Check:
    """The rows that the common protocol measured are the first ones of the official test set."""
    y = load_split(TEST_SPLIT, 0).y.numpy()
    measured = [cell for cell in gate.cells if cell.protocol == "common" and manifest(cell.approach).task == "mnist"]
    n_fresh, without = 0, []
    for cell in measured:
        for record in finished(fresh_records(gate, cell, fresh)):
            n_fresh += 1
            labels = labels_measured(fresh, record)
            if labels is None:
                without.append(title_of(cell, record))
            elif not np.array_equal(labels, y[: labels.size]):
                return Check("rows measured", FAIL, f"{title_of(cell, record)}: not the rows of {TEST_SPLIT}")
    if without or not n_fresh:
        return Check("rows measured", MISSING, _without(without, n_fresh, "its per-row scores"))
    return Check("rows measured", PASS, f"{n_fresh} records, labels as in {TEST_SPLIT}")


def seed_check(gate: Gate, cell: GatedCell, reference: Folder, fresh: Folder, today: datetime.date) -> Check:
    """No two seeds share a number: gated metrics are continuous, so that a tie means that a seed was ignored."""
    new = finished(fresh_records(gate, cell, fresh))
    if not new:
        return Check(f"seeds {cell.name}", *excuse(gate, cell.name, "no fresh seed has finished", today))
    records = [*finished(reference.cell(cell)), *new]
    for metric in cell.metrics:
        key = key_of(cell, metric.key)
        values = [(record.seed, read(record, key)) for record in records]
        for (one, first), (other, second) in itertools.combinations(values, 2):
            if one != other and not isinstance(first, Gap) and first == second:
                return Check(f"seeds {cell.name}", FAIL, f"seeds {one} and {other} agree in {metric.key}: {first!r}")
    return Check(f"seeds {cell.name}", PASS, f"{len(records)} differ")
