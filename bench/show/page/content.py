"""What the page shows: everything that one results folder says under one set of conditions."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from bench.core.toml import TomlTable, read_toml
from bench.judge.claims import PUBLISHED, Claim, Record, load_claims
from bench.judge.results import Results
from bench.judge.stats.verdicts import Verdict
from bench.show.page.parts import audit_tables, fault_tables, ladder_tables
from bench.show.tables import tables
from bench.show.tables.cells import Table
from bench.show.throughput_files import Speeds

if TYPE_CHECKING:
    from bench.judge.ladder.effects import Numbers
    from bench.show.figures.figure import Figure

SOURCES = PUBLISHED.parent / "sources.toml"


@dataclass(frozen=True)
class Content:
    """The material of a page; `record_files` and `speed_files` lead to what its numbers were read from."""

    results: Results  # of the conditions that were asked for
    records: Sequence[Record]  # of all conditions
    record_files: Mapping[str, Path]  # by key
    speeds: Sequence[Speeds]
    speed_files: Mapping[str, Path]  # by hash
    problems: Sequence[str]  # files that cannot be trusted, and why
    claims: Sequence[Claim]
    verdicts: Sequence[Verdict]
    tables: Mapping[str, Table]
    documents: Mapping[str, Mapping[str, str]]  # title, author, link, ... by the name that claims give as source
    figures: Sequence[Figure] = ()
    audits: Mapping[str, Sequence[Table]] = field(default_factory=dict)  # by document; each table has its own name
    ladders: Mapping[str, Sequence[Table]] = field(default_factory=dict)  # the same
    faults: Sequence[Table] = ()


def collect(
    root: Path, profile: str = "full", device: str = "cpu", precision: str = "float32", with_figures: bool = True
) -> Content:
    """Read a results folder; raises ConfigError if the claims or the list of their documents cannot be read."""
    from bench.core.store import Store
    from bench.judge.ladder.effects import Numbers
    from bench.judge.ladder.readings import read_all
    from bench.plan.registry import manifests
    from bench.show import throughput_files as files

    store, claims, kind = Store(root), load_claims(), device.split(":")[0]
    records, problems = store.all_records()
    speeds, untrusted = files.read_all(root)
    chosen = tables.select(records, profile, kind, precision, problems)
    results, verdicts = tables.verdicts_of(chosen, claims)
    made = tables.build_tables(chosen, claims, speeds=speeds)
    made["precision"] = tables.precision_table(records, profile, kind, manifests(), store.scores)
    readings, changed = read_all(store)
    numbers = Numbers(results, readings)
    trials, altered = _faults(root)
    return Content(
        results=results,
        records=records,
        record_files={record["key"]: store.record_path(record) for record in records},
        speeds=speeds,
        speed_files={record.sha256: files.folder(root).path(record) for record in speeds},
        problems=[*(problem.reason for problem in problems), *untrusted, *changed, *altered],
        claims=claims,
        verdicts=verdicts,
        tables=made,
        documents=load_documents(),
        figures=_figures(root, profile, kind, precision, records) if with_figures else (),
        audits=_audits(numbers),
        ladders=_ladders(numbers, claims),
        faults=trials,
    )


def _figures(root: Path, profile: str, device: str, precision: str, records: Sequence[Record]) -> Sequence[Figure]:
    from bench.show.figures.catalogue import figures  # here: pictures of images need PyTorch, tables do not

    return figures(root, profile, device, precision, records)


def _audits(numbers: Numbers) -> dict[str, list[Table]]:
    """Return what the audit's rules say of each document; a page runs no document's code."""
    from bench.judge.audit.documents import DOCUMENTS, audit_documents

    return audit_tables(finding.as_json() for finding in audit_documents(list(DOCUMENTS), numbers))


def _ladders(numbers: Numbers, claims: Sequence[Claim]) -> dict[str, list[Table]]:
    """Return the answers and ladders of each document."""
    from bench.judge.ladder.effects import effects
    from bench.judge.ladder.selection import chosen
    from bench.show.tables.answer import answer_tables
    from bench.show.tables.ladder import ladder_table

    ladders = chosen(())
    answers = answer_tables(ladders, numbers, claims)
    made: dict[str, list[Table]] = {}
    for one in ladders:
        ladder = ladder_table(one, effects(one, numbers), numbers, one.ood)
        made[one.approach] = [answers[one.approach], ladder] if one.approach in answers else [ladder]
    return ladder_tables(made, numbers.results.manifests)


def _faults(root: Path) -> tuple[list[Table], list[str]]:
    from bench.show.faults_files import read_all
    from bench.show.faults_summary import lines

    found, problems = read_all(root)
    return fault_tables({name: lines(each) for name, each in found.items()}), problems


class _Document(TomlTable, frozen=True):
    title: str
    author: str
    link: str
    version: str
    date: datetime.date
    period_libraries: str
    licence: str


def load_documents(path: Path = SOURCES) -> dict[str, dict[str, str]]:
    """Read who wrote which document, and where it is; raises ConfigError."""
    found = read_toml(path, dict[str, _Document], "list of documents")
    return {name: {key: str(value) for key, value in asdict(each).items()} for name, each in found.items()}
