"""What papers and other reproductions report, as context."""

from __future__ import annotations

from bench.judge.stats.papers import OBTAINED, Paper
from bench.show.table import Table


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
    return Table("papers", "What papers report", caption, columns, rows, [])
