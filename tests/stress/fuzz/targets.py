"""All that reads from outside, as targets: data files, records and checkpoints, tables of text, command lines."""

from __future__ import annotations

from pathlib import Path

from tests.stress.fuzz.arguments import argument_targets
from tests.stress.fuzz.datafiles import data_targets
from tests.stress.fuzz.engine import Target
from tests.stress.fuzz.stored import stored_targets
from tests.stress.fuzz.texts import text_targets


def all_targets(folder: Path) -> list[Target]:
    """Return every target; `folder` is an empty one for the files that they read."""
    return [*data_targets(folder), *stored_targets(folder), *text_targets(folder), *argument_targets(folder)]
