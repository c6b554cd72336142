"""Tables that list things: every metric, findings of the audit, numbers of papers, origins of records, failures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from bench.core.metric_table import unit_of
from bench.core.reasons import in_words
from bench.core.records import Provenance, Record
from bench.core.text import THREE
from bench.judge.audit.findings import OUTCOMES, Finding
from bench.judge.audit.rules import RULES
from bench.judge.results import SHOWN_VERSIONS, code_of, made_at
from bench.judge.samples import MissingValue, Samples
from bench.judge.stats.papers import OBTAINED, Paper
from bench.show.inputs import Inputs
from bench.show.table import Entry, Linked, Measured, Missing, Table, sources_of

AUDIT_COLUMNS = ("rule", "severity", "outcome", "seen", "effect", "remedy")
NOT_AUDITED = "not applicable"
AUDIT_CAPTION = (
    "Rules for known mistakes, applied to the document; failures first. Ablations say how much each mistake changes "
    "a number."
)


def audit_tables(findings: Iterable[Finding]) -> list[Table]:
    """Return a table for each document, without the rules that do not apply to it."""
    lines: dict[str, list[list[str | None]]] = {}
    for found in sorted(findings, key=lambda found: OUTCOMES.index(found.outcome)):
        if found.outcome != NOT_AUDITED:
            rule = RULES[found.rule]
            seen = f"{rule.title}: {found.detail}"
            line = [found.rule, rule.severity, found.outcome, seen, found.effect, found.remedy]
            lines.setdefault(found.subject, []).append([part or None for part in line])
    return [
        Table(f"audit_{document}", f"Audit of {document}", AUDIT_CAPTION, AUDIT_COLUMNS, rows)
        for document, rows in lines.items()
    ]


def papers_table(papers: list[Paper]) -> Table:
    """Return a row for each number; a number that nobody has checked is marked UNCHECKED."""
    rows = [
        [
            *(paper.source, paper.method, paper.network, paper.metric, paper.dataset, f"{paper.value:g}"),
            *(str(paper.n_runs or "not stated"), paper.obtained.replace("unchecked", "UNCHECKED"), paper.note),
        ]
        for paper in papers
    ]
    columns = ["source", "method", "network", "metric", "data set", "value", "runs", "obtained", "note"]
    counts = {name: sum(paper.obtained == name for paper in papers) for name in OBTAINED}
    caption = (
        "Context only: numbers of papers and of other reproductions. Their networks and budgets differ from ours, so "
        "no number is judged. Errors and AUROC are fractions. "
        + "; ".join(f"{name}: {text} ({counts[name]})" for name, text in OBTAINED.items())
        + "."
    )
    return Table("papers", "What papers report", caption, columns, rows, [])


def cited_records(inputs: Inputs, tables: Iterable[Table]) -> list[Record]:
    """Return the records of the chosen conditions, and the records of other conditions that these tables show."""
    cited = {source for table in tables for row in table.rows for entry in row for source in sources_of(entry)}
    cited |= {record.key for record in inputs.results.records}
    return [record for record in inputs.records if record.key in cited]


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


def unfinished_table(inputs: Inputs) -> Table:
    """Return a row for each record without numbers, and why it has none."""
    results = inputs.results
    rows: list[list[Entry]] = [
        [*record.combination, str(record.seed), Linked(record.outcome, (record.key,)), in_words(record.reason)]
        for record in results.records
        if record.outcome != "done"
    ]
    n_done = len(results.records) - len(rows)
    caption = f"{n_done} of {len(results.records)} records are finished; the others are listed."
    columns = ["approach", "recipe", "protocol", "seed", "outcome", "why"]
    return Table("unfinished", "What failed or was left out", caption, columns, rows).of(results)


METRICS_CAPTION = (
    "One line a metric and data set, named as in the records; table definitions explains each. The corrected recipe of "
    "each approach, or the published one without it; common protocol, means over the seeds that have the metric. The "
    "CSV file has standard deviations and numbers of seeds."
)
NOT_MEASURED = MissingValue(
    "-", "it does not apply, or the records are older than the metric; the frame (docs/your-approach.md) has the reason"
)


def metrics_table(inputs: Inputs) -> Table:
    """Return a row for each metric, and a column for each approach. A new metric is there once it was measured."""
    results, frame = inputs.results, inputs.frame
    classifiers = frame.approach.isin(results.classifiers())
    measured = frame[classifiers & (frame.protocol == "common") & (frame.missing == "")]
    recipes = {name: "corrected" if results.has_corrected(name) else "published" for name in results.classifiers()}
    shown = {name: recipe for name, recipe in recipes.items() if name in set(measured.approach)}
    rows: list[list[Entry]] = []
    for metric in sorted(measured.metric.unique()):
        unit = unit_of(metric)
        if unit is not None:
            samples = (inputs.sample(name, recipe, "common", metric) for name, recipe in shown.items())
            rows.append([metric, unit.name, *map(_entry, samples)])
    title, columns = "What did every metric give?", ["metric", "unit", *shown]
    return Table("metrics", title, METRICS_CAPTION, columns, rows).of(results, has_spread=False)


def _entry(found: Samples) -> Entry:
    return (
        Measured(replace(found, missing_value=None), THREE, has_spread=False)
        if found.n
        else Missing(NOT_MEASURED, found.sources)
    )
