"""`run`, `plan`, `status`: train and measure what is missing, how long that takes, and what is there."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

from bench.cli.ending import ending, reason_width
from bench.cli.options import INCOMPLETE, add_selection, count, positive, seconds, select, threads
from bench.cli.table import write_and_print_tables
from bench.core.errors import ConfigError
from bench.core.locks import Holder
from bench.core.reasons import in_words
from bench.core.store import Store
from bench.core.text import duration
from bench.plan.cells import Cell
from bench.plan.costs import estimates, time_for
from bench.run.progress import JsonLines, Progress


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the options of `run`."""
    add_selection(parser)
    parser.add_argument(
        "--threads",
        type=threads,
        help="threads of a fit (default: all cores, a share of them with --workers, 1 in a pool)",
    )
    parser.add_argument(
        "--executor",
        default="process",
        help="process (default): each fit in its own; inline: in this one; dask: workers on this machine's cores or "
        "GPUs; dask://HOST:PORT: those of a scheduler; slurm: jobs of Slurm (docs/cluster.md)",
    )
    parser.add_argument(
        "--workers",
        type=count,
        metavar="N",
        help="fits at a time, sooner done, but their times do not count (default: 1; of a pool, as many as have room)",
    )
    parser.add_argument(
        "--slurm",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="parameter of the jobs, as submitit calls it: timeout_min=60, slurm_partition=gpu",
    )
    parser.add_argument("--time-limit", type=positive, metavar="SECONDS", help="most seconds for one fit and its cells")
    parser.add_argument("--memory-limit", type=positive, metavar="MIB", help="most address space of a fit's process")
    parser.add_argument(
        "--checkpoint-every",
        type=seconds,
        metavar="SECONDS",
        help="epochs shorter than this share a checkpoint; 0: one after each (default: 2)",
    )
    parser.add_argument("--stale", action="store_true", help="also run again what older code made")
    parser.add_argument("--data-dir", type=Path, help="folder with the data sets, looked at first")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--quiet", action="store_true", help="no progress")
    how.add_argument("--json", action="store_true", help="every event as a line of JSON instead of progress and tables")
    parser.set_defaults(action=_run)


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Add the options of `plan`."""
    add_selection(parser)
    parser.add_argument("--threads", type=threads, help="threads of a fit, as for `run`")
    parser.add_argument("--workers", type=count, metavar="N", help="fits at a time, as for `run`")
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.set_defaults(action=_plan)


def add_status(parser: argparse.ArgumentParser) -> None:
    """Add the options of `status`."""
    add_selection(parser)
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.set_defaults(action=_status)


def _run(arguments: argparse.Namespace) -> int:
    from bench.run.options import Options
    from bench.run.remote.interpreters import interpreters
    from bench.run.remote.opening import open_executor, threads_of_a_fit
    from bench.run.runner import run

    if arguments.executor == "inline" and (arguments.time_limit or arguments.memory_limit):
        raise ConfigError("--time-limit and --memory-limit need a process for each fit; choose another --executor")
    if arguments.data_dir is not None and not arguments.data_dir.is_dir():
        raise ConfigError(f"--data-dir {arguments.data_dir} is no folder; give one with the data sets, or none")
    chosen = select(arguments)
    store = Store(arguments.results)
    records, problems = store.all_records()
    a_fits_threads = threads_of_a_fit(arguments.executor, arguments.threads, arguments.workers)
    costs = estimates(chosen, records, a_fits_threads)
    del records  # a hundred MiB that the run has no use for
    options = Options(
        root=str(arguments.results.resolve()),
        data_dir=str(arguments.data_dir.resolve()) if arguments.data_dir else None,
        threads=a_fits_threads,
        interpreters=interpreters(arguments.interpreter),
        checkpoint_every_s=arguments.checkpoint_every,
        memory_mib=arguments.memory_limit,
        at_once=arguments.workers or 1,
    )
    executor = open_executor(
        arguments.executor,
        arguments.results,
        arguments.device,
        arguments.threads,
        arguments.workers,
        arguments.slurm,
    )
    started = time.monotonic()
    with contextlib.nullcontext() if isinstance(executor, str) else contextlib.closing(executor):
        at_once = 1 if isinstance(executor, str) else executor.width()
        watcher = JsonLines() if arguments.json else Progress(costs, quiet=arguments.quiet, at_once=at_once)
        try:
            results = run(chosen, store, options, watcher, executor, arguments.time_limit, arguments.stale)
        finally:
            if isinstance(watcher, Progress):
                watcher.finish()  # also where it is interrupted: the next line must not land in the middle of ours
    for problem in problems:
        print(f"warning: {problem.reason}", file=sys.stderr)
    is_complete = all(result.outcome == "done" for result in results)
    if not arguments.json:
        write_and_print_tables(arguments)
        print("\n" + "\n".join(ending(results, time.monotonic() - started, arguments, reason_width())))
    return 0 if is_complete else INCOMPLETE


def _as_fitted(chosen: Sequence[Cell], store: Store) -> dict[str, tuple[Cell, list[Cell]]]:
    """Return by identity the cells to be done, as they will be keyed, each with the cells of the same computation."""
    from bench.plan.batches import arrange
    from bench.run.runner import existing, is_final

    todo = [cell for cell in chosen if (record := existing(cell, store)) is None or not is_final(record)]
    return {cell.identity: (cell, group) for group in arrange(todo, store) for cell in group}


def _plan(arguments: argparse.Namespace) -> int:
    from bench.plan.batches import fit_keys
    from bench.run.remote.opening import threads_of_a_fit

    chosen = select(arguments)
    store = Store(arguments.results)
    a_fits_threads = threads_of_a_fit("process", arguments.threads, arguments.workers)
    costs = estimates(chosen, store.all_records()[0], a_fits_threads)
    to_do = _as_fitted(chosen, store)
    rows: list[dict[str, Any]] = []
    seen = set()
    jobs: dict[str, float] = {}  # expected seconds of what one process does, by the key of its first cell
    for named in chosen:
        cell, group = to_do.get(named.identity, (named, []))
        cost = costs[cell.key]
        done = not group
        trained = cell.fit_key in seen or store.fit_path(cell.fit_key, "posterior").exists()
        fit_s = None if done else 0.0 if trained else cost.fit_s
        if not done:
            seen.add(cell.fit_key)
        rows.append(
            {
                "cell": cell.title(),
                "state": "done" if done else "cannot run here" if cell.skip else "to do",
                "training": 0.0 if done or cell.skip else fit_s,
                "measuring": 0.0 if done or cell.skip else cost.measure_s,
                "seeds together": len(fit_keys(group)),
                "basis": in_words(cell.skip) or cost.basis,
            }
        )
        if group:
            job = group[0].key
            jobs[job] = jobs.get(job, 0.0) + (rows[-1]["training"] or 0.0) + (rows[-1]["measuring"] or 0.0)
    known = time_for(list(jobs.values()), arguments.workers or 1)
    unknown = sum(row["training"] is None or row["measuring"] is None for row in rows)
    if arguments.json:
        print(json.dumps({"cells": rows, "expected_s": known, "cells_of_unknown_length": unknown}, indent=1))
        return 0
    shown = [{**row, "training": duration(row["training"]), "measuring": duration(row["measuring"])} for row in rows]
    print(tabulate(shown, headers="keys"))
    more = f", and {unknown} cells of unknown length" if unknown else ""
    print(f"\nexpected in all: {duration(known)}{more}")
    return 0


def _status(arguments: argparse.Namespace) -> int:
    from bench.core import locks, quarantine
    from bench.plan.batches import checkpoint_key
    from bench.run.runner import existing, is_final, is_stale

    chosen = select(arguments)
    store = Store(arguments.results)
    to_do = _as_fitted(chosen, store)
    rows = []
    for cell in chosen:
        record = existing(cell, store)
        state: str = "missing" if record is None else record.outcome
        if record is not None and is_stale(record):
            state += ", made by older code"
        by = ""
        if (record is None or not is_final(record)) and locks.is_held(store.root, cell.lock_key):
            state, by = "running", _who(locks.holder(store.root, cell.lock_key))
        elif record is None and store.fit_path(checkpoint_key(to_do[cell.identity][1]), "checkpoint").exists():
            state = "interrupted, will resume"
        fit_s = record.timings.fit_s if record else None
        rows.append(
            {
                "cell": cell.title(),
                "state": state,
                "by": by,
                "made": record.provenance.started if record else "",
                "training": "" if fit_s is None else duration(fit_s),
                "reason": in_words(record.reason if record else cell.skip),
            }
        )
    print(json.dumps(rows, indent=1) if arguments.json else tabulate(rows, headers="keys"))
    untrusted = quarantine.count(store.root)
    if untrusted:
        folder = store.root / quarantine.FOLDER
        print(f"{untrusted} files were set aside as untrusted: see {folder / quarantine.REASONS}", file=sys.stderr)
    return 0 if all(row["state"].startswith("done") for row in rows) else INCOMPLETE


def _who(holder: Holder | None) -> str:
    """Return which process works on a cell, as far as known."""
    return f"process {holder.pid} on {holder.host} since {holder.since}" if holder else ""
