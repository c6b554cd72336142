"""Measured speeds of our code beside the documents', a file for each, and their table."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.core.folder import SealedFolder
from bench.core.project import REFERENCE
from bench.core.records import Fields, Outcome, Provenance, Versions
from bench.core.text import THREE, Digits
from bench.core.toml import TomlTable, read_toml
from bench.judge.results import origin_of
from bench.judge.samples import Gap
from bench.plan.registry import manifests
from bench.show.cells import Entry, Missing, Number, Table, make_table

SPEEDS_SCHEMA = 1
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
SHARE = Digits(decimals=2)
MILLISECONDS = 1000.0
TARGET = Digits(significant=2)
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


class Blocks(Fields, frozen=True, kw_only=True):
    """Times of one side's blocks, a block a round."""

    seconds: list[float]
    work: float  # steps, draws x images or products in a block


class BlockTitles(Fields, frozen=True, kw_only=True):
    """What a block of each side is, in words."""

    ours: str
    document: str


class SpeedRow(Fields, frozen=True, kw_only=True):
    """One thing measured on both sides."""

    title: str
    ours: Blocks
    document: Blocks
    product: Blocks
    product_size: int
    flops_per_unit: float
    measured: BlockTitles
    document_batch: int | None = None
    overhead_s: float | None = None


class SpeedTimings(Fields, frozen=True, kw_only=True):
    """Whether the times count, and if not why."""

    valid: bool
    reason: str


class Speeds(Fields, frozen=True, kw_only=True):
    """The content of one file."""

    schema: int
    sha256: str = ""
    approach: str
    what: str
    device: str
    precision: str
    draws: int
    outcome: Outcome
    reason: str
    rounds: int
    rows: list[SpeedRow]
    timings: SpeedTimings
    provenance: Provenance
    versions: Versions | None = None


def name_of_speeds(speeds: Speeds) -> str:
    """Return the name of a file; new speeds of the same name replace it."""
    naming = (speeds.approach, speeds.what, speeds.device.replace(":", ""), speeds.precision, speeds.draws)
    return f"{'__'.join(map(str, naming))}.json"


def speeds_folder(results: Path) -> SealedFolder[Speeds]:
    """Return the measured speeds of a results folder."""
    return SealedFolder(
        results,
        "throughput",
        Speeds,
        "speeds",
        SPEEDS_SCHEMA,
        name_of_speeds,
        "*.json",
        "measure them again with python -m benchmarks.throughput",
    )


class _Targets(TomlTable, frozen=True):
    train: dict[str, float]
    predict: dict[str, float]


def load_targets(path: Path = TARGETS) -> dict[tuple[str, str], float]:
    """Return the target ratio by approach and what ("train", "predict"); raises ConfigError that names the file."""
    found = read_toml(path, _Targets, "speed targets")
    tables = {"train": found.train, "predict": found.predict}
    return {(name, what): ratio for what, ratios in tables.items() for name, ratio in ratios.items()}


def throughput_table(records: Sequence[Speeds]) -> Table:
    """One row for each thing measured, in the order of the approaches.

    Raises:
        ConfigError: the file of the targets cannot be read.
    """
    place = {name: index for index, name in enumerate(manifests())}
    chosen = sorted(
        records,
        key=lambda record: (
            place.get(record.approach, len(place)),
            record.what != "train",
            record.device,
            record.precision,
            record.draws,
        ),
    )
    targets = load_targets()
    lines = [line for record in chosen for line in _lines(record, targets)]
    sizes = sorted({f"({row.product_size} x {row.product_size})" for record in chosen for row in record.rows})
    caption = CAPTION.format(size=" or ".join(sizes) or "square")
    title, made = "Our code's speed beside the documents'", origin_of([record.provenance for record in chosen])
    return make_table("throughput", title, caption, COLUMNS, lines, _notes(chosen, lines), origin=made)


def _notes(records: Sequence[Speeds], lines: Sequence[Sequence[Entry]]) -> list[str]:
    """Return what the marks mean and which targets are missed."""
    reasons = {record.timings.reason for record in records if record.outcome == "done"} - {""}
    notes = [f"!: {reason}" for reason in sorted(reasons)]
    ratio, target = COLUMNS.index("ratio"), COLUMNS.index("target")
    missed = [
        f"{line[0]}, {line[1]} ({found} of {aim})"
        for line in lines
        if isinstance(found := line[ratio], Number) and isinstance(aim := line[target], Number)
        if found.value < aim.value
    ]
    return [*notes, *([f"Below the target: {'; '.join(missed)}."] if missed else [])]


def _lines(record: Speeds, targets: Mapping[tuple[str, str], float]) -> list[list[Entry]]:
    where = [record.device, record.precision]
    if record.outcome != "done":
        gap = Missing(Gap(record.outcome, record.reason))
        what = "training step" if record.what == "train" else "prediction"
        return [[record.approach, what, *where, "", gap, "", gap, "", gap, "", "", "", gap, gap, gap, "", ""]]
    mark = "" if record.timings.valid else " !"
    target = targets.get((record.approach, record.what)) if tuple(where) == CONDITIONS else None
    return [_line(record, row, mark, target) for row in record.rows]


def _line(record: Speeds, row: SpeedRow, mark: str, target: float | None) -> list[Entry]:
    is_training = record.what == "train"
    ours, document, product = (
        [side.work / seconds for seconds in side.seconds] for side in (row.ours, row.document, row.product)
    )
    ratios = [mine / theirs for mine, theirs in zip(ours, document, strict=True)]
    most = statistics.median(product) / row.flops_per_unit  # steps, or draws x images, a second
    overhead: Number | Missing = Missing(NO_OVERHEAD)
    if is_training:
        overhead = Number((row.overhead_s or 0.0) * statistics.median(ours), SHARE)
    shown = [[MILLISECONDS / rate for rate in rates] if is_training else rates for rates in (ours, document)]
    return [
        record.approach,
        row.title + mark,
        record.device,
        record.precision,
        "ms" if is_training else "1/s",
        *_median_and_range(shown[0]),
        *_median_and_range(shown[1]),
        *_median_and_range(ratios),
        "" if target is None else Number(target, TARGET),
        str(len(ratios)),
        Number(statistics.median(ours) / most, SHARE),
        Number(most / statistics.median(document), THREE),
        overhead,
        row.measured.ours,
        row.measured.document,
    ]


def _median_and_range(values: Sequence[float]) -> tuple[Number, str]:
    return Number(statistics.median(values), THREE), f"{THREE.text(min(values))} - {THREE.text(max(values))}"
