"""`plan`: which cells a run would train, and how long that would take; `status`: which cells have records."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import psutil

from bench.cli import INCOMPLETE
from bench.cli.options import add_selection, add_wide, select, threads, workers
from bench.core import locks
from bench.core.reasons import in_words
from bench.core.records import Record
from bench.core.store import Store
from bench.core.text import counted, duration, one_line, visible
from bench.plan.cells import Cell
from bench.plan.computations import arrange, checkpoint_key, fit_keys
from bench.plan.costs import CostEstimate, Speed, estimates, speed_here, time_for
from bench.plan.freshness import is_stale
from bench.run.executors import threads_of_a_fit
from bench.run.existing import existing, final, is_final
from bench.show.table import Table
from bench.show.terminal import shown

MOST_PRINTED = 20_000  # characters of a failed cell's traceback and output: the last ones
LONGEST_LINE = 300  # characters
CELLS_PRINTED, LINES_PRINTED = 3, 8  # without --wide
MINUTES = len("2026-01-31T12:00")  # characters of a time without its seconds
NOTHING = CostEstimate(0.0, 0.0, "")  # the cost of a cell that will not run
PLANNED = ("cell", "state", "training", "measuring", "seeds together", "basis")  # names of the columns of `plan`


class PlannedCell(NamedTuple):
    """A line of `plan`. Seconds are None if there is no estimate yet."""

    cell: str
    state: str
    training: float | None
    measuring: float | None
    n_seeds: int  # that are fitted together
    basis: str  # of the estimate, or why the cell cannot run


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Add the options of `plan`."""
    add_selection(parser)
    add_wide(parser)
    parser.add_argument("--threads", type=threads, help="threads of a fit, as for `run`")
    parser.add_argument("--workers", type=workers, metavar="N", help="fits at a time, as for `run`")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(action=_plan)


def add_status(parser: argparse.ArgumentParser) -> None:
    """Add the options of `status`."""
    add_selection(parser)
    add_wide(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(action=_status)


def _pending(chosen: Sequence[Cell], store: Store) -> dict[str, list[Cell]]:
    """Map the key of each pending run to its seed batch."""
    finished = {cell.key for cell in chosen if final(cell, store) is not None}
    return {cell.key: group for group in arrange(chosen, store, finished) for cell in group}


def _plan(arguments: argparse.Namespace) -> int:
    chosen = select(arguments)
    store = Store(arguments.results)
    a_fits_threads = threads_of_a_fit("process", arguments.threads, arguments.workers)
    to_do = _pending(chosen, store)
    pending = [cell for cell in chosen if cell.key in to_do and not cell.skip]
    speed = speed_here(chosen[0].device, a_fits_threads) if pending else Speed(None)
    costs = estimates(pending, store.records_of(cell.approach for cell in pending)[0], speed)
    rows, seconds = _planned(chosen, store, to_do, costs)
    known = time_for(seconds, arguments.workers or 1)
    unknown = sum(row.training is None or row.measuring is None for row in rows)
    if arguments.json:
        found = [dict(zip(PLANNED, row, strict=True)) for row in rows]
        totals = {"expected_s": known, "cells_of_unknown_length": unknown, "busy_cores": speed.busy_cores}
        print(json.dumps({"cells": found, **totals}, indent=1))
        return 0
    more = f"; no estimate for {counted(unknown, 'cell')}" if unknown else ""
    texts = [
        (row.cell, row.state, duration(row.training), duration(row.measuring), str(row.n_seeds), row.basis)
        for row in rows
    ]
    table = Table("plan", "", "", PLANNED, texts)
    table = table if arguments.wide else table.without(("basis", "seeds together"))
    print(shown(table, "", *_busy(speed), f"expected in total: {duration(known)}{more}"))
    return 0


def _planned(
    chosen: Sequence[Cell], store: Store, to_do: Mapping[str, list[Cell]], costs: Mapping[str, CostEstimate]
) -> tuple[list[PlannedCell], list[float]]:
    """Return the line of each cell, and the expected seconds of each group of cells that one process will do.

    Args:
        chosen: the cells.
        store: where kept fits are looked for.
        to_do: from `_pending`.
        costs: of the cells that can and will run, by key.
    """
    rows = []
    trained = set()  # keys of fits that an earlier cell trains
    seconds: dict[str, float] = {}  # by the key of a group's first cell
    for cell in chosen:
        group = to_do.get(cell.key, [])
        cost = costs.get(cell.key, NOTHING)
        is_trained = cell.fit_key in trained or store.fit_path(cell.fit_key, "posterior").exists()
        training = 0.0 if is_trained else cost.fit_s
        measuring = cost.measure_s
        if group:
            trained.add(cell.fit_key)
            seconds[group[0].key] = seconds.get(group[0].key, 0.0) + (training or 0.0) + (measuring or 0.0)
        state = "done" if not group else "cannot run here" if cell.skip else "to do"
        basis = in_words(cell.skip) or cost.basis
        rows.append(PlannedCell(cell.title(), state, training, measuring, len(fit_keys(group)), basis))
    return rows, list(seconds.values())


def _busy(speed: Speed) -> list[str]:
    if speed.busy_cores is None:
        return []
    return [
        f"This machine is busy: other processes use {speed.busy_cores:.1f} of {psutil.cpu_count()} cores. The times "
        "are those of the records, not scaled to this machine; a run beside the other processes takes longer."
    ]


def _status(arguments: argparse.Namespace) -> int:
    chosen = select(arguments)
    store = Store(arguments.results)
    to_do = _pending(chosen, store)
    rows = []
    is_complete = True
    details: dict[str, str] = {}  # traceback and output of each failed cell, by its title
    for cell in chosen:
        record = existing(cell, store)
        if record is not None and record.detail:
            lines = visible(record.detail).rstrip().splitlines()
            details[cell.title()] = "\n".join(line[:LONGEST_LINE] for line in lines)[-MOST_PRINTED:]
        is_complete &= record is not None and record.outcome == "done" and not is_stale(record)
        state, by = _state(cell, record, store, to_do)
        fit_s = record.timings.fit_s if record else None
        rows.append(
            {
                "cell": cell.title(),
                "state": state,
                "by": by,
                "made": record.provenance.started if record else "",
                "training": "" if fit_s is None else duration(fit_s),
                "reason": one_line(in_words(record.reason if record else cell.skip)),
            }
        )
    if arguments.json:
        print(json.dumps([{**row, "detail": details.get(row["cell"], "")} for row in rows], indent=1))
    else:
        print(shown(_status_table(rows, arguments.wide), *_failure_texts(details, arguments.wide)))
    return 0 if is_complete else INCOMPLETE


def _state(cell: Cell, record: Record | None, store: Store, to_do: Mapping[str, list[Cell]]) -> tuple[str, str]:
    """Return the state of a cell, and which process works on it; `to_do`: from `_pending`."""
    if (record is None or not is_final(record)) and locks.is_held(store.root, cell.fit_key):
        holder = locks.holder(store.root, cell.fit_key)
        return "running", f"process {holder.pid} on {holder.host} since {holder.since}" if holder else ""
    if record is None:
        checkpoint = store.fit_path(checkpoint_key(to_do[cell.key]), "checkpoint")
        return "interrupted, will resume" if checkpoint.exists() else "missing", ""
    return record.outcome + (", made at other versions" if is_stale(record) else ""), ""


def _failure_texts(details: Mapping[str, str], wide: bool) -> Iterator[str]:
    """Yield traceback and output of each failed cell; without `wide`, only the last lines, and of a few cells."""
    for title, detail in list(details.items())[: len(details) if wide else CELLS_PRINTED]:
        lines = detail.splitlines()
        kept = lines if wide else lines[-LINES_PRINTED:]
        more = f", last {len(kept)} of {len(lines)} lines (--wide shows more)" if len(kept) < len(lines) else ""
        yield "\n".join(["", f"{title}: traceback and output{more}:", *(f"  {line}" for line in kept)])
    if len(details) > CELLS_PRINTED and not wide:
        yield f"\n{len(details) - CELLS_PRINTED} more cells failed; --wide shows their tracebacks"


def _status_table(rows: Sequence[Mapping[str, str]], wide: bool) -> Table:
    """Return the table of `status`. Empty columns are left out, unless the table is wide."""
    columns = [name for name in rows[0] if wide or any(row[name] for row in rows)]
    shown_rows = rows if wide else [{**row, "made": row["made"][:MINUTES].replace("T", " ")} for row in rows]
    return Table("status", "", "", columns, [[row[name] for name in columns] for row in shown_rows])
