"""`python -m tests.stress CAMPAIGN`: break things on purpose, print what survived, and fail if something did not."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.cli import FAILED
from bench.cli.main import Parser, guarded
from bench.cli.options import names, seconds
from bench.core.errors import unknown_name
from bench.plan.recipes import profile
from bench.plan.registry import manifest, manifests
from bench.show.tables.render import render
from tests.stress import determinism
from tests.stress.fuzz.arguments import argument_targets, folder_targets
from tests.stress.fuzz.datafiles import data_targets, text_targets
from tests.stress.fuzz.engine import fuzz
from tests.stress.fuzz.stored import stored_targets
from tests.stress.kills import kill_runs
from tests.stress.planted import OUTCOMES, plant
from tests.stress.processes import check_system
from tests.stress.soak import run_together, soak

MOST = 10_000_000
KILLED = ("mlp", "toy_bbb")
SOAKED = ("uniform", "toy_mlp", "toy_bbb", "mlp")  # cheap, and among them all kinds of measuring
OTHERS = ("all", "ci")  # words that name no single campaign
CI = {  # the campaigns of `ci` and their sizes: five minutes on two quiet cores
    "fuzz": {"inputs": 2_500},
    "planted": {"planted": ("exception", "segfault", "memory", "not-a-number")},
    "together": {},
    "kills": {"kills": 5, "approaches": ("toy_bbb",)},
    "determinism": {"approaches": ("uniform", "toy_mlp")},
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the campaigns that the words ask for, those of the process by default, and return the exit code."""
    return guarded(lambda: _main(_parser().parse_args(argv)))


def _parser() -> Parser:
    parser = Parser(prog="python -m tests.stress", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "campaign",
        metavar="CAMPAIGN",
        help=f"{', '.join(CAMPAIGNS)}, all, or ci (all but soak, short)",
    )
    parser.add_argument("--kills", type=_count, default=50, metavar="N", help="of kills (default: 50)")
    parser.add_argument("--inputs", type=_count, default=100_000, metavar="N", help="of fuzz (default: 100000)")
    parser.add_argument("--seconds", type=seconds, default=1800.0, help="of soak (default: 1800)")
    parser.add_argument(
        "--approaches",
        type=names,
        metavar="A,B",
        help=f"of kills ({','.join(KILLED)}), soak ({','.join(SOAKED)}) and determinism (all)",
    )
    parser.add_argument("--profile", default="smoke", help="of soak (default: smoke)")
    parser.add_argument("--seed", type=_seed, default=0, metavar="N", help="of all that is random (default: 0)")
    parser.add_argument("--data-dir", type=Path, help="folder with the data sets, looked at first; of determinism")
    parser.set_defaults(planted=tuple(OUTCOMES))
    return parser


def _count(text: str) -> int:
    return _whole(text, "count", 1)


def _seed(text: str) -> int:
    return _whole(text, "seed", 0)


def _whole(text: str, what: str, least: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 12 and least <= int(text) <= MOST):
        raise argparse.ArgumentTypeError(f"'{text}' is no {what}; give a number from {least} to {MOST}")
    return int(text)


def _main(given: argparse.Namespace) -> int:
    check_system()
    profile(given.profile)
    for name in given.approaches or ():
        manifest(name)
    if given.campaign not in (*CAMPAIGNS, *OTHERS):
        raise unknown_name("campaign", given.campaign, (*CAMPAIGNS, *OTHERS))
    chosen = {"all": CAMPAIGNS, "ci": CI}.get(given.campaign, (given.campaign,))
    faults = []
    for name in chosen:
        sizes = CI[name] if given.campaign == "ci" else {}
        start = time.monotonic()
        faults += CAMPAIGNS[name](argparse.Namespace(**{**vars(given), **sizes}))
        say(f"{name}: {time.monotonic() - start:.0f} s")
    return FAILED if faults else 0


def _printed(name: str, lines: list[str], faults: list[str]) -> list[str]:
    """Print what a campaign came to, and return its faults."""
    lines = [*lines, *(f"FAULT {fault}" for fault in faults)]
    print("\n".join(f"{name}: {line}" for line in lines))
    return faults


def _seed_line(given: argparse.Namespace) -> str:
    return f"all that is random: from seed {given.seed}"


def _kills(given: argparse.Namespace) -> list[str]:
    found = kill_runs(given.kills, given.seed, say, given.approaches or KILLED)
    return _printed("kills", [*found.lines(), _seed_line(given)], found.faults)


def _planted(given: argparse.Namespace) -> list[str]:
    found = plant(given.planted, disks=given.planted == tuple(OUTCOMES))
    return _printed("planted", found.lines(), found.faults)


def _together(given: argparse.Namespace) -> list[str]:
    found = run_together()
    return _printed("together", found.lines(), found.faults)


def _soak(given: argparse.Namespace) -> list[str]:
    found = soak(given.seconds, given.approaches or SOAKED, given.profile, given.seed, say)
    return _printed("soak", [*found.lines(), _seed_line(given)], found.faults)


def _fuzz(given: argparse.Namespace) -> list[str]:
    tried = []
    with tempfile.TemporaryDirectory(prefix="bench-fuzz-") as name:
        place = Path(name)
        targets = [
            *data_targets(place),
            *stored_targets(place),
            *folder_targets(place),
            *text_targets(place),
            *argument_targets(place),
        ]
        for each in fuzz(targets, given.inputs, given.seed):
            tried.append(each)
            say(f"{each.target}: {each.inputs:,} inputs in {each.seconds:.0f} s, {len(each.findings)} findings")
    faults = [f"{each.target}: {found}" for each in tried for found in each.findings]
    whole = (
        f"{sum(each.inputs for each in tried):,} inputs in {sum(each.seconds for each in tried):.0f} s: "
        f"{len(faults)} tracebacks or hangs; slowest {max(each.slowest_s for each in tried) * 1000:.0f} ms of the "
        f"processor, memory +{sum(each.peak_mib for each in tried):.0f} MiB"
    )
    return _printed("fuzz", [*(each.line() for each in tried), whole, _seed_line(given)], faults)


def _determinism(given: argparse.Namespace) -> list[str]:
    new = []
    for name in given.approaches or manifests():
        say(f"{name} ...")
        new += determinism.measure(name, given.data_dir)
    print(render(determinism.table(new), "md"))
    return list(determinism.faults(new))


def say(line: str) -> None:
    """Say how far a campaign is."""
    print(line, file=sys.stderr, flush=True)


CAMPAIGNS: dict[str, Callable[[argparse.Namespace], list[str]]] = {
    "fuzz": _fuzz,
    "planted": _planted,
    "together": _together,
    "kills": _kills,
    "determinism": _determinism,
    "soak": _soak,
}


if __name__ == "__main__":
    sys.exit(main())
