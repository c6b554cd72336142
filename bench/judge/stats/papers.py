"""Numbers of papers and of public reproductions, and verdicts on those of Blundell et al. 2015.

`results/reference/papers.csv` says how each number was obtained. The paper does not say how its errors were measured,
so each of its claims is judged under several interpretations. An interpretation is one way to measure the same fits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import structs

from bench.core.csv_rows import CsvRow, read_csv
from bench.core.project import REFERENCE
from bench.core.records import Record
from bench.core.toml import Text
from bench.judge.claims import Claim, ClaimRow
from bench.judge.flatness import records_of, siblings
from bench.judge.results import Results
from bench.judge.samples import metrics_of
from bench.judge.stats.rule import Verdict, judge_family
from bench.measure.metrics.epochs import mean_of_last

PAPERS = REFERENCE / "papers.csv"
OBTAINED = {
    "read": "read in the source",
    "secondary": "as another text quotes the source",
    "unchecked": "from memory, not checked against the source",
}
PAPER = "blundell2015"
MARGIN = 0.001  # ten images; the paper's methods differ by half a percent
INTERPRETATIONS = {
    "means": ("error", "network of the means, last epoch"),
    "draws": ("error_of_draws", "100 draws averaged, last epoch"),
    "held-out": ("error_at_chosen_epoch", "network of the means, epoch of least error on held-out images"),
    "last-100": ("error_of_last_100_epochs", "network of the means, mean of the last 100 epochs"),
    "peek": ("error_at_best_test_epoch", "network of the means, epoch of least error on the test images"),
}
"""Interpretation -> (metric, in words). The last interpretation chooses the epoch by the test images."""
NOISY = {"noisy": "noisy_pruned_error_of_draws"}  # the mistake of one reproduction: removed weights keep noise
PRUNED = {"means": "pruned_error", "draws": "pruned_error_of_draws", **NOISY}

_ID = re.compile(r"(?P<source>[^.]+)(?:\.t[12])?\.(?P<method>[a-z_]+)\.?(?P<size>\d+)")
_METHODS = {
    "sgd": ("blundell_sgd", ""),
    "dropout": ("blundell_dropout", ""),
    "bbb_gaussian": ("blundell_bbb", "+gaussian-prior"),
    "bbb_mixture": ("blundell_bbb", ""),
    "pruned": ("blundell_bbb", ""),
}
_SETUPS = {
    PAPER: ("", ""),
    "jinkehe2019": ("", ""),
    "kristonova": ("+epochs-300", ""),
    "saxena-mayur": ("+batch-125", "+rho-8"),
}
"""Source -> the changes of our recipe that give its set-up: for all methods, and more for Bayes by Backprop."""


class Paper(CsvRow, frozen=True, kw_only=True):
    """One row of the file: a number and its source."""

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


@dataclass(frozen=True)
class PaperClaim:
    """A number of the paper or of a reproduction, and the fits that it is compared with."""

    paper: Paper
    approach: str
    recipe: str
    metrics: dict[str, str]  # interpretation -> metric

    @property
    def source(self) -> str:
        """Return the name of the paper or of the reproduction."""
        return self.paper.id.partition(".")[0]


@dataclass(frozen=True)
class PaperVerdict:
    """The verdict on a number under one interpretation."""

    claim: PaperClaim
    interpretation: str  # of INTERPRETATIONS or PRUNED
    verdict: Verdict


def paper_claims(papers: Iterable[Paper]) -> list[PaperClaim]:
    """Return the numbers whose set-up is known, of the paper and of reproductions, with their fits."""
    found = []
    for paper in papers:
        named = _ID.fullmatch(paper.id)
        if named and named["source"] in _SETUPS and named["method"] in _METHODS:
            source, method, size = named.groups()
            approach, change = _METHODS[method]
            everywhere, bayes = _SETUPS[source]
            units = "1200" if method == "pruned" else size
            changes = change + everywhere + (bayes if approach == "blundell_bbb" else "")
            recipe = "published" + changes + ("" if units == "400" else f"+units-{units}")
            found.append(PaperClaim(paper, approach, recipe, _metrics(source, method, size)))
    return found


def claims_by_interpretation(claims: Iterable[PaperClaim]) -> list[Claim]:
    """Return a claim for each number and each metric that it can mean."""
    return [_as_claim(claim, metric) for claim in claims for metric in claim.metrics.values()]


def _metrics(source: str, method: str, size: str) -> dict[str, str]:
    if method != "pruned" or size == "00":
        has_draws = method not in ("sgd", "dropout")
        return {name: metric for name, (metric, _) in INTERPRETATIONS.items() if has_draws or name != "draws"}
    return {name: f"{metric}@0.{size}".rstrip("0") for name, metric in (PRUNED if source == PAPER else NOISY).items()}


def paper_verdicts(claims: Sequence[PaperClaim], results: Results) -> list[PaperVerdict]:
    """Judge every number under every interpretation, by the rule of all verdicts.

    Holm's procedure adjusts the p-values over all numbers that a source prints with this interpretation, measured or
    not. There is no adjustment over interpretations: each is another claim that the same words can mean.
    """

    @cache  # many claims are of one trained run
    def records(approach: str, recipe: str) -> list[Record]:
        return [with_mean_of_last(one) for one in records_of(results, approach, recipe, "published")]

    families: dict[tuple[str, str], list[tuple[PaperClaim, ClaimRow]]] = {}
    for claim in claims:
        others = siblings(results, claim.approach, claim.recipe, "published")
        found = [records(claim.approach, recipe) for recipe in (claim.recipe, *others)]
        for name, metric in claim.metrics.items():
            families.setdefault((claim.source, name), []).append((claim, _row(claim, metric, found)))
    judged = {}
    for (_, name), family in families.items():
        verdicts = judge_family([row for _, row in family])
        for (claim, _), verdict in zip(family, verdicts, strict=True):
            judged[claim.paper.id, name] = PaperVerdict(claim, name, verdict)
    return [judged[claim.paper.id, name] for claim in claims for name in claim.metrics]


def _row(claim: PaperClaim, metric: str, found: Sequence[Sequence[Record]]) -> ClaimRow:
    """Return a number as a claim, with what its fits (the first of `found`) and those of other recipes measured."""
    mine, *others = (metrics_of(records, f"mnist/test10k/{metric}") for records in found)
    return ClaimRow(_as_claim(claim, metric), mine, tuple(others))


def with_mean_of_last(record: Record) -> Record:
    """Return the record with the mean error of its last epochs, which only its epochs have."""
    mean = mean_of_last([epoch.metrics for epoch in record.epochs]) if record.outcome == "done" else {}
    return structs.replace(record, metrics={**record.metrics, **mean}) if mean else record


def _as_claim(claim: PaperClaim, metric: str) -> Claim:
    paper = claim.paper
    return Claim(
        id=paper.id,
        source=claim.source,
        approach=claim.approach,
        stage="final",
        metric=metric,
        dataset="mnist",
        split="test10k",
        protocol="published",
        unit="fraction",
        printed=f"{paper.value:g}",
        precision=1e-4 if paper.value < 0.1 else 1e-3,  # percent with two decimals, or with one
        precision_kind="rounded",
        margin=MARGIN,
        margin_reason="ten of 10,000 images: the paper's methods differ by up to fifty",
        n_runs=1,
        locator=paper.source,
        note=OBTAINED[paper.obtained],
    )
