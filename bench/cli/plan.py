"""`plan`: which runs a run would train, and how long that would take; `status`: which trained runs have records."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import psutil

from bench.cli import INCOMPLETE
from bench.cli.options import add_lacking, add_selection, add_wide, select, threads, workers
from bench.core import locks
from bench.core.folder import name_once
from bench.core.reasons import in_words
from bench.core.records import Record
from bench.core.store import Store
from bench.core.text import counted, duration, one_line, visible
from bench.plan.costs import CostEstimate, Speed, estimates, speed_here, time_for
from bench.plan.freshness import in_text, is_stale, lacks
from bench.plan.seed_batches import arrange, checkpoint_key, fit_keys
from bench.plan.trained_runs import TrainedRun
from bench.run.executors import threads_of_a_fit
from bench.run.recording import existing, why_again
from bench.show.table import Table
from bench.show.terminal import shown

MOST_PRINTED = 20_000  # characters of a failed trained run's traceback and output: the last ones
LONGEST_LINE = 300  # characters
TRAINED_RUNS_PRINTED, LINES_PRINTED = 3, 8  # without --wide
MINUTES = len("2026-01-31T12:00")  # characters of a time without its seconds
NOTHING = CostEstimate(0.0, 0.0, "")  # the cost of a trained run that will not run
PLANNED = ("trained run", "state", "why", "training", "measuring", "seeds together", "basis")  # columns of `plan`


class PlannedTrainedRun(NamedTuple):
    """A line of `plan`. Seconds are None if there is no estimate yet."""

    trained_run: str
    state: str
    why: str  # it is made again; '' if there is no record or nothing to do
    training: float | None
    measuring: float | None
    n_seeds: int  # that are fitted together
    basis: str  # of the estimate, or why the trained run cannot run


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Add the options of `plan`."""
    add_selection(parser)
    add_lacking(parser)
    add_wide(parser)
    parser.add_argument("--threads", type=threads, help="threads of a fit, as for `run`")
    parser.add_argument("--workers", type=workers, metavar="N", help="fits at a time, as for `run`")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(action=_plan)


def add_status(parser: argparse.ArgumentParser) -> None:
    """Add the options of `status`."""
    add_selection(parser)
    add_lacking(parser)
    add_wide(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(action=_status)


def _stored(chosen: Sequence[TrainedRun], store: Store) -> dict[str, Record | None]:
    """Return the stored records by key."""
    return {trained_run.key: existing(trained_run, store) for trained_run in chosen}


def _again(stored: Mapping[str, Record | None], store: Store, lacking: bool) -> dict[str, str]:
    """Return why `run` makes records again, by key; '' for those that it keeps."""
    return {key: why_again(one, store, lacking=lacking) for key, one in stored.items() if one is not None}


def _pending(chosen: Sequence[TrainedRun], store: Store, again: Mapping[str, str]) -> dict[str, list[TrainedRun]]:
    """Map the key of each pending run to its seed batch; `again`: from `_again`."""
    finished = {key for key, why in again.items() if not why}
    return {trained_run.key: group for group in arrange(chosen, store, finished) for trained_run in group}


def _name_problems(chosen: Sequence[TrainedRun], store: Store) -> None:
    """Name the files of the chosen approaches that cannot be read, such as those of an older version."""
    for problem in store.records_of(trained_run.approach for trained_run in chosen)[1]:
        name_once(problem.reason)


def _plan(arguments: argparse.Namespace) -> int:
    chosen = select(arguments)
    store = Store(arguments.results)
    a_fits_threads = threads_of_a_fit("process", arguments.threads, arguments.workers)
    again = _again(_stored(chosen, store), store, arguments.lacking)
    to_do = _pending(chosen, store, again)
    pending = [trained_run for trained_run in chosen if trained_run.key in to_do and not trained_run.skip]
    speed = speed_here(chosen[0].device, a_fits_threads) if pending else Speed(None)
    costs = estimates(pending, store.records_of(trained_run.approach for trained_run in pending)[0], speed)
    _name_problems(chosen, store)
    rows, seconds = _planned(chosen, store, to_do, again, costs)
    known = time_for(seconds, arguments.workers or 1)
    unknown = sum(row.training is None or row.measuring is None for row in rows)
    if arguments.json:
        found = [dict(zip(PLANNED, row, strict=True)) for row in rows]
        totals = {"expected_s": known, "trained_runs_of_unknown_length": unknown, "busy_cores": speed.busy_cores}
        print(json.dumps({"trained runs": found, **totals}, indent=1))
        return 0
    more = f"; no estimate for {counted(unknown, 'trained run')}" if unknown else ""
    texts = [(*row[:3], duration(row.training), duration(row.measuring), str(row.n_seeds), row.basis) for row in rows]
    table = Table("plan", "", "", PLANNED, texts)
    empty = () if any(row.why for row in rows) else ("why",)
    table = table if arguments.wide else table.without(("basis", "seeds together", *empty))
    learnt = sum(one.is_shipped and one.fit_s is not None for one in costs.values())
    whose = [f"times of {counted(learnt, 'trained run')} are learnt from the shipped records, the others from yours"]
    print(shown(table, "", *_busy(speed), *(whose if learnt else ()), f"expected in total: {duration(known)}{more}"))
    return 0


def _planned(
    chosen: Sequence[TrainedRun],
    store: Store,
    to_do: Mapping[str, list[TrainedRun]],
    again: Mapping[str, str],
    costs: Mapping[str, CostEstimate],
) -> tuple[list[PlannedTrainedRun], list[float]]:
    """Return the line of each trained run, and the expected seconds of each group of runs that one process will do.

    Args:
        chosen: the trained runs.
        store: where kept fits are looked for.
        to_do: from `_pending`.
        again: from `_again`.
        costs: of the trained runs that can and will run, by key.
    """
    rows = []
    trained = set()  # keys of fits that an earlier trained run trains
    seconds: dict[str, float] = {}  # by the key of a group's first trained run
    for trained_run in chosen:
        group = to_do.get(trained_run.key, [])
        cost = costs.get(trained_run.key, NOTHING)
        is_trained = trained_run.fit_key in trained or store.has_fit(trained_run.fit_key)
        training = 0.0 if is_trained else cost.fit_s
        measuring = cost.measure_s
        if group:
            trained.add(trained_run.fit_key)
            seconds[group[0].key] = seconds.get(group[0].key, 0.0) + (training or 0.0) + (measuring or 0.0)
        state = "done" if not group else "cannot run here" if trained_run.skip else "to do"
        basis = in_words(trained_run.skip) or cost.basis
        why, together = again.get(trained_run.key, ""), len(fit_keys(group))
        rows.append(PlannedTrainedRun(trained_run.title(), state, why, training, measuring, together, basis))
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
    stored = _stored(chosen, store)
    again = _again(stored, store, arguments.lacking)
    to_do = _pending(chosen, store, again)
    _name_problems(chosen, store)
    rows = []
    is_complete = True
    details: dict[str, str] = {}  # traceback and output of each failed trained run, by its title
    for trained_run in chosen:
        record = stored[trained_run.key]
        if record is not None and record.detail:
            lines = visible(record.detail).rstrip().splitlines()
            details[trained_run.title()] = "\n".join(line[:LONGEST_LINE] for line in lines)[-MOST_PRINTED:]
        is_complete &= record is not None and record.outcome == "done" and trained_run.key not in to_do
        state, by = _state(trained_run, record, store, to_do)
        reason = in_words(record.reason if record else trained_run.skip)
        fit_s = record.timings.fit_s if record else None
        rows.append(
            {
                "trained run": trained_run.title(),
                "state": state,
                "by": by,
                "made": record.provenance.started if record else "",
                "training": "" if fit_s is None else duration(fit_s),
                "reason": one_line(reason or _lack(record, again.get(trained_run.key, ""))),
            }
        )
    if arguments.json:
        print(json.dumps([{**row, "detail": details.get(row["trained run"], "")} for row in rows], indent=1))
    else:
        print(shown(_status_table(rows, arguments.wide), *_failure_texts(details, arguments.wide)))
    return 0 if is_complete else INCOMPLETE


def _state(
    trained_run: TrainedRun, record: Record | None, store: Store, to_do: Mapping[str, list[TrainedRun]]
) -> tuple[str, str]:
    """Return the state of a trained run, and which process works on it; `to_do`: from `_pending`."""
    if trained_run.key in to_do and locks.is_held(store.root, trained_run.fit_key):
        holder = locks.holder(store.root, trained_run.fit_key)
        return "running", f"process {holder.pid} on {holder.host} since {holder.since}" if holder else ""
    if record is None:
        checkpoint = store.fit_path(checkpoint_key(to_do[trained_run.key]), "checkpoint")
        return "interrupted, will resume" if checkpoint.exists() else "missing", ""
    return record.outcome + (", made at other versions" if is_stale(record) else ""), ""


def _lack(record: Record | None, why: str) -> str:
    """Return why a record without a reason of its own is made again, or what it lacks although `run` keeps it."""
    text = in_text(lacks(record)) if record is not None and not why else ""
    return why or (f"{text}; `run --lacking` trains it again" if text else "")


def _failure_texts(details: Mapping[str, str], wide: bool) -> Iterator[str]:
    """Yield traceback and output of each failed trained run; without `wide`, only the last lines, and of a few runs."""
    for title, detail in list(details.items())[: len(details) if wide else TRAINED_RUNS_PRINTED]:
        lines = detail.splitlines()
        kept = lines if wide else lines[-LINES_PRINTED:]
        more = f", last {len(kept)} of {len(lines)} lines (--wide shows more)" if len(kept) < len(lines) else ""
        yield "\n".join(["", f"{title}: traceback and output{more}:", *(f"  {line}" for line in kept)])
    if len(details) > TRAINED_RUNS_PRINTED and not wide:
        yield f"\n{len(details) - TRAINED_RUNS_PRINTED} more trained runs failed; --wide shows their tracebacks"


def _status_table(rows: Sequence[Mapping[str, str]], wide: bool) -> Table:
    """Return the table of `status`. Empty columns are left out, unless the table is wide."""
    columns = [name for name in rows[0] if wide or any(row[name] for row in rows)]
    shown_rows = rows if wide else [{**row, "made": row["made"][:MINUTES].replace("T", " ")} for row in rows]
    return Table("status", "", "", columns, [[row[name] for name in columns] for row in shown_rows])
