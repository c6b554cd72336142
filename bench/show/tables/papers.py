"""Numbers of papers and other reproductions, as context only: no verdict is given of them."""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields
from pathlib import Path

from bench.core.errors import ConfigError
from bench.core.project import REFERENCE
from bench.show.tables.cells import Table, make_table

PAPERS = REFERENCE / "papers.csv"
OBTAINED = {
    "read": "read in the source",
    "secondary": "as another text quotes the source",
    "unchecked": "from memory, not checked against the source",
}


@dataclass(frozen=True)
class Paper:
    """One number; the fields are the columns of papers.csv, in its order."""

    id: str
    source: str
    method: str
    network: str
    metric: str
    dataset: str
    unit: str
    value: float
    n_runs: str  # '' where the source does not say
    obtained: str  # a key of OBTAINED
    note: str


COLUMNS = [field.name for field in fields(Paper)]


def load_papers(path: Path = PAPERS) -> list[Paper]:
    """Read and check the file; raises ConfigError that names the row and the column of the first fault."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file, strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"papers {path} cannot be read: {error}") from error
    if not rows or rows[0] != COLUMNS:
        raise ConfigError(f"papers {path}: the first row must name the columns {','.join(COLUMNS)}")
    found: dict[str, Paper] = {}
    for number, row in enumerate(rows[1:], start=2):
        paper = _parse(row, f"papers {path}, row {number}")
        if paper.id in found:
            raise ConfigError(f"papers {path}, row {number}, column id: '{paper.id}' is there twice")
        found[paper.id] = paper
    return list(found.values())


def _parse(row: list[str], where: str) -> Paper:
    if len(row) != len(COLUMNS):
        raise ConfigError(f"{where}: {len(row)} columns instead of {len(COLUMNS)}; quote texts that hold commas")
    named = dict(zip(COLUMNS, row, strict=True))
    for column in ("id", "source", "method", "metric", "dataset"):
        if not named[column].strip():
            raise ConfigError(f"{where}, column {column}: nothing is not allowed; give a name")
    if named["obtained"] not in OBTAINED:
        raise ConfigError(f"{where}, column obtained: '{named['obtained']}' is not allowed; give {', '.join(OBTAINED)}")
    if named["n_runs"] and not (named["n_runs"].isdigit() and int(named["n_runs"]) > 0):
        raise ConfigError(
            f"{where}, column n_runs: '{named['n_runs']}' is not allowed; give a number from 1 or nothing"
        )
    try:
        value = float(named.pop("value"))
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ConfigError(f"{where}, column value: no fraction; give a number from 0 to 1")
    return Paper(value=value, **named)


def papers_table(papers: list[Paper]) -> Table:
    """One line a number, those that nobody has checked marked."""
    rows = [
        [paper.source, paper.method, paper.network, paper.metric, paper.dataset, f"{paper.value:g}", *_origin(paper)]
        for paper in papers
    ]
    columns = ["source", "method", "network", "metric", "data set", "value", "runs", "obtained", "note"]
    counts = {name: sum(paper.obtained == name for paper in papers) for name in OBTAINED}
    caption = (
        "Context only: numbers of papers and of other reproductions. Their networks and budgets are not ours, so no "
        "number is compared or judged. Errors and AUROC are fractions. "
        + "; ".join(f"{name}: {text} ({counts[name]})" for name, text in OBTAINED.items())
        + "."
    )
    return make_table("papers", "What papers report", caption, columns, rows, [])


def _origin(paper: Paper) -> list[str]:
    obtained = "UNCHECKED" if paper.obtained == "unchecked" else paper.obtained
    return [paper.n_runs or "not stated", obtained, paper.note]
