"""`gate`: does the code still give the numbers of the stored baseline distribution? For CI."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import shlex
import shutil
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench.cli import FAILED, INCOMPLETE
from bench.cli.options import add_approach_path, add_wide, given_folder, given_path, say, threads, warn, workers
from bench.core.errors import BenchError, ConfigError, StoreError
from bench.core.files import check_writable, write_atomically
from bench.core.precision import check_device, check_gpu
from bench.core.project import usual_results
from bench.core.store import Store
from bench.judge.gate.baseline import repeats, run_fresh
from bench.judge.gate.config import GATE, MORE, Gate, load_gate, write_starter
from bench.judge.gate.judge import FAIL, GateReport, judge, unusable
from bench.plan.trained_runs import TrainedRun
from bench.run.progress import Progress
from bench.show.screens import gate as render

MORE_OPTION = "--more"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--gate",
        type=given_path,
        metavar="FILE",
        help=f"which trained runs and metrics to compare (default: the suite's own; with --init, ./{GATE.name})",
    )
    parser.add_argument(
        "--baseline",
        type=given_path,
        default=usual_results(),
        metavar="DIR",
        help="default: ./results, or if it has no records, the shipped records",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--results", type=given_folder, metavar="DIR", help="keep the fresh run here (default: a temporary one)"
    )
    where.add_argument("--fresh", type=given_path, metavar="DIR", help="judge this fresh run instead of making one")
    where.add_argument("--init", metavar="APPROACH", help="write the file of an approach, and say how to go on")
    parser.add_argument(
        MORE_OPTION,
        action="store_true",
        help=f"take {MORE} more fresh seeds, after a failure by chance; the first ones are taken from --results",
    )
    parser.add_argument("--profile", help="length of the fits in the file of --init (default: epoch1)")
    add_approach_path(parser)
    parser.add_argument(
        "--threads", type=threads, help="threads of a fit (default: all cores, a share of them with --workers)"
    )
    parser.add_argument("--workers", type=workers, metavar="N", help="fits at a time (default: 1)")
    parser.add_argument("--junit", type=given_path, metavar="FILE", help="also write JUnit XML")
    parser.add_argument(
        "--summary", type=given_path, metavar="FILE", help="also append Markdown, for a CI's summary page"
    )
    add_wide(parser)
    parser.add_argument("--all", action="store_true", help="also the numbers of every check (default: what fails)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.set_defaults(action=_gate)


def _gate(arguments: argparse.Namespace) -> int:
    if arguments.init is not None:
        return _init(arguments)
    if arguments.profile is not None:
        raise ConfigError("--profile is for --init; the gate's file says which profile it compares")
    if arguments.workers and arguments.fresh:
        raise ConfigError("--workers is for a new run, but --fresh judges an old one; leave one of the two out")
    if arguments.fresh is not None and not arguments.fresh.is_dir():
        raise ConfigError(f"--fresh {arguments.fresh} is not a folder; give one that a gate has filled")
    gate = load_gate(arguments.gate or GATE)
    gate = gate.with_more() if arguments.more else gate
    _check(arguments, gate)
    if arguments.more and arguments.results is None and arguments.fresh is None:
        raise ConfigError(f"{MORE_OPTION} without --results; give the folder of the first seeds, which the gate names")
    with contextlib.ExitStack() as temporary:
        return _judge(arguments, gate, temporary)


def _judge(arguments: argparse.Namespace, gate: Gate, temporary: contextlib.ExitStack) -> int:
    """Train, print, write the files and return the exit code; keep temporary records to which more seeds may come."""
    root = arguments.fresh or arguments.results
    if root is None:
        root = Path(tempfile.mkdtemp(prefix="bench-gate-"))
        temporary.callback(shutil.rmtree, root, ignore_errors=True)
    report = dataclasses.replace(_report(arguments, gate, root), second_look=arguments.more)
    # First, because writing the files below can fail:
    print(json.dumps(render.as_json(report), indent=1) if arguments.json else render.text(report, arguments.all))
    if arguments.junit is not None:
        write_atomically(arguments.junit, render.junit(report))
    if arguments.summary is not None:
        _append(arguments.summary, render.markdown(report) + "\n")
    if advice := _advice(arguments, gate, report, root):  # last, because it trains again, which can fail
        if MORE_OPTION in advice:
            temporary.pop_all()
        (warn if arguments.json else say)(advice)
        if arguments.summary is not None:
            _append(arguments.summary, advice + "\n")
    if FAIL in report.states:
        return FAILED
    return 0 if report.passed else INCOMPLETE


def _init(arguments: argparse.Namespace) -> int:
    """Write the gate file of an approach, and print the commands that make the baseline and judge."""
    path, folder = arguments.gate or Path(GATE.name), "gate-baseline"
    gate = write_starter(path, arguments.init, arguments.profile or "epoch1")
    where = ["--approach-path", arguments.approach_path] if arguments.approach_path else []
    recipes = [word for recipe in gate.gated[0].recipes for word in ("--recipe", recipe)]
    run = ["run", arguments.init, *where, *recipes, "--protocol", "common", "--profile", gate.profile]
    run += ["--seeds", str(gate.baseline_seeds), "--results", folder]
    say(f"wrote {path}; next, make the baseline, then judge:")
    for words in (run, ["gate", "--gate", str(path), *where, "--baseline", folder]):
        say(f"  python -m bench {shlex.join(words)}")
    return 0


def _check(arguments: argparse.Namespace, gate: Gate) -> None:
    """Raise BenchError, before the fresh run, if the report's files, the device or the baseline cannot serve."""
    path: Path | None = arguments.junit
    if path is not None:
        if path.is_dir():
            raise ConfigError(f"--junit {path} is a folder; give a file")
        try:
            check_writable(path.parent)
        except StoreError as error:
            raise ConfigError(f"--junit: {error}") from error
    if arguments.summary is not None:
        _append(arguments.summary, "")
    if arguments.fresh is not None:
        return
    check_device(gate.device)
    check_gpu(gate.precision, gate.device)
    gated, (_, problems_of_files) = {one.approach for one in gate.trained_runs}, Store(arguments.baseline).all_records()
    for problem in problems_of_files:
        if gated & {problem.path.stem, problem.path.parent.name}:  # an archive, or a folder of records
            raise ConfigError(f"--baseline: {problem.reason}")
    if problems := unusable(gate, arguments.baseline):
        every = [one.name for one in gate.trained_runs]
        of = {why: "every trained run" if names == every else ", ".join(names) for why, names in problems.items()}
        said = "; also: ".join(f"{why} (of {names})" for why, names in of.items())
        where = f"profile {gate.profile}, device {gate.device}, precision {gate.precision}"
        raise ConfigError(f"--baseline {arguments.baseline} does not fit ({where}): {said}; make it with `run`")


def _report(arguments: argparse.Namespace, gate: Gate, root: Path) -> GateReport:
    if arguments.fresh is not None:
        return judge(gate, arguments.baseline, root)
    start = time.monotonic()
    _train(arguments, gate, root, adds=arguments.more)
    seconds = time.monotonic() - start
    return dataclasses.replace(judge(gate, arguments.baseline, root), seconds=seconds)


def _train(
    arguments: argparse.Namespace,
    gate: Gate,
    root: Path,
    planned: Sequence[TrainedRun] | None = None,
    adds: bool = False,
) -> None:
    watcher, workers = Progress({}, quiet=arguments.quiet), arguments.workers
    run_fresh(gate, root, arguments.threads, watcher, workers=workers, planned=planned, adds=adds)


def _advice(arguments: argparse.Namespace, gate: Gate, report: GateReport, fresh: Path) -> str:
    """Return how to go on if only statistics failed, and the same seed still gives the same bits; else ''."""
    failed = [check for check in report.checks if check.state == FAIL]
    is_first = not arguments.more and arguments.fresh is None
    if not (failed and is_first) or any(check.p_adjusted is None for check in failed):
        return ""
    names = dict.fromkeys(check.trained_run for check in failed)
    try:
        with tempfile.TemporaryDirectory(prefix="bench-gate-") as root:
            if not repeats(gate, names, arguments.baseline, Path(root), partial(_train, arguments, gate, Path(root))):
                return ""
    except (BenchError, OSError) as error:
        return f"no advice on whether this is chance: {error}"
    words = ["gate", MORE_OPTION, "--results", str(fresh)]  # where it finds the seeds of the first run
    for option in ("gate", "approach_path", "baseline", "threads", "workers"):
        value = getattr(arguments, option)
        words += [] if value is None else [f"--{option.replace('_', '-')}", str(value)]
    why = "probably chance: the baseline's first seed still gives the same numbers, to the last bit"
    return f"{why}; with {MORE} more seeds, the verdict is over all: python -m bench {shlex.join(words)}"


def _append(path: Path, text: str) -> None:
    """Append to the summary file of a CI, to which other steps have written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}; give another --summary") from error
