"""`faults`: kills, planted failures, runs that share a folder, hostile input, and a soak, with their figures."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from bench.cli.options import FAILED, names, seconds
from bench.core.errors import ConfigError
from bench.plan.recipes import profile
from bench.plan.registry import manifest

MOST = 10_000_000
SOAKED = ("uniform", "toy_mlp", "toy_bbb", "mlp")  # cheap, and among them all kinds of measuring

Figures = dict[str, Any]


def add(commands: Any) -> None:
    """Declare the commands of this file."""
    faults = commands.add_parser(
        "faults",
        help="kill, starve, share and feed runs with rubbish; what survives",
        description="Kills real runs at random moments, plants faults in workers, lets runs share a folder and fuzzes "
        "every reader, prints the figures and writes RESULTS/faults. A number of 0 leaves a part out.",
    )
    faults.add_argument("--kills", type=_count, default=50, metavar="N", help="default: 50")
    faults.add_argument("--inputs", type=_count, default=100_000, metavar="N", help="of the fuzzers (default: 100000)")
    faults.add_argument("--soak", type=seconds, default=0.0, metavar="SECONDS", help="1800: half an hour (default: 0)")
    faults.add_argument(
        "--soaked",
        type=names,
        default=SOAKED,
        metavar="A,B",
        help=f"approaches (default: {','.join(SOAKED)})",
    )
    faults.add_argument("--profile", default="smoke", help="of the soak (default: smoke)")
    faults.add_argument("--seed", type=_count, default=0, metavar="N", help="of all that is random (default: 0)")
    faults.add_argument("--no-planted", action="store_true", help="without planted faults and runs that share a folder")
    faults.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help="default: results")
    faults.add_argument("--json", action="store_true", help="for machines")
    faults.set_defaults(action=_faults)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 12 and int(text) <= MOST):
        raise argparse.ArgumentTypeError(f"'{text}' is no count; give a number from 0 to {MOST}")
    return int(text)


def _faults(arguments: argparse.Namespace) -> int:
    import torch

    from bench.show import faults_files as files
    from bench.show.tables import faults as summary
    from tests.stress.processes import check_system

    check_system()
    profile(arguments.profile)
    for name in arguments.soaked:
        manifest(name)
    made: dict[str, Figures] = {}
    for name, test in _chosen(arguments):
        made[name] = test()
        files.write(arguments.results, name, made[name], arguments.seed, torch.get_num_threads())
        if not arguments.json:
            print("\n".join(summary.lines(msgspec.convert(made[name], files.KINDS[name]))), flush=True)
    if not made:
        raise ConfigError("nothing is left to do; give --kills, --inputs or --soak a number above 0")
    if arguments.json:
        print(json.dumps(made, indent=1))
    return FAILED if any(figures["faults"] for figures in made.values()) else 0


def _chosen(arguments: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Figures]]]:
    """Yield the tests that are asked for, by the names of their files."""
    seed = arguments.seed
    if arguments.inputs:
        yield "fuzz", lambda: _fuzzed(arguments.inputs, seed)
    if not arguments.no_planted:
        yield "planted", _planted
        yield "together", _together
    if arguments.kills:
        yield "kills", lambda: _killed(arguments.kills, seed)
    if arguments.soak:
        yield "soak", lambda: _soaked(arguments)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _killed(n_kills: int, seed: int) -> Figures:
    from tests.stress.kills import kill_runs

    return kill_runs(n_kills, seed, _say).as_json()


def _planted() -> Figures:
    from tests.stress.planted import plant

    return plant().as_json()


def _together() -> Figures:
    from tests.stress.together import run_together

    return run_together().as_json()


def _soaked(arguments: argparse.Namespace) -> Figures:
    from tests.stress.soak import soak

    return soak(arguments.soak, arguments.soaked, arguments.profile, arguments.seed, _say).as_json()


def _fuzzed(inputs: int, seed: int) -> Figures:
    from tests.stress.fuzz import all_targets, fuzz

    with tempfile.TemporaryDirectory(prefix="bench-fuzz-") as folder:
        tried = []
        for each in fuzz(all_targets(Path(folder)), inputs, seed):
            tried.append(each)
            _say(f"{each.target}: {each.inputs:,} inputs in {each.seconds:.0f} s, {len(each.findings)} findings")
    return {
        "inputs": sum(each.inputs for each in tried),
        "seconds": sum(each.seconds for each in tried),
        "slowest_s": max(each.slowest_s for each in tried),
        "peak_mib": sum(each.peak_mib for each in tried),
        "targets": [{**dataclasses.asdict(each), "findings": len(each.findings)} for each in tried],
        "faults": [f"{each.target}, input {found.index}: {found.what}" for each in tried for found in each.findings],
    }
