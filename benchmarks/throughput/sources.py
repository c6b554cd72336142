"""The code that a measured speed is of: the approach's own files, its yardstick and the document's code behind it."""

from __future__ import annotations

from pathlib import Path

from bench.core import project
from bench.plan import registry

REPOSITORY = project.TOP


def source_files(name: str) -> list[Path]:
    """Return the files of an approach, of its yardstick and of the document's code."""
    folders = (REPOSITORY / "benchmarks" / "yardsticks", REPOSITORY / "benchmarks" / "documents")
    return [*registry.source_files(name), *(path for folder in folders if (path := folder / f"{name}.py").is_file())]
