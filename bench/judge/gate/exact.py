"""The exact checks of the gate: equalities that hold whatever the noise between seeds.

A check is `missing` if no fresh record has finished, or if a finished record lacks what the check looks at.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from bench.core.canonical import plain
from bench.core.errors import BenchError
from bench.core.reasons import in_words
from bench.core.records import Record
from bench.data.fingerprint import split_hash
from bench.data.manifest import data_hashes
from bench.data.splits import load_split
from bench.judge.gate.checks import FAIL, MISSING, NOT_COMPARABLE, PASS, GateCheck, excuse
from bench.judge.gate.config import Gate, GatedCell
from bench.judge.gate.samples import Folder, finished, fresh_records, key_of, labels_measured, title_of
from bench.judge.samples import Gap, metric
from bench.plan.registry import manifest

TEST_SPLIT = "test10k"
WITH_SEED = ("train50k", "heldout10k-of-train")  # splits that differ between seeds
SAME_MACHINE = ("cpu", "vector_instructions", "threads", "source_sha256", "versions")


def plan_check(gate: Gate, cell: GatedCell, reference: Folder) -> GateCheck:
    """Check that today's code would run what the reference ran: same recipe values, rows, data, draws, definitions."""
    records = reference.cell(cell)
    name = f"plan {cell.name}"
    if not records:
        return GateCheck(name, MISSING, "no reference records")
    for record, planned in zip(records, gate.planned(cell, [record.seed for record in records]), strict=True):
        if planned.skip:
            return GateCheck(name, NOT_COMPARABLE, in_words(planned.skip))
        if record.key == planned.key:
            continue
        what = "is measured" if record.fit_key == planned.fit_key else "is trained"
        changed = _changed(record, planned.values)
        return GateCheck(name, FAIL, f"today's plan differs: it {what} in another way than the reference{changed}")
    return GateCheck(name, PASS, f"{len(records)} reference records match today's plan")


def _changed(record: Record, values: Mapping[str, object]) -> str:
    old = record.recipe_values
    names = [name for name in {**old, **values} if plain(old.get(name)) != plain(values.get(name))]
    return "".join(f"; {name} was {old.get(name)}, is {values.get(name)}" for name in names)


def data_check(gate: Gate, reference: Folder, fresh: Folder) -> GateCheck:
    """Check that all records were made from today's data files, and that fresh records name those of the reference."""
    today = data_hashes()
    changed: set[str] = set()
    silent, n_fresh = [], 0
    for cell in gate.cells:
        old, new = finished(reference.cell(cell)), finished(fresh.cell(cell))
        for record in [*old, *new]:
            changed |= {name for name, sha in record.provenance.data_sha256.items() if today.get(name) != sha}
        wanted = {name for record in old for name in record.provenance.data_sha256} or today.keys()
        silent += [title_of(cell, record) for record in new if not wanted <= record.provenance.data_sha256.keys()]
        n_fresh += len(new)
    if changed:
        return GateCheck("data", FAIL, f"data files that are not those of the records: {', '.join(sorted(changed))}")
    if silent or not n_fresh:
        return GateCheck("data", MISSING, _without(silent, n_fresh, "the hashes of their data files"))
    return GateCheck("data", PASS, f"{n_fresh} fresh records, {len(today)} hashes")


def _without(titles: Sequence[str], n: int, what: str) -> str:
    """Return how many of n fresh records lack what a check looks at, and the first one."""
    if not n:
        return "no fresh record has finished"
    return f"{len(titles)} of {n} fresh records lack {what}; the first is {titles[0]}"


def split_checks(gate: Gate, fresh: Folder, today: datetime.date) -> list[GateCheck]:
    """Check that every split has the rows whose hash the gate file gives, as loaded here and as trained on."""
    trained = [cell for cell in gate.cells if manifest(cell.approach).task == "mnist"]
    return [
        *(_loaded(name, pinned) for name, pinned in gate.splits.items()),
        *(_trained_on(gate, cell, finished(fresh_records(gate, cell, fresh)), today) for cell in trained),
    ]


def _loaded(name: str, pinned: str) -> GateCheck:
    split, _, seed = name.partition("/")
    try:
        found = split_hash(load_split(split, int(seed or 0)))
    except (BenchError, ValueError) as error:
        return GateCheck(f"split {name}", MISSING, str(error))
    if found != pinned:
        return GateCheck(f"split {name}", FAIL, f"its rows have hash {found}; the gate file gives {pinned[:12]}...")
    return GateCheck(f"split {name}", PASS, "")


def _trained_on(gate: Gate, cell: GatedCell, records: Sequence[Record], today: datetime.date) -> GateCheck:
    title = f"rows learnt from, {cell.name}"
    if not records:
        return GateCheck(title, *excuse(gate, cell.name, "no fresh seed has finished", today))
    for record in records:
        name = f"{cell.split}/{record.seed}" if cell.split in WITH_SEED else cell.split
        found = record.provenance.train_sha256
        if name not in gate.splits:
            return GateCheck(title, MISSING, f"the gate file pins no split '{name}'; its hash here is {found}")
        if found != gate.splits[name]:
            hashes = f"hash {found}, pinned {gate.splits[name][:12]}..."
            return GateCheck(title, FAIL, f"trained on other rows than split {name}: {hashes}")
    return GateCheck(title, PASS, f"{len(records)} fits, rows as pinned")


def label_check(gate: Gate, fresh: Folder) -> GateCheck:
    """Check that the common protocol measured the first rows of the official test set."""
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
                return GateCheck("rows measured", FAIL, f"{title_of(cell, record)}: not the rows of {TEST_SPLIT}")
    if without or not n_fresh:
        return GateCheck("rows measured", MISSING, _without(without, n_fresh, "their per-row scores"))
    return GateCheck("rows measured", PASS, f"{n_fresh} records, labels as in {TEST_SPLIT}")


def seed_check(gate: Gate, cell: GatedCell, reference: Folder, fresh: Folder, today: datetime.date) -> GateCheck:
    """Check that no two seeds have equal numbers. Gated metrics are continuous, so equality means an ignored seed."""
    new = finished(fresh_records(gate, cell, fresh))
    if not new:
        return GateCheck(f"seeds {cell.name}", *excuse(gate, cell.name, "no fresh seed has finished", today))
    records = [*finished(reference.cell(cell)), *new]
    for gated in cell.metrics:
        key = key_of(cell, gated.key)
        values = [(record.seed, metric(record, key)) for record in records]
        for (one, first), (other, second) in itertools.combinations(values, 2):
            if one != other and not isinstance(first, Gap) and first == second:
                return GateCheck(f"seeds {cell.name}", FAIL, f"seeds {one} and {other} agree in {gated.key}: {first!r}")
    return GateCheck(f"seeds {cell.name}", PASS, f"{len(records)} differ")


def repeat_checks(gate: Gate, reference: Folder, fresh: Folder, again: Folder) -> list[GateCheck]:
    """Check that a seed trained twice gives the same numbers to the last bit.

    The reference must have these numbers too, if it was made in the same way.
    """
    checks = []
    for name in gate.repeat.cells:
        cell = gate.cell(name)
        (planned,) = gate.planned(cell, [gate.repeat.seed], apart=True)
        first, second = (
            next((record for record in finished(folder.cell(cell)) if record.key == planned.key), None)
            for folder in (fresh, again)
        )
        if planned.skip:
            checks.append(GateCheck(f"repeat {name}", NOT_COMPARABLE, in_words(planned.skip)))
            continue
        if first is None or second is None:
            checks.append(GateCheck(f"repeat {name}", MISSING, f"seed {gate.repeat.seed} was not run twice"))
            continue
        checks.append(_same(f"repeat {name}", first, second))
        stored = [record for record in reference.cell(cell) if record.seed == gate.repeat.seed]
        checks.append(_as_stored(f"as stored {name}", first, stored))
    return checks


def _numbers(record: Record) -> dict[str, object]:
    """Return every number of a record except its times."""
    return {**record.metrics, **{f"epoch {epoch.epoch}": epoch.metrics for epoch in record.epochs}}


def _same(title: str, first: Record, second: Record) -> GateCheck:
    one, other = _numbers(first), _numbers(second)
    if not one:
        return GateCheck(title, MISSING, "no numbers to compare")
    differing = [key for key in {**one, **other} if one.get(key) != other.get(key)]
    if differing:
        key = differing[0]
        text = f"{len(differing)} numbers differ, first {key}: {one.get(key)} and {other.get(key)}"
        return GateCheck(title, FAIL, text)
    return GateCheck(title, PASS, f"{len(one)} numbers, equal to the last bit")


def _as_stored(title: str, fresh: Record, stored: Sequence[Record]) -> GateCheck:
    if not stored:
        return GateCheck(title, MISSING, "the reference has no such seed")
    (old,) = stored
    if old.timings.batched != fresh.timings.batched:
        return GateCheck(title, NOT_COMPARABLE, "the reference trained this seed together with others")
    ours, theirs = fresh.provenance, old.provenance
    unlike = [name for name in SAME_MACHINE if getattr(ours, name) != getattr(theirs, name)]
    if unlike:
        return GateCheck(title, NOT_COMPARABLE, f"the reference was made with other {', '.join(unlike)}")
    return _same(title, old, fresh)
