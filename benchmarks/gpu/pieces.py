"""The pieces that a GPU is needed for: commands in order, each with what it shows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.plan.registry import manifests
from benchmarks import many_seeds
from benchmarks.throughput import documents

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
