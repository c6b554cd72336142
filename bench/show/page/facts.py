"""Texts and tables about the page itself: what its words mean, who made its records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bench.judge.claims import Record
from bench.judge.results import SHOWN_VERSIONS, Results
from bench.show.tables.cells import Linked, Table, make_table

LEAD = (
    "Recipes of well-known documents on Bayesian neural networks for MNIST, re-run as they were published, mistakes "
    "included, and with their corrections; measured as each document did, and all alike in one protocol. Every number "
    "that a document reports is set beside ours, with a verdict by one rule."
)
TERMS = (
    ("published, corrected", "the recipe as the document runs it; the recipe with its named corrections"),
    (
        "\N{MULTIPLICATION SIGN} published, \N{MULTIPLICATION SIGN} common",
        "measured as the document did; measured alike for all: official test set, 100 draws, mean of probabilities",
    ),
    ("0.9726 \N{PLUS-MINUS SIGN} 0.0008 (5)", "mean, standard deviation and number of seeds; one seed has no spread"),
    ("links", "a measured number leads to its records, a reported one and a verdict to the reasoning"),
    ("n/a, not run, ...", "a number that is not there; the lines below the table say why"),
    ("tables", "a column's name sorts by it, once up, once down, once as it was; the filter keeps rows with all words"),
)


def made_of(records: Sequence[Record], results: Results) -> str:
    """Return what the page was made from, with the records' own dates."""
    days = sorted({day for record in records if (day := measured(record)[:10])})
    span = "" if not days else f", measured {days[0]}" if days[0] == days[-1] else f", measured {days[0]} to {days[-1]}"
    approaches = len({record["approach"] for record in records})
    made = f"Made from {len(records)} records of {approaches} approaches{span}, and nothing else."
    return f"{made} {results.describe()}"


def measured(record: Record) -> str:
    """Return when a record was measured, '' where it does not say."""
    provenance = record.get("provenance", {})
    return str(provenance.get("measured") or provenance.get("started") or "")


def provenance_table(records: Iterable[Record]) -> Table:
    """Return on which machines, with which versions and code the records were made, and when."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(_origin(record.get("provenance", {})), []).append(record)
    rows = []
    for origin, made in sorted(groups.items()):
        minutes = sorted(measured(record)[:16].replace("T", " ") for record in made)
        sources = tuple(sorted(str(record["key"]) for record in made))
        *conditions, data = origin
        rows.append([Linked(str(len(made)), sources), *conditions, minutes[0], minutes[-1], data])
    columns = ["records", "machine", "threads", "versions", "code", "first", "last", "data"]
    caption = (
        "One line for each combination. Code: commit; data: the first digits of the hash of each file that was read. "
        "First, last: when the records were measured, by universal time."
    )
    return make_table("provenance", "Machines, versions, code and data", caption, columns, rows, [])


def _origin(provenance: Any) -> tuple[str, ...]:
    versions = provenance.get("versions", {})
    parts = (provenance.get("cpu"), provenance.get("accelerator"), provenance.get("platform"))
    commit = str(provenance.get("commit") or "unknown")[:10]
    data = provenance.get("data_sha256", {})
    return (
        ", ".join(str(part) for part in parts if part) or "unknown",
        str(provenance.get("threads", "unknown")),
        ", ".join(f"{name} {versions[name]}" for name in SHOWN_VERSIONS if versions.get(name) not in (None, "absent")),
        f"{commit} with changes" if provenance.get("dirty") else commit,
        ", ".join(f"{name} {digest[:8]}" for name, digest in sorted(data.items())),
    )


def unfinished_table(results: Results) -> Table:
    """Records without numbers, and why."""
    rows = [
        [
            record["approach"],
            record["recipe"],
            record["protocol"],
            str(record["seed"]),
            Linked(record["outcome"], (str(record["key"]),)),
            record["reason"],
        ]
        for record in results.records
        if record["outcome"] != "done"
    ]
    n_done = len(results.records) - len(rows)
    caption = f"{n_done} of {len(results.records)} records are finished; the others are listed. {results.describe()}"
    columns = ["approach", "recipe", "protocol", "seed", "outcome", "why"]
    return make_table("unfinished", "What failed or was left out", caption, columns, rows, [])
