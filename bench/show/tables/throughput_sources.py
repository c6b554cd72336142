"""The code that a measured speed is of: the approach's own files, its yardstick and the document's code behind it."""

from __future__ import annotations

from pathlib import Path

from bench.core import project
from bench.core.environment import source_hash
from bench.plan import registry
from bench.show.throughput_files import Speeds

REPOSITORY = project.TOP


def source_files(name: str) -> list[Path]:
    """Return the files of an approach, of its yardstick and of the document's code."""
    folders = (REPOSITORY / "benchmarks" / "yardsticks", REPOSITORY / "benchmarks" / "documents")
    return [*registry.source_files(name), *(path for folder in folders if (path := folder / f"{name}.py").is_file())]


def is_of_older_code(speeds: Speeds) -> bool:
    """Return whether that code has changed since a speed was measured; False where no repository is there to tell."""
    known = speeds.provenance.source_sha256
    if known is None or not (REPOSITORY / "benchmarks").is_dir():
        return False
    return known != source_hash(source_files(speeds.approach))
