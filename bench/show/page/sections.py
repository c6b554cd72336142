"""The sections of the page: a document each, then the subjects that cut across them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.plan.manifests import ApproachManifest
from bench.show.page.content import Content
from bench.show.page.grid import Grid, grid
from bench.show.page.images import Image, embed
from bench.show.page.links import Links, anchor, web_address
from bench.show.tables.cells import Missing, Table, make_table
from bench.show.tables.verdicts import counts_text, verdicts_table

FACTS = {"author": "by", "date": "date", "version": "version", "period_libraries": "libraries", "licence": "licence"}
FIELD = "field"  # the group of the figures that belong to no document
FURTHER = "further"


@dataclass(frozen=True)
class Subject:
    """A section that cuts across the documents: its figures and tables by name."""

    id: str
    title: str
    figures: tuple[str, ...]
    tables: tuple[str, ...]


ANSWER_FIGURES = ("accuracy",)
SUBJECTS = (
    Subject("calibration", "Calibration", ("reliability",), ("calibration",)),
    Subject("ood", "Out of distribution", ("entropy", "roc", "draws"), ("ood", "detection")),
    Subject("refusal", "Refusal", ("risk-coverage",), ("refusal",)),
    Subject("pruning", "Pruning", ("pruning",), ("pruning",)),
    Subject("speed", "Speed", ("cost",), ("speed", "throughput", "precision")),
)


@dataclass(frozen=True)
class Change:
    """A correction or variant of a recipe."""

    name: str
    kind: str
    title: str
    why: str


@dataclass(frozen=True)
class ApproachPart:
    """What one approach is."""

    id: str
    name: str
    title: str
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class DocumentPart:
    """The section of one document; `verdicts` is None where no document is."""

    id: str
    name: str
    title: str
    facts: tuple[tuple[str, str, str], ...]  # name, value, address or ''
    approaches: tuple[ApproachPart, ...]
    verdicts: Grid | None
    figures: tuple[Image, ...]
    tables: tuple[Grid, ...]


@dataclass(frozen=True)
class Topic:
    """A section of figures, tables and lines of text."""

    id: str
    title: str
    figures: tuple[Image, ...] = ()
    tables: tuple[Grid, ...] = ()
    text: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entry:
    """A line of the table of contents, and those below it."""

    id: str
    title: str
    parts: tuple[Entry, ...] = ()


# documents


def document_names(content: Content) -> list[str]:
    """Return the documents in the order of the claims."""
    return list(dict.fromkeys(claim.source for claim in content.claims))


def documents(content: Content, links: Links, shown: Mapping[str, Grid]) -> list[DocumentPart]:
    """Return a section for each document, then one for the approaches of none."""
    parts = [_document(content, links, shown, name) for name in document_names(content)]
    known = {part.name for approaches in (part.approaches for part in parts) for part in approaches}
    others = tuple(_approach(content, name) for name in content.results.approaches if name not in known)
    if others:
        parts.append(DocumentPart("baselines", "Baselines", "of no document", (), others, None, (), ()))
    return parts


def _document(content: Content, links: Links, shown: Mapping[str, Grid], name: str) -> DocumentPart:
    entry = content.documents.get(name, {})
    address = web_address(str(entry.get("link", "")))
    facts = [(label, str(entry[key]), "") for key, label in FACTS.items() if key in entry]
    if address:
        facts.insert(1, ("at", address, address))
    known = content.results.manifests
    mine = [one for one in content.results.approaches if one in known and known[one].document == name]
    grids = [grid(table, links, f"{table.name}-{name}") for table in _curves(content, name)]
    grids += [shown[table.name] for table in (*content.audits.get(name, ()), *content.ladders.get(name, ()))]
    if any(known[one].task == "toy" for one in mine):
        grids.append(shown["toys"])
    mine_drawn = [figure for figure in content.figures if figure.group == name]
    return DocumentPart(
        anchor("document", name),
        name,
        str(entry.get("title", "")),
        tuple(facts),
        tuple(_approach(content, one) for one in mine),
        grid(_verdicts(content, name), links, f"verdicts-{name}"),
        tuple(embed(sorted(mine_drawn, key=lambda figure: figure.name != f"{name}-verdicts"))),
        tuple(grids),
    )


def _approach(content: Content, name: str) -> ApproachPart:
    manifest = content.results.manifests.get(name)
    return ApproachPart(
        anchor("approach", name),
        name,
        manifest.title if manifest else "known from its records alone",
        tuple(_changes(manifest)) if manifest else (),
    )


def _changes(manifest: ApproachManifest) -> Iterator[Change]:
    for kind, changes in (("correction", manifest.corrections), ("variant", manifest.variants)):
        for name, change in changes.items():
            yield Change(name, kind, change.title, change.why)


def _verdicts(content: Content, name: str) -> Table:
    mine = [verdict for verdict in content.verdicts if verdict.claim.source == name]
    table = verdicts_table(content.results, mine)
    counts = f"{len(mine)} reported numbers: {counts_text(mine)}."
    caption = f"{counts} Each verdict leads to its reasoning, step by step, each measured number to its records."
    return make_table(
        table.name,
        f"What {name} reports, and whether it reproduces",
        caption,
        [*table.frame.columns],
        table.frame.itertuples(index=False, name=None),
        [],
    )


def _curves(content: Content, name: str) -> list[Table]:
    """Return the training logs of one document, none if it prints none."""
    table = content.tables["curves"]
    frame = table.frame[table.frame["run"] == name].drop(columns="run")
    if frame.empty:
        return []
    caption = table.caption.removesuffix(content.results.describe())
    frame = frame[[name for name in frame if not all(isinstance(cell, Missing) for cell in frame[name])]]
    rows = frame.itertuples(index=False, name=None)
    return [make_table(table.name, f"Training logs of {name}, line by line", caption, [*frame.columns], rows, [])]


# subjects


def topics(content: Content, shown: Mapping[str, Grid]) -> list[Topic]:
    """Return the sections after the documents."""
    found = [
        Topic(
            subject.id,
            subject.title,
            tuple(_embedded(content, subject.figures)),
            tuple(shown[name] for name in subject.tables if name in shown),
        )
        for subject in SUBJECTS
    ]
    placed = {*ANSWER_FIGURES, *(name for subject in SUBJECTS for name in subject.figures)}
    names = {claim.source for claim in content.claims}
    rest = [figure for figure in content.figures if figure.group not in names and figure.name not in placed]
    if rest:
        found.append(Topic("further", "Further figures", tuple(embed(rest))))
    faults = (shown["unfinished"], *(shown[table.name] for table in content.faults))
    found.append(Topic("faults", "Faults", tables=faults, text=tuple(_faults(content))))
    found.append(Topic("definitions", "Definitions", tables=(shown["definitions"],)))
    found.append(Topic("provenance", "Provenance", tables=(shown["provenance"],)))
    return found


def answer_figures(content: Content) -> list[Image]:
    """Return the figures that belong to the answer."""
    return _embedded(content, ANSWER_FIGURES)


def _embedded(content: Content, names: Sequence[str]) -> list[Image]:
    by_name = {figure.name: figure for figure in content.figures}
    return embed(by_name[name] for name in names if name in by_name)


def _faults(content: Content) -> list[str]:
    lines = list(content.problems) or ["Every file of the results folder has the hash that it was sealed with."]
    if content.results.n_superseded:
        lines.append(f"{content.results.n_superseded} older record(s) of the same cell and seed are left out.")
    return lines


# contents


def contents(parts: Sequence[DocumentPart], found: Sequence[Topic]) -> list[Entry]:
    """Return the table of contents."""
    below_answer = (
        Entry("table-verdict_summary", "Verdicts by document"),
        Entry("table-headlines", "The headline numbers"),
        Entry("table-brief", "The uncertainty"),
    )
    evidence = (Entry("evidence-claims", "Reported numbers"), Entry("evidence-records", "Records"))
    return [
        Entry("question", "The question"),
        Entry("answer", "The answer", below_answer),
        Entry("main", "The main table"),
        Entry("documents", "The documents", tuple(Entry(part.id, part.name) for part in parts)),
        *(Entry(topic.id, topic.title) for topic in found),
        Entry("evidence", "Evidence", evidence),
    ]
