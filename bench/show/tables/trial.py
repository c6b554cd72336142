"""The judge judged: what the rule says of reports whose truth is known, as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.judge.alternatives.trial import TRUE, Trial
from bench.judge.results import Results
from bench.judge.stats.rule import AGREES, ALPHA, COARSE, DIFFERS
from bench.show.cells import Table, make_table

COLUMNS = ("approach", "what made the reports", "kind", "protocol", "profile", "reports", "told apart")
COUNTED = (DIFFERS, AGREES, COARSE)
CAPTION = (
    "How often does the rule of verdicts err? Each report here is a run of ours whose recipe is known, judged as if "
    "the document had printed it. True: a seed of the published recipe, judged by its other seeds. False: a seed of "
    "another recipe, of a control, or of the published recipe with a small fault planted in the code, judged by the "
    "published recipe's seeds in the same protocol. Told apart: reports with at least one claim that differs; of the "
    f"true ones, at most {ALPHA:.0%} should be. The other columns count the claims with each verdict. Full: the "
    "document's end results and quoted numbers; epoch1: its numbers of the first epoch. The claims of a document are "
    "tested together."
)


def trial_table(results: Results, found: Sequence[Trial]) -> Table:
    """One line for each truth about each approach."""
    lines = [
        [trial.approach, trial.truth, trial.kind, trial.protocol, trial.profile, str(len(trial.reports))]
        + [str(count) for count in (trial.n_told, *map(trial.count, COUNTED))]
        for trial in found
    ]
    remarks = [f"In all, told apart: {_share([trial for trial in found if trial.kind == TRUE])} true reports"]
    kinds = dict.fromkeys(trial.kind for trial in found if trial.kind != TRUE)
    remarks += [f"of kind {kind}: {_share([trial for trial in found if trial.kind == kind])}" for kind in kinds]
    title = "The judge judged: reports whose truth is known"
    return make_table(
        "trial",
        title,
        CAPTION,
        [*COLUMNS, *COUNTED],
        lines,
        ["; ".join(remarks) + "."]
        if found
        else ["No approach has enough seeds: `python -m bench reference` says which are missing."],
        origin=results.origin(),
    )


def _share(found: Iterable[Trial]) -> str:
    some = list(found)
    return f"{sum(trial.n_told for trial in some)} of {sum(len(trial.reports) for trial in some)}"


def as_rows(table: Table) -> list[dict[str, str]]:
    """Return the lines for machines."""
    return [dict(zip(table.columns, texts, strict=True)) for texts in table.texts()]
