"""Reported numbers beside ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.core.records import Record
from bench.core.text import FRACTION, FRACTION_DIFFERENCE, Digits
from bench.judge.claims import FEWER_EPOCHS, Claim, in_claim_unit, measure, measured_key, print_interval
from bench.judge.samples import MissingValue, Samples, metrics_of
from bench.show.table import NOTHING, Entry, Measured, Missing, Number, of_claim

ABSENT = MissingValue("-", "no such number: no document reports it, or this protocol did not measure the recipe")


def headline(claims: Iterable[Claim], approach: str, name: str, dataset: str) -> Claim | None:
    """Return the number that a document reports at its end, final or of the last epoch; none of training images."""
    found = [
        claim
        for claim in claims
        if (claim.approach, claim.metric, claim.dataset) == (approach, name, dataset)
        and not claim.split.startswith("train")
    ]
    # Of equals, max keeps the first: a document's output stands before its prose and before other runs of its code.
    return max(found, key=_time, default=None)


def _time(claim: Claim) -> float:
    return float("inf") if claim.stage == "final" else int(claim.stage.partition(":")[2])


def beside_report(
    claim: Claim | None, records: Sequence[Record], digits: Digits = FRACTION, change: Digits = FRACTION_DIFFERENCE
) -> list[Entry]:
    """Return three entries: the reported number, ours, the difference; three missing values if there is no claim."""
    if claim is None:
        return [Missing(ABSENT)] * 3
    shown, compared = at_end(claim, records)
    reported = Number(claim.value, Digits(decimals=min(_decimals(claim), 4)), (of_claim(claim.id),))
    if compared.mean is None:
        return [reported, Measured(shown, digits), Missing(compared.missing_value or NOTHING, compared.sources)]
    return [reported, Measured(shown, digits), Number(compared.mean - claim.value, change, compared.sources)]


def at_end(claim: Claim, records: Sequence[Record]) -> tuple[Samples, Samples]:
    """Return our values of a claim at the end of training, twice: those to show and those to compare with the claim.

    A profile that trains fewer epochs than the document has values to show, but none to compare.
    """
    compared = measure(claim, records)
    if compared.n or compared.missing_value is None or compared.missing_value.code != FEWER_EPOCHS:
        return compared, compared
    shown = metrics_of(records, measured_key(claim)[1])
    return shown.converted(lambda value: in_claim_unit(claim, value)), compared


def truncations(claims: Iterable[Claim]) -> list[str]:
    """Return notes on the reported values that the document cut off instead of rounding."""
    return [
        f"{claim.source} truncates: {claim.printed} stands for {claim.printed} to below "
        f"{format(print_interval(claim).high, f'.{_decimals(claim)}f')}."
        for claim in claims
        if claim.precision_kind == "truncated"
    ]


def _decimals(claim: Claim) -> int:
    return len(claim.printed.partition(".")[2])
