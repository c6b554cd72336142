"""Errors of our fits for the numbers of Blundell et al. 2015, verdicts on these numbers, and how both are written."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import lru_cache

from bench.core.text import Digits
from bench.judge.comparison import Estimate
from bench.judge.results import Results
from bench.judge.samples import Samples
from bench.judge.shorter import records_of
from bench.judge.stats.papers import PaperClaim, PaperVerdict, load_papers, paper_claims, paper_verdicts
from bench.measure.metrics.epochs import TEST

PERCENT = Digits(decimals=2)
COMMANDS = "docs/blundell2015.md has the commands"
MIXTURE, GAUSSIAN = "the scale mixture", "one Gaussian"
OTHERS = {"sgd": "plain SGD", "dropout": "dropout", "bbb_gaussian": GAUSSIAN}


def claims_by_id() -> dict[str, PaperClaim]:
    """Return every number of the paper and of its public reproductions."""
    return {one.paper.id: one for one in paper_claims(load_papers())}


@lru_cache(maxsize=1)  # the table and three findings ask for it
def verdicts_on_paper(results: Results) -> list[PaperVerdict]:
    """Return the verdict on every number of the paper and of its public reproductions, under every interpretation."""
    return paper_verdicts(paper_claims(load_papers()), results)


def errors_by_seed(
    claim: PaperClaim, results: Results, split: str = TEST, epochs: int | None = None
) -> dict[int, float]:
    """Return the error of the network of the means after the last epoch, or after fewer, by seed."""
    recipe = claim.recipe if epochs is None else f"{claim.recipe}+epochs-{epochs}"
    records = records_of(results, claim.approach, recipe, "published")
    return {one.seed: error for one in records if (error := one.metrics.get(f"mnist/{split}/error")) is not None}


def in_percent(one: PaperVerdict) -> Samples:
    """Return the errors of all seeds in percent. The table and the sentences round this mean, so that they agree."""
    return one.verdict.sample.converted(lambda value: 100 * value)


def units_of(claim: PaperClaim) -> str:
    """Return the number of units of a hidden layer."""
    return claim.paper.network.split("-")[1]


def mean_text(errors: Sequence[float]) -> str:
    """Return the mean in percent."""
    return PERCENT.text(100 * statistics.fmean(errors))


def interval_text(found: Estimate) -> str:
    """Return the 95 % interval of a mean difference, in points."""
    return "[{:+.2f}, {:+.2f}]".format(*(100 * end for end in found.interval() or (0.0, 0.0)))
