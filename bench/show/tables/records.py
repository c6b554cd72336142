"""Tables `provenance` and `unfinished`: where the records were made, and which records have no numbers."""

from __future__ import annotations

from collections.abc import Iterable

from bench.core.reasons import in_words
from bench.core.records import Provenance, Record
from bench.judge.results import SHOWN_VERSIONS, code_of, made_at
from bench.show.material import Material
from bench.show.table import Entry, Linked, Table, sources_of


def cited_records(material: Material, tables: Iterable[Table]) -> list[Record]:
    """Return the records of the chosen conditions, and the records of other conditions that these tables show."""
    cited = {source for table in tables for row in table.rows for entry in row for source in sources_of(entry)}
    cited |= {record.key for record in material.results.records}
    return [record for record in material.records if record.key in cited]


def provenance_table(records: Iterable[Record]) -> Table:
    """Return a row for each combination of machine, versions, code and data that made records."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(_origin(record.provenance), []).append(record)
    rows: list[list[Entry]] = []
    for origin, made in sorted(groups.items()):
        minutes = sorted(made_at(record)[:16].replace("T", " ") for record in made)
        sources = tuple(sorted(record.key for record in made))
        *conditions, data = origin
        rows.append([Linked(str(len(made)), sources), *conditions, minutes[0], minutes[-1], data])
    columns = ["records", "machine", "threads", "versions", "code", "first", "last", "data"]
    caption = (
        "A line for each combination. Code: the commit. Data: the first digits of the hash of each file read. First, "
        "last: when the records were measured (UTC)."
    )
    return Table("provenance", "Machines, versions, code and data", caption, columns, rows)


def _origin(provenance: Provenance) -> tuple[str, ...]:
    parts = (provenance.cpu, provenance.accelerator, provenance.platform)
    versions = provenance.versions
    return (
        ", ".join(part for part in parts if part) or "unknown",
        str(provenance.threads or "unknown"),
        ", ".join(f"{name} {versions[name]}" for name in SHOWN_VERSIONS if versions.get(name) not in (None, "absent")),
        code_of(provenance) or "unknown",
        ", ".join(f"{name} {digest[:8]}" for name, digest in sorted(provenance.data_sha256.items())),
    )


def unfinished_table(material: Material) -> Table:
    """Return a row for each record without numbers, and why it has none."""
    results = material.results
    rows: list[list[Entry]] = [
        [*record.combination, str(record.seed), Linked(record.outcome, (record.key,)), in_words(record.reason)]
        for record in results.records
        if record.outcome != "done"
    ]
    n_done = len(results.records) - len(rows)
    caption = f"{n_done} of {len(results.records)} records are finished; the others are listed."
    columns = ["approach", "recipe", "protocol", "seed", "outcome", "why"]
    return Table("unfinished", "What failed or was left out", caption, columns, rows).of(results)
