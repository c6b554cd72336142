"""Measured speeds of our code beside the documents', and their table."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.core.project import REFERENCE
from bench.core.records import Outcome, Provenance
from bench.core.text import THREE, Digits
from bench.core.toml import TomlTable, read_toml
from bench.judge.results import origin_of
from bench.judge.samples import Gap
from bench.plan.registry import manifests
from bench.show.table import Entry, Missing, Number, Table
from benchmarks.throughput.blocks import PRODUCT_SIZE, Comparison

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
    "target",
    "rounds",
    "of the product rate",
    "ratio, products alone",
    "overhead",
    "a block, ours",
    "a block, document",
)
DEVICE, RATIO, TARGET = (COLUMNS.index(name) for name in ("device", "ratio", "target"))
SHARE = Digits(decimals=2)
TWO = Digits(significant=2)
MILLISECONDS = 1000.0
TARGETS = REFERENCE / "speed_targets.toml"
CONDITIONS = ("cpu", "float32")  # device and precision that the targets are for
NO_OVERHEAD = Gap("-", "measured for training steps only")
CAPTION = (
    "One process runs blocks of our code and of the document's own code in turn: medians and ranges over the rounds. "
    "Ratio: how many times as fast ours is, median and range over the rounds. Target: the ratio that we aimed at. "
    "Training: milliseconds per step; ours is the real fit and gathers its batches, the document's batches lie ready. "
    "Prediction: draws x images per second, ours through the harness, the document's in its own loop and batches. Of "
    "the product rate: our matrix products' operations per second, counted from the layer sizes, divided by those of "
    "one large {size} product in the same precision and rounds. Ratio, products alone: the ratio if our code did "
    "nothing but these products at that rate. Overhead: time of the same step on a network of a few units, which is "
    "nearly all Python and framework, divided by the step's time. A block: how much work one block holds. '!' marks "
    "times that do not count."
)


@dataclass(frozen=True)
class Request:
    """What is measured of one approach, and how."""

    approach: str
    what: str = "train"  # or "predict"
    device: str = "cpu"
    precision: str = "float32"  # of ours; the document's code runs in float32
    draws: int = 100  # of a prediction
    rounds: int = 7  # blocks of each side
    block_s: float = 1.0  # seconds of a block
    images: int | None = None  # test images to predict at most
    threads: int | None = None
    data_dir: str | None = None


@dataclass(frozen=True)
class SpeedRow:
    """One measurement of both sides: the training step, or a kind of prediction."""

    title: str
    compared: Comparison
    flops_per_unit: float
    ours: str  # the work in one of our blocks, in words
    document: str  # the work in one of the document's blocks
    overhead_s: float | None = None


@dataclass(frozen=True)
class Speeds:
    """The measurement of a request."""

    request: Request
    provenance: Provenance
    outcome: Outcome = "done"
    reason: str = ""  # why nothing was measured, or why the times do not count
    rows: tuple[SpeedRow, ...] = ()


class _Targets(TomlTable, frozen=True):
    train: dict[str, float]
    predict: dict[str, float]


def load_targets(path: Path = TARGETS) -> dict[tuple[str, str], float]:
    """Return the target ratio by approach and what ("train", "predict"); raises ConfigError that names the file."""
    found = read_toml(path, _Targets, "speed targets")
    tables = {"train": found.train, "predict": found.predict}
    return {(name, what): ratio for what, ratios in tables.items() for name, ratio in ratios.items()}


def throughput_table(records: Sequence[Speeds]) -> Table:
    """Return a row for each measurement.

    Raises:
        ConfigError: the file of the targets cannot be read.
    """
    targets = load_targets()
    lines = sorted((line for record in records for line in _lines(record, targets)), key=_place)
    devices = {str(line[DEVICE]).split(":")[0] for line in lines if isinstance(line[RATIO], Number)}
    sizes = [f"({size} x {size})" for size in sorted(PRODUCT_SIZE[device] for device in devices)]
    caption = CAPTION.format(size=" or ".join(sizes) or "square")
    reasons = [f"!: {record.reason}" for record in records if record.outcome == "done" and record.reason]
    title = "Our code's speed beside the documents'"
    return Table(
        "throughput",
        title,
        caption,
        COLUMNS,
        lines,
        [*sorted(set(reasons)), *_missed(lines)],
        origin=origin_of([record.provenance for record in records]),
    )


def _n_draws(line: Sequence[object]) -> int:
    found = re.match(r"\d+(?= x )", str(line[-2]))  # of a prediction; a step draws once
    return int(found[0]) if found else 0


def _place(line: Sequence[Entry]) -> tuple[object, ...]:
    place = {name: index for index, name in enumerate(manifests())}
    is_training = str(line[1]).startswith("training")
    return place.get(str(line[0]), len(place)), not is_training, line[2], line[3], _n_draws(line)


def _missed(lines: Sequence[Sequence[Entry]]) -> list[str]:
    """Return a note about the targets that are missed, if there are any."""
    missed = [
        f"{line[0]}, {line[1]} ({found} of {aim})"
        for line in lines
        if isinstance(found := line[RATIO], Number) and isinstance(aim := line[TARGET], Number)
        if found.value < aim.value
    ]
    return [f"Below the target: {'; '.join(missed)}."] if missed else []


def _lines(record: Speeds, targets: Mapping[tuple[str, str], float]) -> list[list[Entry]]:
    asked = record.request
    where = [asked.device, asked.precision]
    if record.outcome != "done":
        gap = Missing(Gap(record.outcome, record.reason))
        what = "training step" if asked.what == "train" else "prediction"
        block = "" if asked.what == "train" else f"{asked.draws} x images"
        return [[asked.approach, what, *where, "", gap, "", gap, "", gap, "", "", "", gap, gap, gap, block, ""]]
    mark = " !" if record.reason else ""
    target = targets.get((asked.approach, asked.what)) if tuple(where) == CONDITIONS else None
    return [_line(asked, row, mark, target) for row in record.rows]


def _line(asked: Request, row: SpeedRow, mark: str, target: float | None) -> list[Entry]:
    is_training = asked.what == "train"
    sides = (row.compared.ours, row.compared.document, row.compared.product)
    ours, document, product = ([side.work / seconds for seconds in side.seconds] for side in sides)
    ratios = [mine / theirs for mine, theirs in zip(ours, document, strict=True)]
    most = statistics.median(product) / row.flops_per_unit  # steps, or draws x images, a second
    overhead: Number | Missing = Missing(NO_OVERHEAD)
    if is_training:
        overhead = Number((row.overhead_s or 0.0) * statistics.median(ours), SHARE)
    shown = [[MILLISECONDS / rate for rate in rates] if is_training else rates for rates in (ours, document)]
    return [
        asked.approach,
        row.title + mark,
        asked.device,
        asked.precision,
        "ms" if is_training else "1/s",
        *median_and_range(shown[0]),
        *median_and_range(shown[1]),
        *median_and_range(ratios),
        "" if target is None else Number(target, TWO),
        str(len(ratios)),
        Number(statistics.median(ours) / most, SHARE),
        Number(most / statistics.median(document), THREE),
        overhead,
        row.ours,
        row.document,
    ]


def median_and_range(values: Sequence[float]) -> tuple[Number, str]:
    """Return two entries: the median, and the range."""
    return Number(statistics.median(values), THREE), f"{THREE.text(min(values))} - {THREE.text(max(values))}"
