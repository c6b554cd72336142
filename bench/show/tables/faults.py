"""What was tried to break the suite: the figures of the fault tests as a table."""

from __future__ import annotations

from collections.abc import Iterable

from bench.show.faults_files import FaultFile
from bench.show.tables.cells import Table, make_table

CAPTION = "Kills, planted failures, runs that share a folder, and hostile input, as last tried here."


def fault_table(tested: Iterable[FaultFile]) -> Table:
    """Return a row for each line of each kind of test."""
    rows = [[found.name, line] for found in tested for line in found.lines]
    return make_table("fault_tests", "What was tried to break it", CAPTION, ("test", "result"), rows)
