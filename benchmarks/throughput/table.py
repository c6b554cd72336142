"""The table of our speeds beside the documents'."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bench.core.text import THREE, Digits
from bench.judge.samples import MissingValue
from bench.show.table import Entry, Missing, Number, Table
from benchmarks.command import notes
from benchmarks.throughput.blocks import Comparison
from benchmarks.throughput.measure import Request, Speeds

COLUMNS = ("approach", "what", "unit", "ours", "range", "document", "its range", "ratio", "its range", "target")
RATIO, TARGET = COLUMNS.index("ratio"), COLUMNS.index("target")
TWO = Digits(significant=2)
TARGETS = {  # how many times as fast as the document's code ours is meant to be: our own, for two cores
    "train": {
        "pyro_hidden_layer": 35.0,
        "mxnet_bbb": 3.0,
        "pyro_random_module": 3.0,
        "linear_bbb": 2.5,
        "dropout_fcn": 1.6,
        "mlp": 1.5,
    },
    "predict": {"pyro_hidden_layer": 100.0, "pyro_random_module": 25.0, "linear_bbb": 12.0, "mxnet_bbb": 5.0},
}
CAPTION = (
    "One process runs blocks of our code and of the document's own code in turn: medians and ranges over the rounds. "
    "Ratio: how many times as fast ours is. Training: milliseconds per step; ours is the real fit and gathers its "
    "batches, the document's batches lie ready. Prediction: draws x images per second, ours through the harness, the "
    "document's in its own loop and batches. '!' marks times that do not count."
)


def throughput_table(found: Sequence[Speeds]) -> Table:
    """Return a row for each measurement, and for each request without one."""
    lines = [line for one in found for line in _lines(one)]
    reasons = {f"!: {one.reason}" for one in found if one.outcome == "done" and one.reason}
    missed = [
        f"{line[0]}, {line[1]} ({ratio} of {target})"
        for line in lines
        if isinstance(ratio := line[RATIO], Number) and isinstance(target := line[TARGET], Number)
        if ratio.value < target.value
    ]
    below = [f"Below the target: {'; '.join(missed)}."] if missed else []
    title = "Our code's speed beside the documents'"
    return Table("throughput", title, CAPTION, COLUMNS, lines, [*sorted(reasons), *below, *notes()])


def _lines(one: Speeds) -> list[list[Entry]]:
    if one.outcome != "done":
        missing_value = Missing(MissingValue(one.outcome, one.reason))
        return [
            [one.request.approach, one.request.what, "", missing_value, "", missing_value, "", missing_value, "", ""]
        ]
    mark = " !" if one.reason else ""
    return [_line(one.request, what + mark, compared) for what, compared in one.compared]


def _line(asked: Request, what: str, compared: Comparison) -> list[Entry]:
    is_training = asked.what == "train"
    rates = compared.ours.rates, compared.document.rates
    ours, document = ([1000 / rate for rate in one] if is_training else one for one in rates)
    target = TARGETS[asked.what].get(asked.approach) if asked.device == "cpu" else None
    return [
        *(asked.approach, what, "ms" if is_training else "1/s"),
        *median_and_range(ours),
        *median_and_range(document),
        *median_and_range([mine / theirs for mine, theirs in zip(*rates, strict=True)]),
        "" if target is None else Number(target, TWO),
    ]


def median_and_range(values: Sequence[float]) -> tuple[Number, str]:
    """Return two entries: the median, and the range."""
    return Number(statistics.median(values), THREE), f"{THREE.text(min(values))} - {THREE.text(max(values))}"
