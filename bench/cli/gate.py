"""`gate`: does the code still give the numbers of the stored reference distribution? For CI."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from bench.cli.options import FAILED, INCOMPLETE, Commands, count, threads
from bench.core.errors import ConfigError, StoreError
from bench.core.project import REFERENCE

if TYPE_CHECKING:
    from bench.judge.gate.checks import Report
    from bench.judge.gate.config import Gate

PLANTED = REFERENCE / "planted.csv"


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    gate = commands.add_parser("gate", help="does the code still give the numbers of the stored reference? (for CI)")
    gate.add_argument("--gate", type=Path, metavar="FILE", help="what is gated (default: results/reference/gate.toml)")
    gate.add_argument("--reference", type=Path, default=Path("results"), metavar="DIR", help="default: results")
    where = gate.add_mutually_exclusive_group()
    where.add_argument("--results", type=Path, metavar="DIR", help="keep the fresh run here (default: a temporary one)")
    where.add_argument("--fresh", type=Path, metavar="DIR", help="judge this fresh run instead of making one")
    gate.add_argument("--threads", type=threads, help="threads of a fit (default: all cores, or a worker's share)")
    gate.add_argument("--workers", type=count, metavar="N", help="fits at a time, but for the repeats (default: 1)")
    gate.add_argument("--junit", type=Path, metavar="FILE", help="also write JUnit XML")
    gate.add_argument("--summary", type=Path, metavar="FILE", help="also append Markdown, for a CI's summary page")
    gate.add_argument("--json", action="store_true", help="for machines")
    gate.add_argument("--quiet", action="store_true", help="no progress")
    gate.add_argument("--plant", metavar="FAULT", help="plant a fault in the fresh run, which the gate must catch")
    gate.add_argument("--only", action="append", metavar="APPROACH", help="with --plant: only the cells of this one")
    gate.add_argument("--save", action="store_true", help="with --plant: keep the fault's effects for --power")
    gate.add_argument("--power", action="store_true", help="how surely each planted fault is caught; runs nothing")
    gate.add_argument(
        "--effects", type=Path, default=PLANTED, metavar="FILE", help="where the faults' effects are kept"
    )
    gate.set_defaults(action=_gate)


def _gate(arguments: argparse.Namespace) -> int:
    from bench.judge.gate.config import GATE, load_gate

    _check(arguments)
    gate = load_gate(arguments.gate or GATE)
    if arguments.power:
        return _power(arguments, gate)
    if arguments.only:
        gate = _narrowed(gate, arguments.only)
    _check_files(arguments)
    report = _report(arguments, gate)
    _print(arguments, report)
    _write(arguments, report)
    if arguments.save:
        from bench.judge.gate.power import effects_of, save_effects

        save_effects(arguments.effects, effects_of(arguments.plant, report))
    return _exit_code(report)


def _check(arguments: argparse.Namespace) -> None:
    if arguments.workers and (arguments.plant or arguments.fresh or arguments.power):
        raise ConfigError(
            "--workers is for a gate's own fresh run: a planted fault is in one process, the rest run none"
        )
    if not arguments.plant and (arguments.only or arguments.save):
        raise ConfigError("--only and --save go with --plant: a gate that looks at less is no gate")
    if arguments.fresh is not None:
        if arguments.plant:
            raise ConfigError("--plant runs anew; give it --results, not --fresh")
        if not arguments.fresh.is_dir():
            raise ConfigError(f"--fresh {arguments.fresh} is no folder")


def _check_files(arguments: argparse.Namespace) -> None:
    """Raise before the fresh run, not after it, where what it finds cannot be written."""
    from bench.core.sealed import check_writable

    replaced = {"--junit": arguments.junit, "--effects": arguments.effects if arguments.save else None}
    for option, path in replaced.items():
        if path is None:
            continue
        if path.is_dir():
            raise ConfigError(f"{option} {path} is a folder; give a file")
        try:
            check_writable(path.parent)
        except StoreError as error:
            raise ConfigError(f"{option} {path}: {error}") from error
    if arguments.summary is not None:
        _append(arguments.summary, "")


def _narrowed(gate: Gate, approaches: list[str]) -> Gate:
    kept = tuple(cell for cell in gate.cells if cell.approach in approaches)
    if not kept:
        raise ConfigError(f"no gated cell is of {', '.join(approaches)}")
    names = {cell.name for cell in kept}
    return dataclasses.replace(
        gate,
        cells=kept,
        repeated=tuple(name for name in gate.repeated if name in names),
        waivers=tuple(waiver for waiver in gate.waivers if waiver.cell in names),
    )


def _report(arguments: argparse.Namespace, gate: Gate) -> Report:
    from bench.judge.gate.judge import judge
    from bench.judge.gate.power import read_effects

    effects = read_effects(arguments.effects) if arguments.effects.exists() else []
    today = datetime.datetime.now(datetime.timezone.utc).date()
    if arguments.fresh is not None:
        return judge(gate, arguments.reference, arguments.fresh, today, effects)
    place = nullcontext(arguments.results) if arguments.results else tempfile.TemporaryDirectory(prefix="bench-gate-")
    with place as root:
        start = time.monotonic()
        _run(arguments, gate, Path(root))
        seconds = time.monotonic() - start
        report = judge(gate, arguments.reference, Path(root), today, effects)
        return dataclasses.replace(report, seconds=seconds)


def _run(arguments: argparse.Namespace, gate: Gate, root: Path) -> None:
    from bench.judge.gate.fresh import run_fresh
    from bench.run.progress import Progress

    progress = Progress({}, quiet=arguments.quiet)
    if not arguments.plant:
        run_fresh(gate, root, arguments.threads, progress, workers=arguments.workers)
        return
    from bench.judge.gate.plants import fault

    with fault(arguments.plant).plant():  # in this process, which is the only one that the fault is in
        run_fresh(gate, root, arguments.threads, progress, executor="inline")


def _print(arguments: argparse.Namespace, report: Report) -> None:
    """Print the report, before anything else can fail."""
    from bench.show import gate as render

    print(json.dumps(render.as_json(report), indent=1) if arguments.json else render.text(report))


def _write(arguments: argparse.Namespace, report: Report) -> None:
    from bench.core.store import write_atomically
    from bench.show import gate as render

    if arguments.junit is not None:
        write_atomically(arguments.junit, render.junit(report))
    if arguments.summary is not None:
        _append(arguments.summary, render.markdown(report) + "\n")


def _append(path: Path, text: str) -> None:
    """Append to the summary: a hosted CI gives a file that other steps have written to."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}; give another --summary") from error


def _exit_code(report: Report) -> int:
    from bench.judge.gate.checks import FAIL

    if FAIL in report.states:
        return FAILED
    return 0 if report.passed else INCOMPLETE


def _power(arguments: argparse.Namespace, gate: Gate) -> int:
    from bench.judge.gate.power import power_table, read_effects
    from bench.judge.gate.samples import Folder
    from bench.show import gate_power
    from bench.show.terminal import shown

    rows = power_table(gate, Folder.read(arguments.reference, gate), read_effects(arguments.effects))
    if arguments.json:
        print(json.dumps([dataclasses.asdict(row) for row in rows], indent=1))
    else:
        table = gate_power.power_table(rows)
        print(shown(table, *table.notes))
    return INCOMPLETE if gate_power.unmeasured(rows) else 0
