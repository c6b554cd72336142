"""Tables that list things: metrics, findings of the audit, numbers of papers, audited libraries, records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from bench.core.metric_table import OTHERS, Metric, Others, metrics, unit_of
from bench.core.reasons import in_words
from bench.core.records import Provenance, Record
from bench.core.text import THREE
from bench.judge.audit.libraries.audited import LibraryAudit, ObjectiveAudit
from bench.judge.audit.libraries.examples import EXAMPLES, N_TRAIN, Example
from bench.judge.audit.rules import OUTCOMES, RULES, Finding
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
    table = Table("papers", "What papers report", caption, columns, rows, [])
    return replace(table, main=lambda row: row[columns.index("obtained")] == "read", main_says="read in the source")


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


def definitions_table() -> Table:
    """Return a row for each metric: of the common protocol, then of the documents' protocols and of the toys."""
    order = ("test", "every", "mean network", "moved", "outside")
    declared = sorted(metrics().values(), key=lambda one: max(1, order.index(one.rows)))
    rows = [_definition(one.name, one) for one in declared]
    rows += [_definition(one.names.replace(" ", ", "), one) for one in OTHERS if one.definition]
    columns = ["metric", "unit", "better", "definition", "source"]
    caption = (
        "First the metrics of classification in the common protocol; then the numbers of the documents' own protocols "
        "and of the toys. Better: which direction is better; -: neither, or it depends on the rows."
    )
    return Table("definitions", "Every metric", caption, columns, rows)


def _definition(name: str, one: Metric | Others) -> list[str | None]:
    return [name, one.unit.name, None if one.better == "none" else one.better, one.definition, one.source or None]


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
    recipes = {name: results.row_recipe(name) for name in results.classifiers()}
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


LIBRARIES_COLUMNS = ["example", "version", "KL an epoch", "gradients are slopes", "prior", "as if N", "follows"]
LIBRARIES_COLUMNS += ["its line", "change", "KL after it"]
LIBRARIES_CAPTION = (
    "The objective that each library's README or tutorial trains; for Pyro, which has no such example, a usual one. "
    f"The network is 784-400-400-10 for N = {N_TRAIN:,} images unless the row names others. In brackets: the batch "
    "size. Nothing is trained. KL an epoch: how often an epoch counts the KL of a tensor while it counts the data once;"
    " 1 is an ELBO. W1 to W3 are the weights of the layers, b1 to b3 the biases; one number stands for all equal ones. "
    "Gradients are slopes: whether autograd's gradient is the slope of the loss. Prior: its standard deviation. As if "
    "N: the number of training rows for which this weight would be right. KL after it: KL an epoch, audited again "
    "with the change made."
)
TENSORS = ("W1", "b1", "W2", "b2", "W3", "b3")
ALIKE = 0.05  # of a weight: the tolerance of the rule kl-scale


def libraries_table(found: Mapping[str, LibraryAudit]) -> Table:
    """Return a row for each example, also for one that nobody measured."""
    rows: list[list[Entry]] = []
    for example in EXAMPLES.values():
        text = [example.source, example.line, example.change]
        if example.name not in found:
            missing_value = MissingValue("not measured", f"nobody has measured it yet; pip install {example.package}")
            rows.append([_name(example), *[Missing(missing_value)] * 5, *text, Missing(missing_value)])
            continue
        one = found[example.name]
        version = f"{example.package} {one.versions[example.package]}"
        published = one.published
        slopes = {"passes": "yes", "fails": "no"}.get(published.slopes, published.slopes)
        prior = None if published.prior_std is None else f"{published.prior_std:.3g}"
        measured = [weights(published), slopes, prior, as_if_n(published, example.n_train)]
        rows.append([_name(example), version, *measured, *text, weights(one.changed)])
    packages = {example.package for example in EXAMPLES.values()}
    versions = (pair for one in found.values() for pair in one.versions.items())
    remarks = sorted({f"{name} {version}" for name, version in versions if name not in packages})
    return Table("libraries", "Other people's libraries", LIBRARIES_CAPTION, LIBRARIES_COLUMNS, rows, remarks)


def _name(example: Example) -> str:
    return f"{example.name} ({example.batch_size})"


def weights(one: ObjectiveAudit) -> str:
    """Return how often an epoch counts the KL: one number, or one for each tensor."""
    values = list(one.kl_weights.values())
    if not values:
        return "not measured: gradients are no slopes" if one.slopes == "fails" else "not measured"
    least, most = min(values), max(values)
    if most - least <= ALIKE * abs(most):
        return _number(sum(values) / len(values))
    names = TENSORS if len(values) == len(TENSORS) else one.kl_weights
    return ", ".join(f"{name} {_number(value)}" for name, value in zip(names, values, strict=True))


def _number(value: float) -> str:
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 1000 else f"{value:.3g}"


def as_if_n(one: ObjectiveAudit, n_train: int = N_TRAIN) -> str | None:
    """Return the number of training rows for which the KL's weight would be right, N / weight; None without one."""
    values = list(one.kl_weights.values())
    if not values or min(values) <= 0:
        return None
    least, most = (_number(n_train / value) for value in (max(values), min(values)))
    return least if max(values) - min(values) <= ALIKE * max(values) else f"{least} to {most}"
