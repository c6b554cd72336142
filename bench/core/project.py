"""Where the project's own files lie: a clone's folders, or in an installed wheel the copy inside the package."""

from __future__ import annotations

from pathlib import Path

_ABOVE = Path(__file__).resolve().parents[2]
IS_CLONE = (_ABOVE / "pyproject.toml").is_file()
TOP = _ABOVE if IS_CLONE else _ABOVE / "bench" / "_data"
PACKAGE = _ABOVE / "bench"
RESULTS = TOP / "results"
"""The committed records; nothing is written here unless a user says `--results`."""
REFERENCE = RESULTS / "reference"
DATASETS = TOP / "datasets"
