"""Writes the page, and the files of its tables."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bench.core.files import write_atomically
from bench.core.reasons import in_words
from bench.core.records import Record
from bench.core.text import counted, visible
from bench.judge.results import Results, code_of, made_at
from bench.show import outcomes
from bench.show.figures.style import colour_rules, printed, style
from bench.show.page import evidence, sections
from bench.show.page.content import ReportContent
from bench.show.page.findings import FINDINGS
from bench.show.page.grid import PageTable, breakable, coded, page_table, shaded, strip
from bench.show.page.links import NOTEBOOKS, Links, anchor, project_urls, record_anchor
from bench.show.sentences import all_filled
from bench.show.tables.choice import candidates
from bench.show.tables.files import write_tables
from bench.show.tables.sure import QUESTION
from bench.show.tables.verdicts import DRAWING

FORMS = ("html", "md", "csv", "tex")
TABLES = "tables"  # folder beside the page
TITLE = "bnn-uncertainty-bench"
FIRST, SOCIAL = "sure", "social.png"  # the page's first figure; its picture, shown where the page's address is posted


def write_report(
    content: ReportContent, page: Path, forms: Sequence[str] = FORMS, below: Path | None = None
) -> list[Path]:
    """Write the page, and its tables in the other forms into the folder `tables` beside it; raises StoreError.

    Returns the written files, the page first. `below`: see `bench.core.files.opened_folder`.
    """
    with content.drawings:  # other processes draw while this one makes the tables
        others = [form for form in forms if form != "html"]
        written = write_tables(content.tables.values(), page.parent / TABLES, others, below)
        if "html" not in forms:
            return written
        write_atomically(page, render_page(content, page.parent).encode(), below)
    first = [figure for figure in content.figures if figure.name == FIRST]
    for figure in first:
        with style():
            write_atomically(page.parent / SOCIAL, printed(figure.draw(), "png"), below)
    return [page, *(page.parent / SOCIAL for _ in first), *written]


def render_page(content: ReportContent, folder: Path | None = None) -> str:
    """Return the page as HTML that needs no other file; it links the notebooks that are in its folder as HTML."""
    inputs = content.inputs
    reasonings = evidence.reasonings(content)
    claims = [verdict.claim.id for shown in reasonings.values() for verdict, _ in shown]
    links = Links(content.records, claims, content.document_names, inputs.results.approaches)
    said = inputs.results.origin()
    shown = {name: page_table(table, links, said) for name, table in content.tables.items()}
    shown["headlines"] = _with_strips(shown["headlines"], content)
    sheet = outcomes.css() + colour_rules("light-dark({light},{dark})", ".pan>svg ") + _text("page.css")
    script = _text("page.js")
    return (
        _environment()
        .get_template("page.html")
        .render(
            title=TITLE,
            question=QUESTION,
            short=all_filled(inputs),
            made=made_of(content.records, content.other_records, inputs.results),
            inputs=inputs,
            manifests=inputs.results.manifests,
            images=content.images,
            social=f"{site}/{SOCIAL}" if (site := project_urls().get("Page", "").rstrip("/")) else SOCIAL,
            notebooks={name: title for name, title in NOTEBOOKS.items() if folder and (folder / name).is_file()},
            tables=shown,
            findings=FINDINGS,
            choice=shaded(shown["choice"], candidates(inputs)),
            documents=sections.documents(content, links, shown),
            topics=sections.topics(content, shown),
            reasonings=reasonings,
            places=evidence.places(content),
            links=links,
            style=Markup(sheet),
            script=Markup(script),
            style_hash=_hash(sheet),
            script_hash=_hash(script),
        )
    )


def made_of(listed: Sequence[Record], others: Sequence[Record], results: Results) -> str:
    """Return the sentence about what the page was made from: how many records, listed or not, measured when."""
    records = [*listed, *others]
    days = sorted({day for record in records if (day := made_at(record)[:10])})
    span = "" if not days else f", measured {days[0]}" if days[0] == days[-1] else f", measured {days[0]} to {days[-1]}"
    n_approaches = len({record.approach for record in records})
    approaches = f"{n_approaches} approach{'' if n_approaches == 1 else 'es'}"
    made = f"Made from {counted(len(records), 'record')} of {approaches}{span}."
    which = f" Below, {len(listed)} of these are listed." if others else ""
    return f"{made}{which} {results.describe(spread=False)}"


def _with_strips(table: PageTable, content: ReportContent) -> PageTable:
    """Return the table of final numbers with a drawing of the verdict in each row."""
    place = table.columns.index(DRAWING)
    verdicts = content.inputs.judgement.ends
    rows = []
    for row, verdict in zip(table.rows, verdicts, strict=True):
        drawn = replace(row[place], strip=strip(verdict))
        rows.append((*row[:place], drawn, *row[place + 1 :]))
    return replace(table, rows=tuple(rows))


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("bench.show.page"),
        autoescape=True,  # records, claims and manifests are data: none of their text is markup
        undefined=StrictUndefined,
        finalize=lambda value: visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"breakable": breakable, "coded": coded, "plain": lambda text: text.replace("*", "")}
    environment.globals |= {
        "evidence": evidence,
        "anchor": anchor,
        "record_anchor": record_anchor,
        "tone": outcomes.tone,
        "in_words": in_words,
        "made_at": made_at,
        "code_of": code_of,
    }
    return environment


def _text(name: str) -> str:
    return (resources.files("bench.show.page") / "templates" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the hash by which the page's content security policy allows its own style and script."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
