"""All tables from records and claims: the one module that others import of this package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from bench.judge.claims import Claim, Record, match
from bench.judge.results import Results, select
from bench.judge.stats.verdicts import Verdict, judge
from bench.show.tables.accuracy import accuracy_table
from bench.show.tables.cells import Table
from bench.show.tables.definitions import definitions_table
from bench.show.tables.files import readme_block, update_readme, write_tables
from bench.show.tables.headline import headline_table
from bench.show.tables.precision import precision_table
from bench.show.tables.pruning import pruning_table
from bench.show.tables.render import render, terminal_summary
from bench.show.tables.reported import claims_table, curves_table
from bench.show.tables.speed import speed_table
from bench.show.tables.throughput import throughput_table
from bench.show.tables.toys import toys_table
from bench.show.tables.uncertainty import calibration_table, detection_table, ood_table, refusal_table
from bench.show.tables.verdicts import summary_table, verdicts_table
from bench.show.throughput_files import Speeds

if TYPE_CHECKING:
    from bench.plan.manifests import ApproachManifest

__all__ = [
    "Table",
    "build_tables",
    "precision_table",
    "readme_block",
    "render",
    "select",
    "terminal_summary",
    "update_readme",
    "verdicts_of",
    "write_tables",
]


def build_tables(
    records: Iterable[Record],
    claims: Sequence[Claim],
    manifests: Mapping[str, ApproachManifest] | None = None,
    speeds: Sequence[Speeds] = (),
) -> dict[str, Table]:
    """Make all tables.

    Args:
        records: records of one profile, device and precision (see `select`), any cells and seeds, failed ones too; of
            several records of one cell and seed the newest counts.
        claims: the reported numbers.
        manifests: the approaches in the order of the tables; None for those of the package.
        speeds: what `python -m benchmarks.throughput` measured, of any devices and precisions; none, no table.

    Raises:
        ConfigError: the records differ in profile, device or precision.
    """
    if manifests is None:
        from bench.plan.registry import manifests as all_manifests  # imports torch, which tables need not

        manifests = all_manifests()
    results = Results(records, manifests)
    rows = match(claims, results.records)
    verdicts = judge(rows)
    tables = (
        headline_table(results, verdicts),
        accuracy_table(results, claims),
        ood_table(results, claims),
        detection_table(results),
        refusal_table(results, claims),
        pruning_table(results, claims),
        calibration_table(results),
        speed_table(results),
        *([throughput_table(speeds, manifests)] if speeds else []),
        curves_table(results, rows),
        toys_table(results, claims),
        claims_table(results, rows),
        verdicts_table(results, verdicts),
        summary_table(results, verdicts),
        definitions_table(),
    )
    return {table.name: table for table in tables}


def verdicts_of(records: Iterable[Record], claims: Sequence[Claim]) -> tuple[Results, list[Verdict]]:
    """Return the records by cell, and the verdict of every claim; records of one profile, device and precision."""
    from bench.plan.registry import manifests  # imports torch, which tables need not

    results = Results(records, manifests())
    return results, judge(match(claims, results.records))
