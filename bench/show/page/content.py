"""What the page shows: every table and figure of a results folder, and the facts about the documents."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from bench.core.project import REFERENCE
from bench.core.records import Record
from bench.core.toml import TomlTable, read_toml
from bench.plan.manifests import GROUPS
from bench.show.figures.figure import Figure
from bench.show.inputs import Inputs
from bench.show.page.images import Drawings, Image
from bench.show.table import Table
from bench.show.tables.lists import cited_records
from bench.show.tables.registry import all_tables

DOCUMENTS = REFERENCE / "sources.toml"


class DocumentFacts(TomlTable, frozen=True):
    """Facts about a document: who wrote it, when, and where it is."""

    title: str
    author: str
    link: str
    version: str
    date: datetime.date
    period_libraries: str
    licence: str


@dataclass(frozen=True)
class ReportContent:
    """The tables and figures of a page, and what they were made from."""

    inputs: Inputs
    documents: Mapping[str, DocumentFacts]  # by the name that claims give as source
    figures: Sequence[Figure] = ()

    @cached_property
    def tables(self) -> Mapping[str, Table]:
        """The tables by name; raises ConfigError if the claims cannot be read."""
        return all_tables(self.inputs)

    @cached_property
    def records(self) -> list[Record]:
        """The records that the page lists (see `cited_records`)."""
        return cited_records(self.inputs, self.tables.values())

    @cached_property
    def other_records(self) -> list[Record]:
        """The records of other groups of approaches that these tables show; the page does not list them."""
        cited = set[str]().union(*(table.sources() for table in self.tables.values()))
        others = [group for group in GROUPS if group != self.inputs.group]
        return [record for group in others for record in self.inputs.of(group).records if record.key in cited]

    @cached_property
    def drawings(self) -> Drawings:
        """The processes that draw the figures. They start when this is first asked for."""
        return Drawings(self.figures)

    @cached_property
    def images(self) -> Mapping[str, Image]:
        """The drawn figures by name."""
        return {figure.name: image for figure, image in zip(self.figures, self.drawings.images(), strict=True)}

    @cached_property
    def document_names(self) -> list[str]:
        """The documents in the order of the claims."""
        return list(dict.fromkeys(claim.source for claim in self.inputs.claims))


def collect(inputs: Inputs, with_figures: bool = True) -> ReportContent:
    """Read what the page shows; raises ConfigError if the claims or the list of their documents cannot be read."""
    figures: Sequence[Figure] = ()
    if with_figures:
        from bench.show.figures.catalogue import PAGE, survey  # here: it imports matplotlib, which tables do not need

        figures = survey(inputs, PAGE)[0]
    return ReportContent(inputs, load_documents(), figures)


def load_documents() -> dict[str, DocumentFacts]:
    """Read the facts about the documents, by the document's name; raises ConfigError."""
    return read_toml(DOCUMENTS, dict[str, DocumentFacts], "list of documents")
