"""The evidence: every reported number with its verdict step by step, and every record with its facts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.core.reasons import in_words
from bench.core.records import Record
from bench.core.text import SIX
from bench.judge.stats.rule import Verdict
from bench.show.page.content import ReportContent
from bench.show.page.links import Links, RecordPlace
from bench.show.tables.alternatives import explained

TIMES = {"fit_s": "training, s", "predict_s": "prediction, s", "wall_s": "in all, s", "peak_memory_mib": "memory, MiB"}


def reasonings(content: ReportContent) -> dict[str, list[tuple[Verdict, str]]]:
    """Return the verdicts of each document with their steps, as the command `verdict CLAIM` prints them.

    Of a curve's points, only the first is here, with the steps of the curve. The figure of the training log shows the
    other points.
    """
    judgement = content.inputs.judgement
    first = {one.first.id for one in judgement.curves}
    found: dict[str, list[tuple[Verdict, str]]] = {}
    for verdict in judgement.verdicts:
        is_first = verdict.claim.id in first
        if is_first or not verdict.is_point:
            steps = explained(judgement, content.inputs.judged, verdict, is_first).partition("\n")[2]
            found.setdefault(verdict.claim.source, []).append((verdict, steps))
    return found


def measured_in(verdict: Verdict, links: Links) -> dict[str, str]:
    """Return the addresses of the page's records that measured a claim, by the key of the record."""
    return {key: address for key in verdict.sample.sources if (address := links.to([key]))}


def places(content: ReportContent) -> dict[RecordPlace, list[Record]]:
    """Return the page's records by place. Places are in the order of the approaches, the records of a place by seed."""
    found: dict[RecordPlace, list[Record]] = {}
    for record in sorted(content.records, key=lambda record: (record.seed, record.key)):
        found.setdefault(record.series, []).append(record)
    order = {name: number for number, name in enumerate(content.inputs.results.approaches)}
    return {place: found[place] for place in sorted(found, key=lambda place: (order.get(place[0], len(order)), place))}


def title(place: RecordPlace) -> str:
    """Return the heading of a place."""
    approach, recipe, protocol, *conditions = place
    return f"{approach}, {recipe} \N{MULTIPLICATION SIGN} {protocol} ({', '.join(conditions)})"


def metrics(records: Sequence[Record]) -> list[tuple[str, str]]:
    """Return each metric with its numbers, one for each record."""
    names = sorted({name for record in records for name in record.metrics})
    return [(name, ", ".join(number(record.metrics.get(name)) for record in records)) for name in names]


def missing(records: Sequence[Record]) -> list[tuple[str, str]]:
    """Return each metric that was not measured with the reason."""
    return sorted({name: in_words(reason) for record in records for name, reason in record.missing.items()}.items())


def time(record: Record, name: str) -> str:
    """Return one of `TIMES` of a record, with a "!" if the time does not count."""
    value: float | None = getattr(record.timings, name)
    mark = "" if record.timings.valid or name == "peak_memory_mib" or value is None else " !"
    return f"{number(value)}{mark}"


def number(value: float | None) -> str:
    """Return a number, or a dash where there is none."""
    if value is None:
        return "\N{EN DASH}"
    return SIX.text(value) if math.isfinite(value) else str(value)
