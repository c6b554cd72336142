"""How surely planted faults are caught, in words: those that move metrics, and those that an exact check sees."""

from __future__ import annotations

from collections.abc import Sequence

from bench.judge.gate.checks import Caught
from bench.judge.gate.faults import EXACTLY_CAUGHT, FAULTS
from bench.show.tables.cells import Table, make_table

COLUMNS = ("planted fault", "cell", "seen best in", "shift", "in s", "caught")


def caught_table(rows: Sequence[Caught]) -> Table:
    """Return a row for each planted fault and cell."""
    shown = [
        (row.fault, row.cell, row.metric, f"{row.shift:+.3g}", f"{row.in_sds:+.1f}", f"{row.power:.1%}") for row in rows
    ]
    return make_table("gate_power", "How surely planted faults are caught", "", COLUMNS, shown, notes(rows))


def unmeasured(rows: Sequence[Caught]) -> list[str]:
    """Return the faults that the metrics must catch and that have no row."""
    return sorted(FAULTS.keys() - EXACTLY_CAUGHT.keys() - {row.fault for row in rows})


def notes(rows: Sequence[Caught]) -> list[str]:
    """Return a line for each fault without a row."""
    always = [f"{name}: always caught, by the exact check '{check}'" for name, check in EXACTLY_CAUGHT.items()]
    command = "python -m benchmarks.power"
    return always + [f"{name}: not measured yet; {command} {name} --save does" for name in unmeasured(rows)]


def as_json(rows: Sequence[Caught]) -> dict[str, object]:
    """Return the faults as plain values."""
    return {
        "by_metrics": [vars(row) for row in rows],
        "by_exact_checks": EXACTLY_CAUGHT,
        "not_measured": unmeasured(rows),
    }
