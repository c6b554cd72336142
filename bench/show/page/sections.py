"""The sections of the page: one for each document, then one for each subject that concerns several documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bench.core.text import counted
from bench.judge.stats.papers import PAPER
from bench.show.page.content import ReportContent
from bench.show.page.findings import FINDINGS
from bench.show.page.grid import PageTable, page_table
from bench.show.page.images import Image
from bench.show.page.links import Links, anchor, web_address
from bench.show.table import Table
from bench.show.tables.verdicts import curve_verdicts_table, kinds_text, verdicts_table

FACTS = {"author": "by", "date": "date", "version": "version", "period_libraries": "libraries", "licence": "licence"}
LEFT_OUT = ("verdicts", "verdict_curves")  # each document's section shows its own rows of these tables
FAULTS = ("unfinished",)


@dataclass(frozen=True)
class Topic:
    """The section of a subject: the names of its tables and figures, and lines of text."""

    id: str
    title: str
    tables: tuple[str, ...]
    figures: tuple[str, ...] = ()
    text: tuple[str, ...] = ()


TOPICS = (
    Topic("numbers", "End results, documents, curves", ("headline", "verdict_summary")),
    Topic("against", "Against what: which recipes a number tells apart", ("alternatives",)),
    Topic("accuracies", "Accuracy: reported, measured alike, corrected", ("accuracy",)),
    Topic("confident", "At least 99 % sure, as published and corrected", ("confidence",)),
    Topic("calibration", "Calibration", ("calibration",), ("reliability",)),
    Topic("ood", "Out of distribution", ("ood", "detection")),
    Topic("refusal", "Refusal", ("refusal",), ("risk-coverage",)),
    Topic("pruning", "Pruning", ("pruning",)),
    Topic("speed", "Speed", ("speed",)),
    Topic("paper", "The paper behind the tutorials", (PAPER,), (f"{PAPER}-learning",)),
    Topic("papers", "What papers report", ("papers",)),
    Topic("libraries", "Other people's libraries, audited", ("libraries",)),
)
LAST_TOPICS = (
    Topic("definitions", "Every metric: values and definitions", ("metrics", "definitions")),
    Topic("provenance", "Provenance", ("provenance",)),
)


@dataclass(frozen=True)
class DocumentPart:
    """The section of one document, or of the approaches of no document; the latter has no `verdicts`."""

    id: str
    name: str
    title: str
    facts: tuple[tuple[str, str, str], ...]  # name, value, address or ''
    approaches: tuple[str, ...]
    verdicts: PageTable | None
    blocks: tuple[Image | PageTable, ...]


def documents(content: ReportContent, links: Links, shown: Mapping[str, PageTable]) -> list[DocumentPart]:
    """Return a section for each document, then one for the approaches of no document."""
    parts = [_document(content, links, shown, name) for name in content.document_names]
    known = {name for part in parts for name in part.approaches}
    others = tuple(name for name in content.inputs.results.approaches if name not in known)
    if others:
        parts.append(DocumentPart("baselines", "Baselines", "of no document", (), others, None, ()))
    return parts


def _document(content: ReportContent, links: Links, shown: Mapping[str, PageTable], name: str) -> DocumentPart:
    entry = content.documents.get(name)
    address = web_address(entry.link) if entry else ""
    facts = [(label, str(getattr(entry, key)), "") for key, label in FACTS.items()] if entry else []
    if address:
        facts.insert(1, ("at", address, address))
    known = content.inputs.results.manifests
    mine = [one for one in content.inputs.results.approaches if one in known and known[one].document == name]
    curves = curve_verdicts_table(content.inputs.judged, content.inputs.judgement.of_documents([name]))
    curves = replace(curves.without(["document"]), title=f"The training curves of {name}", origin=())
    wanted = [f"audit_{name}", *(f"{kind}_{one}" for one in mine for kind in ("answer", "ablation"))]
    wanted += ["toys"] if any(known[one].task == "toy" for one in mine) else []
    blocks: list[Image | PageTable] = [
        *(content.images[figure.name] for figure in content.figures if figure.group == name),
        *([page_table(curves, links, name=f"{curves.name}-{name}")] if curves.rows else []),
        *(shown[one] for one in wanted if one in shown),
    ]
    verdicts = page_table(_verdicts(content, name), links, name=f"verdicts-{name}")
    title = entry.title if entry else ""
    return DocumentPart(anchor("document", name), name, title, tuple(facts), tuple(mine), verdicts, tuple(blocks))


def _verdicts(content: ReportContent, name: str) -> Table:
    mine = content.inputs.judgement.of_documents([name])
    alone = replace(mine, verdicts=[verdict for verdict in mine.verdicts if not verdict.is_point])
    return replace(
        verdicts_table(content.inputs.judged, alone),
        title=f"What {name} reports, and whether it reproduces",
        explanation=f"{kinds_text(mine)} Each verdict leads to its reasoning, each measured number to its "
        "records. A curve is one line of the next table.",
        origin=(),
    )


def topics(content: ReportContent, shown: Mapping[str, PageTable]) -> list[Topic]:
    """Return the sections after the documents."""
    pictured = {"sure", *(one.figure for one in FINDINGS), *(name for plan in TOPICS for name in plan.figures)}
    figures = tuple(
        figure.name
        for figure in content.figures
        if figure.group not in content.document_names and figure.name not in pictured
    )
    placed = {name for plan in (*TOPICS, *LAST_TOPICS) for name in plan.tables}
    placed |= {one.table for one in FINDINGS} | {"sure", "choice", "toys", *FAULTS, *LEFT_OUT}
    of_documents = {*content.inputs.results.approaches, *content.document_names}
    placed |= {f"{family}_{name}" for family in ("audit", "answer", "ablation") for name in of_documents}
    tables = tuple(name for name in shown if name not in placed)
    further = [Topic("further", "Further figures and tables", tables, figures)] if figures or tables else []
    lines = content.inputs.problems or ["Every file of the results folder has the hash that it was sealed with."]
    superseded = content.inputs.results.n_superseded
    more = [f"Left out: {counted(superseded, 'older record')} of the same trained run and seed."] if superseded else []
    return [*TOPICS, *further, Topic("faults", "Faults", FAULTS, text=(*lines, *more)), *LAST_TOPICS]
