"""What stands behind the numbers: every reported one with its verdict step by step, and every record with its facts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.core.reasons import in_words
from bench.core.records import Record
from bench.core.text import SIX
from bench.judge.results import code_of, made_at
from bench.judge.stats.rule import Verdict
from bench.show.outcomes import tone
from bench.show.page.content import ReportContent
from bench.show.page.links import Links, Place, anchor, place_of, record_anchor
from bench.show.tables.alternatives import explained

OF_A_POINT = ("reported", "measured", "one", "curve")  # first words of the steps that a point of a curve shows
TIMES = {"fit_s": "training, s", "predict_s": "prediction, s", "wall_s": "in all, s", "peak_memory_mib": "memory, MiB"}


@dataclass(frozen=True)
class Reasoning:
    """One reported number and how it came to its verdict."""

    id: str
    claim: str
    outcome: str
    tone: str
    steps: str  # lines of text
    note: str
    records: tuple[tuple[str, str], ...]  # text and address of what was measured


@dataclass(frozen=True)
class RecordFacts:
    """One record."""

    id: str
    seed: str
    outcome: str
    reason: str
    measured: str  # date and time, from the record
    code: str
    times: tuple[str, ...]


@dataclass(frozen=True)
class PlaceFacts:
    """The records of one approach, recipe, protocol, profile, device and precision, one a seed."""

    id: str
    title: str
    records: tuple[RecordFacts, ...]
    recipe: tuple[tuple[str, str], ...]
    metrics: tuple[tuple[str, str], ...]  # name, and the numbers of the records in their order
    missing: tuple[tuple[str, str], ...]  # what was not measured, and why


def reasonings(content: ReportContent, links: Links) -> list[tuple[str, list[Reasoning]]]:
    """Return for each document its verdicts, step by step as the command `verdict CLAIM` prints them."""
    documents = dict.fromkeys(verdict.claim.source for verdict in content.material.verdicts)
    return [
        (
            name,
            [
                _reasoning(content, links, verdict)
                for verdict in content.material.verdicts
                if verdict.claim.source == name
            ],
        )
        for name in documents
    ]


def _reasoning(content: ReportContent, links: Links, verdict: Verdict) -> Reasoning:
    sources = verdict.sample.sources
    judgement = content.material.judgement
    is_first = verdict.claim.id in {one.curve.first.id for one in judgement.curves}
    steps = explained(judgement, content.material.results, verdict, is_first).split("\n")[1:]
    if verdict.is_point and not is_first:  # the first point says for all how the curve came to its verdict
        steps = [step for step in steps if step.strip().startswith(OF_A_POINT)]
    return Reasoning(
        anchor("claim", verdict.claim.id),
        verdict.claim.id,
        verdict.outcome,
        tone(verdict.outcome),
        "\n".join(steps),
        verdict.claim.note,
        tuple((key[:8], address) for key in sources if (address := links.to([key]))),
    )


def places(content: ReportContent, links: Links) -> list[PlaceFacts]:
    """Return the facts of the page's records, by place in the order of the approaches."""
    found: dict[Place, list[Record]] = {}
    for record in content.records:
        found.setdefault(place_of(record), []).append(record)
    order = {name: number for number, name in enumerate(content.material.results.approaches)}
    sorted_places = sorted(found, key=lambda place: (order.get(place[0], len(order)), place))
    return [
        _place(links.place(place), place, sorted(found[place], key=lambda record: (record.seed, record.key)))
        for place in sorted_places
    ]


def _place(at: str, place: Place, records: Sequence[Record]) -> PlaceFacts:
    approach, recipe, protocol, *conditions = place
    names = dict.fromkeys(name for record in records for name in record.metrics)
    missing = {name: in_words(reason) for record in records for name, reason in record.missing.items()}
    return PlaceFacts(
        at,
        f"{approach}, {recipe} \N{MULTIPLICATION SIGN} {protocol} ({', '.join(conditions)})",
        tuple(_record(record) for record in records),
        tuple((name, str(value)) for name, value in sorted(records[0].recipe_values.items())),
        tuple((name, ", ".join(_number(record.metrics.get(name)) for record in records)) for name in sorted(names)),
        tuple(sorted(missing.items())),
    )


def _record(record: Record) -> RecordFacts:
    return RecordFacts(
        record_anchor(record.key),
        str(record.seed),
        record.outcome,
        in_words(record.reason),
        made_at(record) or "unknown",
        code_of(record.provenance) or "unknown",
        tuple(_time(record, name) for name in TIMES),
    )


def _time(record: Record, name: str) -> str:
    value: float | None = getattr(record.timings, name)
    mark = "" if record.timings.valid or name == "peak_memory_mib" or value is None else " !"
    return f"{_number(value)}{mark}"


def _number(value: float | None) -> str:
    if value is None:
        return "\N{EN DASH}"
    return SIX.text(value) if math.isfinite(value) else str(value)
