"""The page and the files of its tables: sections in the order in which a reader asks."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bench.core.files import write_atomically
from bench.judge.claims import Record
from bench.judge.results import Results
from bench.show.page import answer, evidence, facts, sections
from bench.show.page.content import Content
from bench.show.page.grid import HUES, Grid, breakable, grid
from bench.show.page.links import Links
from bench.show.tables.cells import Table, sources_of
from bench.show.tables.files import write_tables

FORMS = ("html", "md", "csv", "tex")
TABLES = "tables"  # folder beside the page
TITLE = "bnn-uncertainty-bench"


def write_report(content: Content, page: Path, forms: Sequence[str] = FORMS) -> list[Path]:
    """Write the page and, in the folder `tables` beside it, its tables in the other forms; raises StoreError.

    Args:
        content: what to show.
        page: the file of the page.
        forms: of `FORMS`.

    Returns:
        The files, the page first.
    """
    others = [form for form in forms if form != "html"]
    found = all_tables(content)
    written = []
    if "html" in forms:
        write_atomically(page, render_page(content, page.parent, others).encode())
        written.append(page)
    return written + write_tables(found, page.parent / TABLES, others)


def all_tables(content: Content) -> dict[str, Table]:
    """Return every table that is written as files: those of the records, the answer's, and the origins."""
    made = [
        answer.forest_table(content.results, answer.headlines(content.claims, content.verdicts)),
        answer.brief_table(content.results),
        facts.provenance_table(_cited_records(content, content.tables.values())),
        facts.unfinished_table(content.results),
        *(table for tables in (*content.audits.values(), *content.ladders.values()) for table in tables),
        *content.faults,
    ]
    return {**content.tables, **{table.name: table for table in made}}


def render_page(content: Content, folder: Path, forms: Sequence[str] = ()) -> str:
    """Return the page as it is seen from a folder; `forms` are those in which the tables lie beside it."""
    tables = all_tables(content)
    cited = _cited_records(content, tables.values())
    links = Links(
        folder,
        cited,
        {**content.record_files, **content.speed_files},
        [claim.id for claim in content.claims],
        sections.document_names(content),
        content.results.approaches,
    )
    shown = {
        name: grid(_lean(table, content.results), links, files=[(form, f"{TABLES}/{name}.{form}") for form in forms])
        for name, table in tables.items()
    }
    shown["headlines"] = _with_strips(shown["headlines"], content)
    documents = sections.documents(content, links, shown)
    topics = sections.topics(content, shown)
    style, script = (_text(f"page.{ending}") for ending in ("css", "js"))
    return (
        _environment()
        .get_template("page.html")
        .render(
            title=TITLE,
            lead=facts.LEAD,
            made=facts.made_of(cited, content.results),
            terms=facts.TERMS,
            answer=answer.sentence(content.verdicts),
            outcomes=list(HUES.items()),
            bars=answer.bars(content.verdicts),
            summary=shown["verdict_summary"],
            forest=shown["headlines"],
            brief=shown["brief"],
            figures=sections.answer_figures(content),
            main_tables=[shown["accuracy"]],
            documents=documents,
            topics=topics,
            claims=shown["claims"],
            reasonings=evidence.reasonings(content, links),
            places=evidence.places(content, links, [str(record["key"]) for record in cited]),
            times=list(evidence.TIMES.values()),
            files=list(shown.values()) if forms else [],
            contents=sections.contents(documents, topics),
            style=Markup(style),
            script=Markup(script),
            style_hash=_hash(style),
            script_hash=_hash(script),
        )
    )


def _cited_records(content: Content, tables: Iterable[Table]) -> list[Record]:
    """Return the records that the tables or the verdicts were made from, and all of the page's conditions."""
    cited = {source for table in tables for cell in table.frame.to_numpy().ravel() for source in sources_of(cell)}
    cited |= {str(record["key"]) for record in content.results.records}
    return [record for record in content.records if record["key"] in cited]


def _lean(table: Table, results: Results) -> Table:
    """Return a table without what the page says once for all tables: conditions, machine, versions and code."""
    said = set(results.origin())
    caption = table.caption.removesuffix(results.describe()).removesuffix(results.describe(spread=False)).rstrip()
    return replace(table, caption=caption, notes=tuple(note for note in table.notes if note not in said))


def _with_strips(table: Grid, content: Content) -> Grid:
    """Return the table of headline numbers with a drawing in each line."""
    place = table.columns.index(answer.DRAWING)
    verdicts = answer.headlines(content.claims, content.verdicts)
    rows = []
    for row, verdict in zip(table.rows, verdicts, strict=True):
        drawn = replace(row[place], strip=answer.strip(verdict))
        rows.append((*row[:place], drawn, *row[place + 1 :]))
    return replace(table, rows=tuple(rows))


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("bench.show.page"),
        autoescape=True,  # records, claims and manifests are data: none of their text is markup
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = breakable
    return environment


def _text(name: str) -> str:
    return (resources.files("bench.show.page") / "templates" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return what the page's policy knows its own style and script by."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
