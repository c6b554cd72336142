"""Table `speed`: size, times of training and prediction, memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from bench.core.reasons import in_words
from bench.core.records import Record
from bench.core.text import THREE, WHOLE
from bench.judge.results import Results
from bench.judge.samples import Gap, Sample, gather
from bench.show.material import Material
from bench.show.table import Entry, Measured, Table

TIMINGS = {
    "fit_s": "training, s",
    "epoch_s_median": "s an epoch",
    "train_images_per_s": "training images/s",
    "predict_draw_images_per_s": "draws x images/s",
    "latency_s": "one image, ms",
}
NOT_COUNTED = Gap("n/a", "the approach does not expose its weights")
NOT_TAKEN = Gap("n/a", "not measured: it does not apply to this task or protocol")
MILLISECONDS = 1000.0


def speed_table(material: Material) -> Table:
    """Return a row for each approach and recipe, toys included."""
    results = material.results
    rows = [_row(results, approach, recipe) for approach in results.approaches for recipe in results.recipes(approach)]
    columns = ["approach", "recipe", "parameters", "weights", *TIMINGS.values()]
    columns += ["peak memory, MiB", "device", "threads"]
    caption = (
        "Parameters: trained numbers. Weights: scalar weights of one network. Training: without measuring. S an epoch: "
        "median over epochs. Draws x images/s: 100 draws of the test set. One image: time for 100 draws, median of "
        "repeats; a deterministic network has one draw. Peak memory: of the whole process, with its frameworks. '!' "
        "marks times that do not count."
    )
    return Table("speed", "Speed and memory", caption, columns, rows).of(results)


def _row(results: Results, approach: str, recipe: str) -> list[Entry]:
    common, published = (results.cell(approach, recipe, protocol) for protocol in ("common", "published"))
    finished = any(record.outcome == "done" for record in common)
    records = common if finished or not published else published  # both share the fit; common also times prediction
    alone = [record for record in records if record.timings.batched is None]  # seeds that trained by themselves
    return [
        approach,
        recipe,
        *(Measured(_number(records, "model", name, NOT_COUNTED), WHOLE) for name in ("n_parameters", "n_weights")),
        *(_time(records, name) for name in TIMINGS),
        Measured(_timing(alone or records, "peak_memory_mib"), WHOLE),
        _distinct(record.device for record in records),
        _distinct(record.provenance.threads for record in records),
    ]


def _distinct(values: Iterable[object]) -> str | None:
    return " / ".join(sorted({str(value) for value in values if value is not None})) or None


def _number(records: Sequence[Record], part: str, name: str, why: Gap) -> Sample:
    """Return a number of a part of the records, or why it is not there."""

    def read(record: Record) -> float | Gap:
        value: float | None = getattr(getattr(record, part), name)
        return why if value is None else float(value)

    return gather(records, read)


def _timing(records: Sequence[Record], name: str) -> Sample:
    return _number(records, "timings", name, NOT_TAKEN)


def counted_times(records: Sequence[Record], name: str) -> tuple[Sample, bool]:
    """Return a time of the seeds whose timings count, and True. If none counts: of all seeds, and False."""
    invalid = _invalid(records)
    counted = _timing([record for record in records if record not in invalid], name)
    if counted.n or not invalid:
        return counted, True
    return _timing(records, name), False


def _invalid(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if record.outcome == "done" and not record.timings.valid]


def _time(records: Sequence[Record], name: str) -> Measured:
    """Return the entry of a time, with a mark if the timings of some or of all seeds do not count."""
    sample, counts = counted_times(records, name)
    if name == "latency_s":
        sample = replace(sample, values=tuple(value * MILLISECONDS for value in sample.values))
    invalid = _invalid(records)
    if not invalid:
        return Measured(sample, THREE)
    why = in_words(*invalid[0].timings.reasons) or "the record does not say why"
    if counts:
        return Measured(sample, THREE, Gap("*", f"times of {len(invalid)} of {len(records)} seeds do not count: {why}"))
    return Measured(sample, THREE, Gap("!", f"times do not count: {why}"))
