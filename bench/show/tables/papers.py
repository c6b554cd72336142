"""Numbers of papers and other reproductions, as context only: no verdict is given of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from bench.core.csv_rows import CsvRow, read_csv
from bench.core.project import REFERENCE
from bench.core.toml import Text
from bench.show.tables.cells import Table, make_table

PAPERS = REFERENCE / "papers.csv"
OBTAINED = {
    "read": "read in the source",
    "secondary": "as another text quotes the source",
    "unchecked": "from memory, not checked against the source",
}


class Paper(CsvRow, frozen=True, kw_only=True):
    """One number."""

    id: Text
    source: Text
    method: Text
    network: str
    metric: Text
    dataset: Text
    unit: str
    value: Annotated[float, msgspec.Meta(ge=0, le=1)]
    n_runs: Annotated[int, msgspec.Meta(ge=1)] | None = None  # None where the source does not say
    obtained: Literal["read", "secondary", "unchecked"]  # see OBTAINED
    note: str


def load_papers(path: Path = PAPERS) -> list[Paper]:
    """Read and check the file; raises ConfigError that names the row and the column of the first fault."""
    return read_csv(path, Paper, "papers", key="id")


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
    return [str(paper.n_runs or "not stated"), obtained, paper.note]
