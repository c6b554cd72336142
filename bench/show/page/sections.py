"""The sections of the page: a document each, then the subjects that cut across them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bench.core.text import counted
from bench.judge.stats.papers import PAPER
from bench.plan.manifests import ApproachManifest
from bench.show.cells import Table
from bench.show.page.content import ReportContent
from bench.show.page.findings import FINDINGS
from bench.show.page.grid import PageTable, page_table
from bench.show.page.images import Image
from bench.show.page.links import Links, anchor, web_address
from bench.show.tables.verdicts import curve_verdicts_table, kinds_text, verdicts_table

FACTS = {"author": "by", "date": "date", "version": "version", "period_libraries": "libraries", "licence": "licence"}
CHOICE = "choice"  # the table of the article's last part
LADDER_FIGURE = "ladder-"  # how the names of the figures begin that stand above a ladder's table
LEFT_OUT = ("verdicts", "verdict_curves")  # tables whose lines stand with each document


@dataclass(frozen=True)
class TopicPlan:
    """What a section that cuts across the documents shows, by name."""

    id: str
    title: str
    tables: tuple[str, ...]
    figures: tuple[str, ...] = ()


TOPICS = (
    TopicPlan("numbers", "Quoted numbers, documents, curves", ("headline", "verdict_summary")),
    TopicPlan("against", "Against what: which recipes a number tells apart", ("alternatives", "trial")),
    TopicPlan("accuracies", "Accuracy: reported, measured alike, corrected", ("accuracy",), ("accuracy",)),
    TopicPlan("calibration", "Calibration", ("calibration",), ("reliability",)),
    TopicPlan("ood", "Out of distribution", ("ood", "detection"), ("entropy", "roc")),
    TopicPlan("refusal", "Refusal", ("refusal",), ("risk-coverage",)),
    TopicPlan("pruning", "Pruning", ("pruning",), ("pruning",)),
    TopicPlan("speed", "Speed", ("speed", "throughput", "precision"), ("cost",)),
    TopicPlan("determinism", "What is repeatable", ("determinism",)),
    TopicPlan("paper", "The paper behind the tutorials", (PAPER,), (f"{PAPER}-learning",)),
    TopicPlan("papers", "What papers report", ("papers",)),
    TopicPlan("libraries", "Other people's libraries, audited", ("libraries",)),
)
LAST_TOPICS = (
    TopicPlan("definitions", "Definitions", ("definitions",)),
    TopicPlan("provenance", "Provenance", ("provenance",)),
)


@dataclass(frozen=True)
class ApproachPart:
    """What one approach is."""

    id: str
    name: str
    title: str
    changes: tuple[tuple[str, str, str, str], ...]  # name, kind, title and reason of corrections and variants


@dataclass(frozen=True)
class DocumentPart:
    """The section of one document; `verdicts` is None where no document is."""

    id: str
    name: str
    title: str
    facts: tuple[tuple[str, str, str], ...]  # name, value, address or ''
    approaches: tuple[ApproachPart, ...]
    verdicts: PageTable | None
    blocks: tuple[Image | PageTable, ...]


@dataclass(frozen=True)
class FindingPart:
    """A finding: the question, the answer, its picture and its evidence."""

    id: str
    question: str
    answer: str
    figures: tuple[Image, ...]
    table: PageTable


@dataclass(frozen=True)
class Topic:
    """A section of figures, tables and lines of text."""

    id: str
    title: str
    figures: tuple[Image, ...] = ()
    tables: tuple[PageTable, ...] = ()
    text: tuple[str, ...] = ()


@dataclass(frozen=True)
class ContentsLine:
    """A line of the table of contents, and those below it."""

    id: str
    title: str
    parts: tuple[ContentsLine, ...] = ()


# documents


def documents(content: ReportContent, links: Links, shown: Mapping[str, PageTable]) -> list[DocumentPart]:
    """Return a section for each document, then one for the approaches of none."""
    parts = [_document(content, links, shown, name) for name in content.document_names]
    known = {part.name for approaches in (part.approaches for part in parts) for part in approaches}
    others = tuple(_approach(content, name) for name in content.material.results.approaches if name not in known)
    if others:
        parts.append(DocumentPart("baselines", "Baselines", "of no document", (), others, None, ()))
    return parts


def _document(content: ReportContent, links: Links, shown: Mapping[str, PageTable], name: str) -> DocumentPart:
    entry = content.documents.get(name)
    address = web_address(entry.link) if entry else ""
    facts = [(label, str(getattr(entry, key)), "") for key, label in FACTS.items()] if entry else []
    if address:
        facts.insert(1, ("at", address, address))
    known = content.material.manifests
    mine = [one for one in content.material.results.approaches if one in known and known[one].document == name]
    curves = _curves(content, name)
    wanted = [f"audit_{name}", *(f"{kind}_{one}" for one in mine for kind in ("answer", "ladder"))]
    wanted += ["toys"] if any(known[one].task == "toy" for one in mine) else []
    mine_drawn = [figure.name for figure in content.figures if figure.group == name]
    return DocumentPart(
        anchor("document", name),
        name,
        entry.title if entry else "",
        tuple(facts),
        tuple(_approach(content, one) for one in mine),
        page_table(_verdicts(content, name), links, name=f"verdicts-{name}"),
        (
            *_embedded(content, sorted(mine_drawn, key=lambda drawn: drawn != f"{name}-verdicts")),
            *([page_table(curves, links, name=f"{curves.name}-{name}")] if curves.rows else []),
            *(block for one in wanted if one in shown for block in _with_picture(content, one, shown[one])),
        ),
    )


def _with_picture(content: ReportContent, name: str, table: PageTable) -> list[Image | PageTable]:
    """Return a table, a ladder's below its figure."""
    return [*_embedded(content, [name.replace("ladder_", LADDER_FIGURE)]), table]


def _approach(content: ReportContent, name: str) -> ApproachPart:
    manifest = content.material.manifests.get(name)
    return ApproachPart(
        anchor("approach", name),
        name,
        manifest.title if manifest else "known from its records alone",
        tuple(_changes(manifest)) if manifest else (),
    )


def _changes(manifest: ApproachManifest) -> Iterator[tuple[str, str, str, str]]:
    for kind, changes in (("correction", manifest.corrections), ("variant", manifest.variants)):
        for name, change in changes.items():
            yield name, kind, change.title, change.why


def _verdicts(content: ReportContent, name: str) -> Table:
    mine = content.material.judgement.of_documents([name])
    alone = replace(mine, verdicts=[verdict for verdict in mine.verdicts if not verdict.is_point])
    return replace(
        verdicts_table(content.material.results, alone),
        title=f"What {name} reports, and whether it reproduces",
        explanation=f"{kinds_text(mine)} Each verdict leads to its reasoning, each measured number to its "
        "records. A curve is one line of the next table.",
        origin=(),
    )


def _curves(content: ReportContent, name: str) -> Table:
    """Return the verdicts on the curves of one document, without the column that names it."""
    table = curve_verdicts_table(content.material.results, content.material.judgement.of_documents([name]))
    return replace(
        table,
        title=f"The training curves of {name}",
        columns=table.columns[1:],
        rows=tuple(row[1:] for row in table.rows),
        origin=(),
    )


# topics


def findings(content: ReportContent, shown: Mapping[str, PageTable]) -> list[FindingPart]:
    """Return the findings, which begin the page."""
    return [
        FindingPart(
            f"finding-{one.name}",
            one.question,
            one.answer(content.material),
            tuple(_embedded(content, [one.figure])),
            shown[one.table],
        )
        for one in FINDINGS
    ]


def topics(content: ReportContent, shown: Mapping[str, PageTable]) -> list[Topic]:
    """Return the sections after the documents."""
    found = [_topic(content, shown, plan) for plan in TOPICS]
    pictured = {*(one.figure for one in FINDINGS), *(name for plan in TOPICS for name in plan.figures)}
    rest = [
        figure.name
        for figure in content.figures
        if figure.group not in content.document_names
        and figure.name not in pictured
        and not figure.name.startswith(LADDER_FIGURE)
    ]
    tables = tuple(shown[name] for name in _unplaced(shown))
    if rest or tables:
        found.append(Topic("further", "Further figures and tables", tuple(_embedded(content, rest)), tables))
    tables = tuple(shown[name] for name in ("unfinished", "fault_tests") if name in shown)
    found.append(Topic("faults", "Faults", tables=tables, text=tuple(_faults(content))))
    return found + [_topic(content, shown, plan) for plan in LAST_TOPICS]


def _unplaced(shown: Mapping[str, PageTable]) -> list[str]:
    """Return the tables that no other section shows."""
    placed = {name for plan in (*TOPICS, *LAST_TOPICS) for name in plan.tables}
    placed |= {one.table for one in FINDINGS} | {CHOICE, "toys", "unfinished", "fault_tests", *LEFT_OUT}
    return [name for name in shown if name not in placed and not name.startswith(("audit_", "answer_", "ladder_"))]


def _topic(content: ReportContent, shown: Mapping[str, PageTable], plan: TopicPlan) -> Topic:
    tables = tuple(shown[name] for name in plan.tables if name in shown)
    return Topic(plan.id, plan.title, tuple(_embedded(content, plan.figures)), tables)


def _embedded(content: ReportContent, names: Sequence[str]) -> list[Image]:
    return [content.images[name] for name in names if name in content.images]


def _faults(content: ReportContent) -> list[str]:
    lines = content.material.problems or ["Every file of the results folder has the hash that it was sealed with."]
    superseded = content.material.results.n_superseded
    return lines + (
        [f"Left out: {counted(superseded, 'older record')} of the same cell and seed."] if superseded else []
    )


# contents


def contents(parts: Sequence[DocumentPart], found: Sequence[Topic]) -> list[ContentsLine]:
    """Return the table of contents: the article, then the appendix."""
    evidence = (ContentsLine("evidence-claims", "Reported numbers"), ContentsLine("evidence-records", "Records"))
    return [
        *(ContentsLine(f"finding-{one.name}", one.question) for one in FINDINGS),
        ContentsLine("choice", "Which approach should I take?"),
        ContentsLine("documents", "The documents", tuple(ContentsLine(part.id, part.name) for part in parts)),
        ContentsLine("appendix", "Appendix", tuple(ContentsLine(topic.id, topic.title) for topic in found)),
        ContentsLine("evidence", "Evidence", evidence),
    ]
