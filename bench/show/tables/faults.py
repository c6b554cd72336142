"""The table of what was tried to break the suite: the fault tests' figures."""

from __future__ import annotations

from collections.abc import Iterable

from bench.show.cells import Table, make_table
from bench.show.measured import FaultFile

CAPTION = "Kills, planted failures, runs that share a folder, and hostile input: results of the last campaigns."


def fault_table(tested: Iterable[FaultFile]) -> Table:
    """Return a row for each line of each kind of test."""
    rows = [[found.name, line] for found in tested for line in found.lines]
    return make_table("fault_tests", "What was tried to break it", CAPTION, ("test", "result"), rows)
