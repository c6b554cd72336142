"""Judges a fresh run: from two folders of records to a report."""

from __future__ import annotations

import datetime
from pathlib import Path

from bench.judge.gate.checks import WAIVED, GateCheck, GateReport
from bench.judge.gate.closed_forms import closed_form_checks
from bench.judge.gate.config import Gate
from bench.judge.gate.exact import data_check, label_check, plan_check, repeat_checks, seed_check, split_checks
from bench.judge.gate.fresh import AGAIN
from bench.judge.gate.samples import Folder
from bench.judge.gate.shifts import divergences, judge_shifts


def judge(gate: Gate, reference_root: Path, fresh_root: Path, today: datetime.date) -> GateReport:
    """Compare the fresh records with the reference's; both folders are only read.

    Waivers that end before `today` do not count.
    """
    reference, fresh = Folder.read(reference_root, gate), Folder.read(fresh_root, gate)
    again = Folder.read(fresh_root / AGAIN, gate)
    diverged = divergences(gate, reference, fresh, today)
    metrics, counted = judge_shifts(gate, reference, fresh, diverged, today)
    checks: list[GateCheck] = [
        *counted,
        *(plan_check(gate, cell, reference) for cell in gate.cells),
        data_check(gate, reference, fresh),
        *split_checks(gate, fresh, today),
        label_check(gate, fresh),
        *(seed_check(gate, cell, reference, fresh, today) for cell in gate.cells),
        *repeat_checks(gate, reference, fresh, again),
        *closed_form_checks(gate, reference, fresh),
    ]
    unreadable = [problem.reason for folder in (reference, fresh, again) for problem in folder.problems]
    waived = {check.cell for check in metrics if check.state == WAIVED}
    missing = [waiver for waiver in gate.waivers if not waiver.diverged and today <= waiver.until]
    idle = [waiver.cell for waiver in missing if waiver.cell not in waived]
    idle += [found.waiver.cell for found in diverged if not found.is_needed]
    both = {"reference": reference, "fresh": fresh}
    made = {what: [one.provenance for cell in gate.cells for one in place.cell(cell)] for what, place in both.items()}
    counts = tuple(found.counts for found in diverged if not found.is_late)
    return GateReport(gate, tuple(metrics), tuple(checks), made, unreadable, idle, counts)
