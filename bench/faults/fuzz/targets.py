"""All that reads from outside, as targets: data files, records and checkpoints, tables of text, command lines."""

from __future__ import annotations

from pathlib import Path

from bench.faults.fuzz.arguments import argument_targets
from bench.faults.fuzz.datafiles import data_targets
from bench.faults.fuzz.engine import Target
from bench.faults.fuzz.stored import stored_targets
from bench.faults.fuzz.texts import text_targets


def all_targets(folder: Path) -> list[Target]:
    """Return every target; `folder` is an empty one for the files that they read."""
    return [*data_targets(folder), *stored_targets(folder), *text_targets(folder), *argument_targets(folder)]
