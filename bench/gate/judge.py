"""From two folders of records to a report."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

from bench.claims import Record
from bench.gate.checks import WAIVED, Check, Report
from bench.gate.closed_forms import closed_form_checks
from bench.gate.config import Gate
from bench.gate.exact import data_check, label_check, plan_check, seed_check, split_checks
from bench.gate.fresh import AGAIN, BLIND
from bench.gate.repeats import repeat_checks
from bench.gate.samples import Folder
from bench.gate.shifts import judge_shifts


def judge(gate: Gate, reference_root: Path, fresh_root: Path, today: datetime.date) -> Report:
    """Return what the fresh records say of the code, beside the reference's; both folders are only read."""
    reference, fresh = Folder.read(reference_root, gate), Folder.read(fresh_root, gate)
    again = Folder.read(fresh_root / AGAIN, gate)
    metrics = judge_shifts(gate, reference, fresh, today)
    checks: list[Check] = [
        *(plan_check(gate, cell, reference) for cell in gate.cells),
        data_check(gate, reference, fresh),
        *split_checks(gate, fresh),
        label_check(gate, fresh),
        *(seed_check(gate, cell, reference, fresh) for cell in gate.cells),
        *repeat_checks(gate, reference, fresh, again),
        *closed_form_checks(gate, fresh.results.cell(BLIND, "published", "common"), fresh),
    ]
    unreadable = [problem.reason for folder in (reference, fresh, again) for problem in folder.problems]
    waived = {check.cell for check in metrics if check.state == WAIVED}
    idle = [waiver.cell for waiver in gate.waivers if waiver.cell not in waived and today <= waiver.until]
    notes = [
        _made("reference", [record for cell in gate.cells for record in reference.cell(cell)]),
        _made("fresh", [record for cell in gate.cells for record in fresh.cell(cell)]),
        *(f"unreadable: {reason}" for reason in unreadable),
        *(f"the waiver of {cell} is not needed any more" for cell in idle),
    ]
    return Report(gate, tuple(metrics), tuple(checks), tuple(notes))


def _made(what: str, records: Sequence[Record]) -> str:
    """Say which machine, versions and code made some records."""
    from bench.report.records import origin

    return f"{what}: {origin(records)[0]}" if records else f"{what}: no records"
