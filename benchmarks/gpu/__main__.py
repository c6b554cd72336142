"""`python -m benchmarks.gpu`: runs the pieces that need a GPU until the time of the call is over; the next goes on.

A piece is a command with what it shows.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.cli import INCOMPLETE
from bench.cli.main import Parser, guarded
from bench.cli.options import positive
from bench.core.errors import StoreError, check_known
from bench.core.files import read_file, write_atomically
from bench.core.precision import check_device
from bench.core.records import Fields
from bench.core.text import duration
from bench.plan.registry import manifests
from benchmarks import many_seeds
from benchmarks.throughput import documents

LIMIT_MIN = 9.0  # a machine that is lent by the hour ends a command after ten minutes
GRACE_S = 30.0  # for the last checkpoint, between SIGINT and SIGKILL
LEAST_S = 20.0  # with less time left, no piece is started
LARGEST = 1 << 20  # bytes of the file of states, at most


class State(Fields, frozen=True, kw_only=True):
    """How a piece ended last."""

    exit_code: int | None = None  # None if the time was over
    seconds: float = 0.0  # of all calls together


def main() -> int:
    """Run the pieces that are not done; return the exit code."""
    return guarded(lambda: _day(_parser().parse_args()))


def _parser() -> Parser:
    parser = Parser(
        prog="python -m benchmarks.gpu",
        description="Everything that only a machine with a CUDA GPU can show, in pieces: the noise, training and "
        "prediction beside the CPU, the published column, 16 seeds at once, CUDA graphs, throughput. Writes records "
        "and tables to DIR, the output of each piece to DIR/gpu. The same command goes on where the last ended.",
        allow_abbrev=False,
    )
    parser.add_argument("pieces", nargs="*", metavar="PIECE", help="kinds or names, see --list (default: all)")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N; cpu rehearses (default: cuda)")
    parser.add_argument("--results", type=Path, required=True, metavar="DIR", help="an own folder for this machine")
    parser.add_argument("--minutes", type=positive, default=LIMIT_MIN, help=f"of this call (default: {LIMIT_MIN:g})")
    parser.add_argument("--small", action="store_true", help="show only that each of the pieces runs")
    parser.add_argument("--list", action="store_true", help="what the pieces are, and which are done")
    return parser


def _day(given: argparse.Namespace) -> int:
    check_device(given.device)
    chosen = _chosen(given)
    conditions = given.device.replace(":", "") + "-small" * given.small  # a rehearsal replaces no state of the day
    file = given.results / "gpu" / f"pieces-{conditions}.json"
    states = _read(file)
    if given.list:
        for piece in chosen:
            print(f"{piece.name:32} {_word(states.get(piece.name)):12} {piece.shows}")
        return 0
    end = time.monotonic() + 60 * given.minutes
    for piece in chosen:
        before = states.get(piece.name)
        if before is not None and before.exit_code == 0:
            continue
        left = end - time.monotonic() - GRACE_S
        if left < LEAST_S:
            break
        print(f"{piece.name}: {piece.shows}", flush=True)
        started = time.monotonic()
        code = _ended(piece, given.results, left)
        seconds = round(time.monotonic() - started + (before.seconds if before is not None else 0.0), 1)
        states[piece.name] = State(exit_code=code, seconds=seconds)
        write_atomically(file, msgspec.json.format(msgspec.json.encode(states)))
        print(f"  {_word(states[piece.name])} after {duration(seconds)}", flush=True)
    open_ones = [piece.name for piece in chosen if _word(states.get(piece.name)) != "done"]
    if open_ones:
        print(f"not done: {', '.join(open_ones)}; the same command goes on with them", file=sys.stderr)
    return INCOMPLETE if open_ones else 0


def _chosen(given: argparse.Namespace) -> list[Piece]:
    known = pieces(given.device, given.results, given.small)
    names = {piece.name for piece in known} | {piece.name.split("/")[0] for piece in known}
    check_known("piece", names, *given.pieces)
    return [
        piece
        for piece in known
        if not given.pieces or piece.name in given.pieces or piece.name.split("/")[0] in given.pieces
    ]


def _read(file: Path) -> dict[str, State]:
    if not file.exists():
        return {}
    try:
        return msgspec.json.decode(read_file(file, LARGEST), type=dict[str, State])
    except (msgspec.DecodeError, OSError) as error:
        raise StoreError(f"{file} cannot be read ({error}); remove it, and every piece runs again") from None


def _word(state: State | None) -> str:
    if state is None:
        return "to do"
    return {0: "done", None: "out of time"}.get(state.exit_code, f"exit code {state.exit_code}")


def _ended(piece: Piece, results: Path, seconds: float) -> int | None:
    """Run a piece for at most `seconds`; return its exit code, None if the time was over."""
    log = results / "gpu" / f"{piece.name.replace('/', '-')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(piece.command, stdout=output, stderr=subprocess.STDOUT)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # a run then keeps its checkpoints
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
            return None
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


if __name__ == "__main__":
    sys.exit(main())


MANY = 16  # seeds in one computation, the most that a run trains together on a GPU (`bench.plan.computations`)


@dataclass(frozen=True)
class Piece:
    """One command; it is done when it has ended with exit code 0."""

    name: str
    shows: str
    command: tuple[str, ...]


def pieces(device: str, results: Path, small: bool) -> list[Piece]:
    """Return the pieces for a device, the cheapest first; with `small`, they only show that everything runs."""
    made: list[Piece] = []
    known = manifests().items()
    on_gpu = [name for name, entry in known if not entry.cpu_float32_only and not entry.missing_framework()]
    together = [name for name in many_seeds.names() if name in on_gpu]
    published = [name for name in on_gpu if manifests()[name].document]  # others have no published protocol

    def add(kind: str, names: Iterable[str], shows: str, words: Callable[[str], list[str]]) -> None:
        for name in names:
            command = (sys.executable, "-m", *words(name))
            made.append(Piece(f"{kind}/{name}", shows, command))

    place = ["--device", device, "--results", str(results)]
    other = "pretend" if device == "cpu" else device
    profile = "smoke" if small else "full"
    few = ["--rounds", "1", "--block", "0.05", "--images", "256", "--draws", "2"] if small else []
    add("noise", ["all"], "one kernel draws the CPU's numbers", lambda _: ["benchmarks.gpu.noise", *place[:2]])
    add(
        "device",
        on_gpu,
        "training and prediction on the device are those of the CPU",
        lambda name: ["tests.implementations.on_device", other, name],
    )
    add(
        "published",
        published,
        "the published column on the device",
        lambda name: [
            *("bench", "run", name, "--recipe", "published", "--protocol", "published", "--profile", profile),
            *("--seeds", "0,", "--apart", *place),
        ],
    )
    add(
        "seeds",
        ["all"],
        f"{MANY} seeds at once beside one after the other",
        lambda _: ["benchmarks.many_seeds", *together, "--groups", "2" if small else str(MANY), *place[:2]],
    )
    add(
        "graphs",
        ["all"],
        "a training step as one CUDA graph beside the same step as it is",
        lambda _: ["benchmarks.gpu.graphs", *place[:2]],
    )
    add(
        "throughput",
        [name for name in documents.names() if name in on_gpu],
        "our code beside the document's, by CUDA events",
        lambda name: ["benchmarks.throughput", name, *few, *place[:2]],
    )
    return made
