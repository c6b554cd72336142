"""Table `trial`: how often the rule of verdicts errs on reports whose truth is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.core.text import WHOLE
from bench.judge.alternatives.trial import FIRST_EPOCH, TRUE, Trial
from bench.judge.alternatives.weighing import COMMON
from bench.judge.results import Results
from bench.judge.stats.rule import AGREES, ALPHA, COARSE, DIFFERS
from bench.show.table import Entry, Number, Table

COLUMNS = ("approach", "reports from", "told apart")
COUNTED = (DIFFERS, AGREES, COARSE)
CAPTION = (
    "How often does the rule of verdicts err? Each report here is a run of ours whose recipe is known, judged as if "
    "the document had printed it. True: a seed of the published recipe, judged by its other seeds. The others are "
    "false: a seed of another recipe (+NAME: the published recipe with that change), of a control, or of the published "
    "recipe with a small fault planted in the code, judged by the published recipe's seeds in the same protocol. Told "
    "apart: reports with at least one claim that differs; of the true ones, at most "
    f"{ALPHA:.0%} should be. The other columns count the claims with each verdict. The claims are the document's end "
    "results and quoted numbers; for the first epoch, its numbers of that epoch. The claims of a document are tested "
    "together. The protocol is the published one, except where the common one is named."
)


def trial_table(results: Results, found: Sequence[Trial]) -> Table:
    """Return a row for each approach and each recipe or fault that made the reports."""
    rows: list[list[Entry]] = [
        [
            trial.approach,
            _reports(trial),
            f"{trial.n_told}/{len(trial.reports)}",
            *(Number(trial.count(outcome), WHOLE) for outcome in COUNTED),
        ]
        for trial in found
    ]
    remarks = [f"In all, told apart: {_share([trial for trial in found if trial.kind == TRUE])} true reports"]
    kinds = dict.fromkeys(trial.kind for trial in found if trial.kind != TRUE)
    remarks += [f"of kind {kind}: {_share([trial for trial in found if trial.kind == kind])}" for kind in kinds]
    title = "The judge judged: reports whose truth is known"
    return Table(
        "trial",
        title,
        CAPTION,
        [*COLUMNS, *COUNTED],
        rows,
        ["; ".join(remarks) + "."]
        if found
        else ["No approach has enough seeds: `python -m bench reference` says which are missing."],
        origin=results.origin(),
        lines=[_trial_line(trial) for trial in found],
    )


def _reports(trial: Trial) -> str:
    """Return in short which recipe or fault made the reports; the row names the approach already."""
    recipe = trial.truth.removeprefix(f"{trial.approach} ").replace("published+", "+").removesuffix(" published")
    short = recipe if recipe == trial.kind else f"{trial.kind}: {recipe}"
    conditions = (("common protocol", trial.protocol == COMMON), ("first epoch", trial.profile == FIRST_EPOCH))
    return ", ".join([short, *(words for words, holds in conditions if holds)])


def _trial_line(trial: Trial) -> dict[str, str]:
    said = (trial.approach, trial.truth, trial.kind, trial.protocol, trial.profile)
    line = dict(zip(("approach", "what made the reports", "kind", "protocol", "profile"), said, strict=True))
    counts = {outcome: str(trial.count(outcome)) for outcome in COUNTED}
    return line | {"reports": str(len(trial.reports)), "told apart": str(trial.n_told)} | counts


def _share(found: Iterable[Trial]) -> str:
    some = list(found)
    return f"{sum(trial.n_told for trial in some)} of {sum(len(trial.reports) for trial in some)}"
