"""The same seed twice: both runs agree to the last bit. So does the reference, if it was made in the same way."""

from __future__ import annotations

from collections.abc import Sequence

from bench.core.reasons import in_words
from bench.core.records import Record
from bench.judge.gate.checks import FAIL, MISSING, NOT_COMPARABLE, PASS, GateCheck
from bench.judge.gate.config import Gate
from bench.judge.gate.samples import Folder

SAME_MACHINE = ("cpu", "vector_instructions", "threads", "source_sha256", "versions")


def repeat_checks(gate: Gate, reference: Folder, fresh: Folder, again: Folder) -> list[GateCheck]:
    """Check that a seed trained twice gives the same numbers: the reference's too, if it was made in the same way."""
    checks = []
    for name in gate.repeat.cells:
        cell = gate.cell(name)
        (planned,) = gate.planned(cell, [gate.repeat.seed], apart=True)
        first, second = (_of_key(folder.cell(cell), planned.key) for folder in (fresh, again))
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


def _of_key(records: Sequence[Record], key: str) -> Record | None:
    return next((record for record in records if record.key == key and record.outcome == "done"), None)


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
    if old.key != fresh.key:
        return GateCheck(title, NOT_COMPARABLE, "the reference trained this seed together with others")
    ours, theirs = fresh.provenance, old.provenance
    unlike = [name for name in SAME_MACHINE if getattr(ours, name) != getattr(theirs, name)]
    if unlike:
        return GateCheck(title, NOT_COMPARABLE, f"the reference was made with other {', '.join(unlike)}")
    return _same(title, old, fresh)
