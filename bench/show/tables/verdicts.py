"""The verdicts: a line for every reported number, a count for every document, and one claim explained step by step."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from bench.core.text import FRACTION, FRACTION_DIFFERENCE, SIX, THREE_DIFFERENCE
from bench.judge.claims import print_interval
from bench.judge.results import Results
from bench.judge.samples import Sample
from bench.judge.stats.verdicts import ALPHA, ENOUGH, INCONCLUSIVE, OUTCOMES, Verdict, is_exact
from bench.show.tables.cells import Entry, Linked, Measured, Number, Table, of_claim, of_document, results_table
from bench.show.tables.steps import rule_steps

AFTER = "measured after training"
CURVES = "points of training curves with their last ones"
COMPUTED = "computed and not trained"
RULE = (
    "D: distance of our mean from the numbers that print as the reported one; h: half-width of the 95 % prediction "
    "interval for one more run of ours. Within margin: D + h <= margin. Consistent: D <= h <= margin. Not reproduced: "
    f"D > margin and p < {ALPHA} after Holm's adjustment over the document's claims, a curve over epochs being one. "
    "Where a report gives several runs and their spread, equivalence of the means (Welch's two one-sided tests, "
    f"p < {ALPHA}) takes the place of the first two. Unresolvable: no number of seeds with this mean and spread would "
    "decide: the noise exceeds the margin, or the report lies beyond the noise and within the margin. Fewer than "
    f"{ENOUGH} seeds decide nothing."
)


def verdicts_table(results: Results, verdicts: Sequence[Verdict]) -> Table:
    """One line a claim."""
    columns = ["claim", "reported", "unit", "margin", "measured", "difference", "h", "p", "verdict", "why"]
    lines = [_line(results, verdict) for verdict in verdicts]
    caption = (
        f"{len(verdicts)} reported numbers: {counts_text(verdicts)}. Of these, {kinds_text(verdicts)}. Published "
        f"recipe and published protocol. {RULE}"
    )
    return results_table(results, "verdicts", "Which reported numbers reproduce", caption, columns, lines)


def summary_table(results: Results, verdicts: Sequence[Verdict]) -> Table:
    """How many claims of each document had each outcome."""
    sources = list(dict.fromkeys(verdict.claim.source for verdict in verdicts))
    lines: list[list[Entry]] = []
    for source in sources:
        mine = [verdict for verdict in verdicts if verdict.claim.source == source]
        counts = [len(mine), *(sum(verdict.outcome == outcome for verdict in mine) for outcome in OUTCOMES)]
        lines.append([Linked(text, (of_document(source),)) for text in (source, *map(str, counts))])
    caption = f"Number of claims. Of all, {kinds_text(verdicts)}. {RULE}"
    columns = ["document", "claims", *OUTCOMES]
    return results_table(results, "verdict_summary", "Verdicts by document", caption, columns, lines, has_spread=False)


def counts_text(verdicts: Sequence[Verdict]) -> str:
    """Return how many claims had each outcome, those that occur."""
    counts = {outcome: sum(verdict.outcome == outcome for verdict in verdicts) for outcome in OUTCOMES}
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)


def kinds_text(verdicts: Sequence[Verdict]) -> str:
    """Return the outcomes apart for points of training curves, for what is measured after them, and for closed forms.

    A curve has many points that agree or not together: counted with the others they would outweigh them.
    """
    kinds: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        kinds.setdefault(_kind(verdict), []).append(verdict)
    order = [kind for kind in (AFTER, CURVES, COMPUTED) if kind in kinds]
    return "; ".join(f"{len(kinds[kind])} {kind}: {counts_text(kinds[kind])}" for kind in order)


def _kind(verdict: Verdict) -> str:
    if is_exact(verdict.claim):
        return COMPUTED
    return AFTER if verdict.claim.stage == "final" else CURVES


def _line(results: Results, verdict: Verdict) -> list[Entry]:
    claim = verdict.claim
    is_fraction, here = claim.unit == "fraction", (of_claim(claim.id),)
    return [
        Linked(claim.id, here),
        Linked(claim.printed, here),
        claim.unit or "-",
        f"{claim.margin:g}" if claim.margin else "digits",
        Measured(verdict.sample, FRACTION if is_fraction else SIX) if verdict.sample.n else "-",
        "-"
        if verdict.difference is None
        else Number(
            verdict.difference, FRACTION_DIFFERENCE if is_fraction else THREE_DIFFERENCE, verdict.sample.sources
        ),
        "-" if verdict.half_width is None else Linked(f"{verdict.half_width:.2g}", here),
        "-" if verdict.p_adjusted is None else Linked(f"{verdict.p_adjusted:.2g}", here),
        Linked(verdict.outcome, here),
        reason(results, verdict),
    ]


def reason(results: Results, verdict: Verdict) -> str:
    """Return why, and how long it would take here to have enough seeds where more would settle it."""
    from bench.core.text import duration

    more = _seeds_missing(verdict)
    cost = _cost(results, verdict.claim.approach)
    if not more or cost is None:
        return verdict.reason
    machine = "" if cost.is_valid else ", on a busy machine"
    takes = "takes" if more == 1 else "take"
    return f"{verdict.reason}; {more} more {takes} about {duration(more * cost.seconds)} here{machine}"


def _seeds_missing(verdict: Verdict) -> int:
    if verdict.seeds_needed is not None:
        return verdict.seeds_needed - verdict.sample.n
    if verdict.sample.n and verdict.outcome == INCONCLUSIVE:
        return max(0, ENOUGH - verdict.sample.n)
    return 0


class _Cost(NamedTuple):
    """What one more seed takes."""

    seconds: float
    is_valid: bool  # measured on a quiet machine


def _cost(results: Results, approach: str) -> _Cost | None:
    """Return the cost of one more seed of a published cell, from the records of seeds that were trained alone.

    Times that count go first; others are those of a busy machine. A share of a batch says nothing of one more seed.
    """
    timings = [
        record.timings
        for record in results.cell(approach, "published", "published")
        if record.outcome == "done" and record.timings.batched is None
    ]
    valid = [timing.wall_s for timing in timings if timing.valid and timing.wall_s]
    costs = valid or [timing.wall_s for timing in timings if timing.wall_s]
    return _Cost(statistics.median(costs), bool(valid)) if costs else None


def explain(results: Results, verdict: Verdict) -> str:
    """Return how one claim came to its verdict, step by step with its numbers."""
    claim, sample = verdict.claim, verdict.sample
    interval = print_interval(claim)
    lines = [
        f"{claim.id}: {verdict.outcome}",
        f"  reported   {claim.printed} {claim.unit} ({claim.precision_kind}; {claim.locator} of {claim.source})",
        f"  prints so  from {interval.low:.8g} to {interval.high:.8g}",
        f"  measured   {_measured_text(sample)}",
    ]
    if not is_exact(claim):
        lines.append(f"  margin     {claim.margin:g}: {claim.margin_reason}")
    if verdict.distance is not None:
        lines.append(f"  distance   D = {verdict.distance:.4g} from the mean to the numbers that print so")
    lines += rule_steps(verdict)
    lines.append(f"  so         {reason(results, verdict)}")
    return "\n".join(lines)


def _measured_text(sample: Sample) -> str:
    if sample.mean is None:
        return "nothing"
    spread = "" if sample.sd is None else f", standard deviation {sample.sd:.4g}"
    values = ", ".join(f"{value:.7g}" for value in sample.values)
    return f"mean {sample.mean:.7g}{spread}, {sample.n} seed(s): {values}"


def as_json(results: Results, verdict: Verdict) -> dict[str, object]:
    """Return a verdict for machines."""
    claim, sample = verdict.claim, verdict.sample
    return {
        "claim": claim.id,
        "source": claim.source,
        "approach": claim.approach,
        "stage": claim.stage,
        "locator": claim.locator,
        "unit": claim.unit,
        "printed": claim.printed,
        "precision_kind": claim.precision_kind,
        "reported": claim.value,
        "margin": claim.margin,
        "margin_reason": claim.margin_reason,
        "n": sample.n,
        "gap": sample.gap.reason if sample.gap else None,
        "values": list(sample.values),
        "mean": sample.mean,
        "sd": sample.sd,
        "difference": verdict.difference,
        "distance": verdict.distance,
        "half_width": verdict.half_width,
        "p_adjusted": verdict.p_adjusted,
        "p_equivalence": verdict.p_equivalence,
        "seeds_needed": verdict.seeds_needed,
        "verdict": verdict.outcome,
        "reason": reason(results, verdict),
    }
