"""The throughput table: our code beside the documents', from the files that `python -m bench throughput` writes."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.claims import Gap, Record
from bench.report.cells import THREE, Digits, Missing, Number, Table, make_table
from bench.report.records import origin

COLUMNS = (
    "approach",
    "what",
    "device",
    "precision",
    "unit",
    "ours",
    "ours, range",
    "document",
    "document, range",
    "ratio",
    "ratio, range",
    "rounds",
    "of the product rate",
    "overhead",
    "a block, ours",
    "a block, document",
)
SHARE = Digits(decimals=2)
MILLISECONDS = 1000.0
NO_OVERHEAD = Gap("-", "taken of training steps only")
CAPTION = (
    "Blocks of our code and of the document's own code in turn, in one process: medians and ranges (smallest to "
    "largest) over the rounds. Ratio: how many times as fast ours is, median and range of the rounds' own ratios. "
    "Training: milliseconds a step; ours is the real fit with its batches, the document's batches lie ready. "
    "Prediction: draws x images a second; ours predicts whole data sets, the document's loop its own small batches. "
    "Of the product rate: the operations of our matrix products a second, counted from the layer sizes, over those of "
    "one large {size} product timed in the same rounds. Overhead: time of the same step on a network of a few units, "
    "where Python and the framework are all that is left, over the step's time. '!' marks times that do not count."
)


def throughput_table(records: Sequence[Record], order: Iterable[str]) -> Table:
    """One row for each thing measured; `order` names the approaches."""
    place = {name: index for index, name in enumerate(order)}
    chosen = sorted(
        records,
        key=lambda record: (
            place.get(record["approach"], len(place)),
            record["what"] != "train",
            record["device"],
            record["precision"],
            record["draws"],
        ),
    )
    rows = [row for record in chosen for row in _rows(record)]
    sizes = sorted({f"({row['product_size']} x {row['product_size']})" for record in chosen for row in record["rows"]})
    caption = CAPTION.format(size=" or ".join(sizes) or "square")
    reasons = {record["timings"]["reason"] for record in chosen if record["outcome"] == "done"} - {""}
    notes = [*(f"!: {reason}" for reason in sorted(reasons)), *origin(chosen)]
    return make_table("throughput", "Our code's speed beside the documents'", caption, COLUMNS, rows, notes)


def _rows(record: Record) -> list[list[Any]]:
    where = [record["device"], record["precision"]]
    if record["outcome"] != "done":
        gap = Missing(Gap(record["outcome"], record["reason"]), _sources(record))
        what = "training step" if record["what"] == "train" else "prediction"
        return [[record["approach"], what, *where, "", gap, "", gap, "", gap, "", "", gap, gap, "", ""]]
    return [_row(record, row) for row in record["rows"]]


def _row(record: Record, row: Mapping[str, Any]) -> list[Any]:
    is_training, here = record["what"] == "train", _sources(record)
    ours, document, product = (_rates(row[side]) for side in ("ours", "document", "product"))
    ratios = [mine / theirs for mine, theirs in zip(ours, document, strict=True)]
    reached = statistics.median(ours) * row["flops_per_unit"] / statistics.median(product)
    overhead: Number | Missing = Missing(NO_OVERHEAD)
    if is_training:
        overhead = Number(row["overhead_s"] * statistics.median(ours), SHARE, here)
    shown = [[MILLISECONDS / rate for rate in rates] if is_training else rates for rates in (ours, document)]
    valid = record["timings"]["valid"]
    return [
        record["approach"],
        row["title"] if valid else f"{row['title']} !",
        record["device"],
        record["precision"],
        "ms" if is_training else "1/s",
        *_median_and_range(shown[0], here),
        *_median_and_range(shown[1], here),
        *_median_and_range(ratios, here),
        str(len(ratios)),
        Number(reached, SHARE, here),
        overhead,
        row["measured"]["ours"],
        row["measured"]["document"],
    ]


def _rates(side: Mapping[str, Any]) -> list[float]:
    return [side["work"] / seconds for seconds in side["seconds"]]


def _sources(record: Record) -> tuple[str, ...]:
    return (str(record.get("sha256", "")),)  # a record of speeds has no key


def _median_and_range(values: Sequence[float], sources: tuple[str, ...]) -> tuple[Number, str]:
    return Number(statistics.median(values), THREE, sources), f"{THREE.text(min(values))} - {THREE.text(max(values))}"
