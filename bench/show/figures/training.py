"""Training logs: what a document prints after each epoch, ours, and the difference in margins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from bench.core.records import Record
from bench.judge.claims import CLOSED_FORM, Claim, in_claim_unit, measured_key
from bench.measure.metrics.arrays import FloatArray
from bench.show.figures.figure import Absent, Figure
from bench.show.figures.style import REPORTED, SMALL, WIDTH, Axes, Drawing, Look, canvas, look
from bench.show.inputs import Inputs

RATIO = 30.0  # largest over smallest value from which a loss is drawn on a logarithmic axis
LARGE = 10.0  # margins from which differences are drawn on an axis that is logarithmic beyond one margin


@dataclass(frozen=True)
class LogCurve:
    """One quantity of a training log: its reported values as claims, and ours by seed and epoch."""

    claims: Sequence[Claim]  # of the document's own run, then of other runs of the same code
    epochs: FloatArray  # [E]
    values: FloatArray  # [seeds, E], in the claims' unit

    @property
    def sources(self) -> list[str]:
        """Return the runs that were reported, the document's first."""
        return list(dict.fromkeys(claim.source for claim in self.claims))

    def reported(self, source: str) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return epochs, values and margins of one reported run."""
        mine = [
            (int(measured_key(claim)[0].partition(":")[2]), claim.value, claim.margin)
            for claim in self.claims
            if claim.source == source
        ]
        epochs, values, margins = np.array(sorted(mine)).T
        return epochs, values, margins


def quantity(claim: Claim) -> str:
    """Return in words which quantity of a training log a claim reports; its unit says how a loss is summed."""
    what = "loss" if "loss" in claim.metric else claim.metric.replace("_", " ")
    is_average = claim.metric.endswith("_ema")
    return f"{'test' if 'test' in claim.split else 'training'} {what}{', moving average' if is_average else ''}"


def curves(inputs: Inputs, approach: str) -> list[LogCurve]:
    """Return the quantities of an approach's training log that its records have, in the order of the claims."""
    records = inputs.finished(approach, "published", "published")
    logs: dict[str, list[Claim]] = {}
    for claim in inputs.claims:
        if claim.approach == approach and claim.stage != "final" and measured_key(claim)[0] != CLOSED_FORM:
            logs.setdefault(measured_key(claim)[1], []).append(claim)
    found = []
    for key, claims in logs.items():
        lines = [line for record in records if len(line := _line(record, key)) > 0]
        shortest = min((len(line) for line in lines), default=0)
        if shortest:
            values = np.array([[in_claim_unit(claims[0], value) for value in line[:shortest]] for line in lines])
            found.append(LogCurve(claims, np.arange(1, shortest + 1, dtype=float), values))
    return found


def _line(record: Record, key: str) -> list[float]:
    """Return a record's values of epochs 1, 2, ..., up to the first epoch without a value."""
    values: list[float] = []
    for entry in record.epochs:
        value = entry.metrics.get(key)
        if value is None:
            break
        values.append(float(value))
    return values


def make(inputs: Inputs) -> Iterator[Figure | Absent]:
    """Give one figure for each approach with a published training log."""
    logged = {claim.approach: claim for claim in inputs.claims if claim.stage.startswith("epoch")}
    for claim in inputs.claims:
        if claim.stage.startswith("step") and measured_key(claim)[0] != CLOSED_FORM:
            logged.setdefault(claim.approach, claim)
    for approach, claim in logged.items():
        document = claim.source.partition("-")[0]
        name, title = f"{document}-training-{approach}", f"Training log of {approach}, ours and the published one"
        records = inputs.finished(approach, "published", "published")
        found = curves(inputs, approach) if inputs.profile != "smoke" else []
        if not records:
            yield Absent(name, title, document, inputs.not_run(f"{approach} published x published"))
        elif not found:
            short = "cuts every epoch short" if inputs.profile == "smoke" else "has none of the printed numbers"
            yield Absent(name, title, document, f"profile {inputs.profile} {short}; profile full has them all")
        else:
            draw = partial(_draw, look(approach, inputs.results.approaches), found)
            yield Figure(name, title, _caption(inputs, found, records), document, draw)


def _caption(inputs: Inputs, found: Sequence[LogCurve], records: Sequence[Record]) -> str:
    seeds = f"mean of {len(records)} seeds, band: their range" if len(records) > 1 else "one seed"
    runs = " and ".join(dict.fromkeys(run for curve in found for run in curve.sources))
    return (
        f"Above: the numbers that the document prints while training (grey, {runs}) and ours ({seeds}). Below: ours "
        "minus the document's own, in units of the margin, the difference that would matter, declared with each "
        f"number; the grey band is one margin. Published recipe and published protocol. {inputs.conditions(records)}"
    )


def _draw(mine: Look, found: Sequence[LogCurve]) -> Drawing:
    """Return the drawing: a column for each quantity."""
    columns = len(found)
    drawing = canvas(WIDTH if columns > 1 else WIDTH * 0.65, 3.8)
    axes = drawing.subplots(2, columns, squeeze=False, sharex="col", height_ratios=(2, 1))
    for column, curve in enumerate(found):
        _values(axes[0, column], curve, mine.colour)
        _differences(axes[1, column], curve, mine)
    axes[0, 0].legend(loc="best")
    return drawing


def _values(axes: Axes, curve: LogCurve, colour: str) -> None:
    for number, run in enumerate(curve.sources):
        epochs, values, _ = curve.reported(run)
        label = "published" if number == 0 else run.partition("-")[2].replace("-", " ")
        marker = "o" if number == 0 else "x"
        axes.plot(epochs, values, marker, color=REPORTED, label=label, zorder=3, markersize=3.5, fillstyle="none")
    axes.plot(curve.epochs, curve.values.mean(axis=0), color=colour, label="ours", zorder=2)
    if len(curve.values) > 1:
        low, high = curve.values.min(axis=0), curve.values.max(axis=0)
        axes.fill_between(curve.epochs, low, high, color=colour, alpha=0.25, linewidth=0)
    everything = np.concatenate([curve.values.reshape(-1), [claim.value for claim in curve.claims]])
    if everything.min() > 0 and everything.max() > RATIO * everything.min():
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
    axes.set_title(f"{quantity(curve.claims[0])}\n[{curve.claims[0].unit}]")


def _differences(axes: Axes, curve: LogCurve, mine: Look) -> None:
    epochs, values, margins = curve.reported(curve.sources[0])
    shared = [i for i, epoch in enumerate(epochs) if epoch in curve.epochs and margins[i] > 0]
    epochs = epochs[shared]
    ours = (curve.values[:, [int(epoch) - 1 for epoch in epochs]] - values[shared]) / margins[shared]
    axes.axhspan(-1, 1, color=REPORTED, alpha=0.2, linewidth=0)
    axes.axhline(0, color=REPORTED, linewidth=0.8)
    # A line between epochs that are far apart would show numbers that nobody measured.
    is_every = len(epochs) > 0 and len(epochs) == np.ptp(epochs) + 1
    line = "-" if is_every else "none"
    axes.plot(epochs, ours.mean(axis=0), mine.marker, color=mine.colour, markersize=3, linestyle=line, linewidth=0.8)
    if len(ours) > 1:
        low, high = ours.min(axis=0), ours.max(axis=0)
        if is_every:
            axes.fill_between(epochs, low, high, color=mine.colour, alpha=0.25, linewidth=0)
        else:
            axes.vlines(epochs, low, high, color=mine.colour, linewidth=1.0)
    largest = float(np.abs(ours).max(initial=1.0))
    if largest > LARGE:
        axes.set_yscale("symlog", linthresh=1)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
    axes.set_ylim(-1.15 * max(largest, 1.3), 1.15 * max(largest, 1.3))
    axes.set_xlabel("epoch" if "step" not in curve.claims[0].stage else "printing interval", fontsize=SMALL + 1)
    axes.set_title("ours minus published [margins]", fontsize=SMALL + 0.5)
