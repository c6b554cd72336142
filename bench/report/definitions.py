"""The table of definitions: what each metric means."""

from __future__ import annotations

from bench.metrics.table import METRICS
from bench.report.cells import Table, make_table


def definitions_table() -> Table:
    """Return every metric of the common protocol, with its unit and source; it depends on no record."""
    rows = [
        [spec.name, spec.unit, "-" if spec.better == "none" else spec.better, spec.definition, spec.source]
        for spec in METRICS.values()
    ]
    columns = ["metric", "unit", "better", "definition", "source"]
    caption = (
        "Metrics of the common protocol. Better: the direction of merit; -: it depends on the rows, or is no merit in "
        "itself."
    )
    return make_table("definitions", "Every metric", caption, columns, rows, [])
