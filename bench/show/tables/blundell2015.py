"""The verdicts on Blundell et al. 2015 and its public reproductions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from bench.judge.results import Results
from bench.judge.stats.papers import INTERPRETATIONS, OBTAINED, PAPER, PaperVerdict
from bench.show.table import Entry, Measured, Table
from bench.show.tables.blundell2015_answer import can_it_be_reproduced
from bench.show.tables.blundell2015_choices import noise_left
from bench.show.tables.blundell2015_errors import COMMANDS, PERCENT, in_percent, verdicts_on_paper

MARKS = {"read": "", "secondary": " s", "unchecked": " m"}


def blundell_table(results: Results) -> Table:
    """Return a row for each measured number and interpretation. A note counts the numbers that were not measured."""
    found = verdicts_on_paper(results)
    rows = [_row(one) for one in found if one.verdict.sample.n]
    marks = "; ".join(f"{mark.strip()}: {OBTAINED[name]}" for name, mark in MARKS.items() if mark)
    interpretations = "; ".join(f"{name}: {text}" for name, (_, text) in INTERPRETATIONS.items())
    caption = (
        "Errors on the 10,000 test images in percent: the reported number and ours, mean +- standard deviation (number "
        f"of seeds). t1, t2: the paper's tables. {marks}. An interpretation is a way to measure; the paper does not "
        f"say which it used. {interpretations}. Of pruned networks, draws averages 10; so does noisy, which leaves "
        "noise of sigma 0.69 in each removed weight, a public mistake. Numbers of 300 epochs are compared with our "
        "fits of 600 after epoch 300. Verdicts: the rule of all verdicts, with p adjusted over the numbers of a source "
        "under one interpretation. The CSV file has the p-values and names the fits behind each number."
    )
    columns = ["number", "reported", "interpretation", "ours", "verdict"]
    notes = [*can_it_be_reproduced(results), noise_left(results), *_not_run(found)]
    title, lines = "Do the numbers of Blundell et al. 2015 come out?", [_line(one) for one in found]
    return Table(PAPER, title, caption, columns, rows, notes, lines=lines).of(results, has_spread=False)


def _not_run(found: Sequence[PaperVerdict]) -> Iterator[str]:
    """Say of how many numbers of each source no fit was measured."""
    missing: dict[str, list[bool]] = {}
    for _, mine in groupby(found, key=lambda one: one.claim.paper.id):
        verdicts = list(mine)
        missing.setdefault(verdicts[0].claim.source, []).append(not any(one.verdict.sample.n for one in verdicts))
    counts = [f"{sum(flags)} of {len(flags)} of {source}" for source, flags in missing.items() if any(flags)]
    if counts:
        yield f"Numbers without a finished fit: {', '.join(counts)}. The CSV file names the fits; {COMMANDS}."


def _row(one: PaperVerdict) -> list[Entry]:
    paper = one.claim.paper
    reported = f"{PERCENT.text(100 * paper.value)}{MARKS[paper.obtained]}"
    name = paper.id.removeprefix(f"{PAPER}.")
    return [name, reported, one.interpretation, Measured(in_percent(one), PERCENT), one.verdict.outcome]


def _line(one: PaperVerdict) -> dict[str, str | float | None]:
    """Return a line of the CSV file: a number under an interpretation, and the fits that it is compared with."""
    verdict = one.verdict
    low, high = verdict.interval or (None, None)
    return {
        "number": one.claim.paper.id,
        "obtained": one.claim.paper.obtained,
        "approach": one.claim.approach,
        "recipe": one.claim.recipe,
        "interpretation": one.interpretation,
        "reported": one.claim.paper.value,
        "ours": verdict.sample.mean,
        "sd": verdict.sample.sd,
        "n": verdict.sample.n,
        "low": low,
        "high": high,
        "p": verdict.p_adjusted,
        "verdict": verdict.outcome,
    }
