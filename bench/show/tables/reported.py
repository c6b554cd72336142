"""Every reported number beside the measured one: the list of all claims, and the training curves."""

from __future__ import annotations

from collections.abc import Sequence

from bench.core.text import FRACTION, FRACTION_DIFFERENCE, SIX, THREE_DIFFERENCE
from bench.judge.claims import CLOSED_FORM, Claim, ClaimRow, measured_key
from bench.judge.results import Results
from bench.show.tables.accuracy import ABSENT
from bench.show.tables.cells import Entry, Linked, Measured, Missing, Number, Table, difference, of_claim, results_table


def _printed(claim: Claim) -> Linked:
    return Linked(claim.printed, (of_claim(claim.id),))


def _measured(row: ClaimRow, inline: bool = False) -> Measured:
    return Measured(row.sample, FRACTION if row.claim.unit == "fraction" else SIX, inline=inline)


def _difference(row: ClaimRow) -> Number | Missing:
    digits = FRACTION_DIFFERENCE if row.claim.unit == "fraction" else THREE_DIFFERENCE
    return difference(row.sample, row.claim.value, digits)


def claims_table(results: Results, rows: Sequence[ClaimRow]) -> Table:
    """All claims: reported, measured or why not."""
    columns = ["claim", "unit", "reported", "printed", "measured", "difference", "print interval"]
    lines = [
        [
            Linked(row.claim.id, (of_claim(row.claim.id),)),
            row.claim.unit or "1",
            _printed(row.claim),
            row.claim.precision_kind,
            _measured(row, inline=True),
            _difference(row) if row.sample.n else "-",
            row.relative or "-",
        ]
        for row in rows
    ]
    caption = (
        f"{measured_text(rows)} Published recipe and published protocol, at the claim's epoch and on its rows; "
        "entropies are stored in nats and shown in the claim's unit. Print interval, all numbers that print as the "
        "reported one: rounded, half a unit of the last digit to both sides; truncated, up to below the next unit; "
        "count and exact, that number; range, the range. A single run nearly always lies outside, so the distance to "
        "the edge is no verdict."
    )
    partial = {f"*: {row.claim.approach}, {row.sample.gap.reason}" for row in rows if row.sample.n and row.sample.gap}
    return results_table(results, "claims", "Every reported number", caption, columns, lines, sorted(partial))


def measured_text(rows: Sequence[ClaimRow]) -> str:
    """Return how many claims are measured, in one sentence."""
    measured = [row for row in rows if row.sample.n]
    inside = sum(row.relative == "inside" for row in measured)
    return f"{len(measured)} of {len(rows)} reported numbers are measured; {inside} print as the document has them."


GROUPS = ("loss", "training accuracy", "test accuracy")


def curves_table(results: Results, rows: Sequence[ClaimRow]) -> Table:
    """Per-epoch numbers: loss and accuracies of each document's training log."""
    lines: dict[tuple[int, str, int], dict[str, ClaimRow]] = {}
    for row in rows:
        if row.claim.stage == "final" or measured_key(row.claim)[0] == CLOSED_FORM:
            continue
        order = [*results.approaches, row.claim.approach].index(row.claim.approach)
        when = int(row.claim.stage.partition(":")[2])
        lines.setdefault((order, row.claim.source, when), {})[_group(row.claim)] = row
    columns = ["approach", "run", "at", "loss is"]
    columns += [f"{group}: {part}" for group in GROUPS for part in ("reported", "measured", "difference")]
    caption = (
        "The documents' training logs, line by line; training accuracies and losses as the document keeps them "
        "(running, dropout on, its own units). Published x published."
    )
    table = [_line(found) for _, found in sorted(lines.items(), key=lambda item: item[0])]
    return results_table(results, "curves", "Training curves against the reported ones", caption, columns, table)


def _group(claim: Claim) -> str:
    if "loss" in claim.metric:
        return "loss"
    return "training accuracy" if claim.split.startswith("train") else "test accuracy"


def _line(found: dict[str, ClaimRow]) -> list[Entry]:
    claim = next(iter(found.values())).claim
    loss = found.get("loss")
    line: list[Entry] = [claim.approach, claim.source, claim.stage.replace(":", " ")]
    line.append(f"{loss.claim.metric}, {loss.claim.unit}" if loss else ABSENT.code)
    for group in GROUPS:
        row = found.get(group)
        line += [_printed(row.claim), _measured(row), _difference(row)] if row else [Missing(ABSENT)] * 3
    return line
