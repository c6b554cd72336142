"""Table `pruning`: how well a network predicts without its least certain weights."""

from __future__ import annotations

from collections.abc import Sequence

from bench.core.reasons import in_words
from bench.core.records import PrunedRow, Record
from bench.core.text import FRACTION, WHOLE
from bench.judge.claims import measured_key
from bench.judge.samples import Gap, gather
from bench.show.material import Material
from bench.show.table import Entry, Linked, Measured, Missing, Table
from bench.show.tables.accuracy import ABSENT, beside_report

MEAN = "mean"
MEASURED = {
    "accuracy": "accuracy",
    "nll": "NLL",
    "noise_refusal_rate": "noise refused",
    "pruned_of_used": "removed of used",
    "kept": "kept weights",
    "bytes": "bytes",
}
NOT_REPORTED: list[Entry] = [Missing(ABSENT)] * 3
NO_PRUNING = Gap("n/a", "the record has no pruning curve")


def pruning_table(material: Material) -> Table:
    """Return a row for each approach, recipe, network and share of removed weights; beside some, reported numbers."""
    results = material.results
    cells = [(approach, recipe) for approach in results.classifiers() for recipe in results.recipes(approach)]
    rows = [row for cell in cells for row in _rows(material, *cell)]
    accuracy, *others = MEASURED.values()
    columns = ["approach", "recipe", "score", "network", "removed", accuracy]
    columns += ["reported", "published x published", "difference", *others, "kept by layer"]
    caption = (
        "The weights with the lowest score are removed first, together with their noise. Score: |mu|/sigma, or |w| for "
        "a network without sigma. Mean: the network of posterior means. 30 draws: mean of their probabilities. NLL: "
        "nats per image. Noise refused: fraction of uniform noise images that the median rule refuses. Removed of "
        "used: fraction removed of the weights that the prediction uses. Bytes: size of the sparse network. Official "
        "test set."
    )
    return Table("pruning", "Pruning", caption, columns, rows).of(results)


def _rows(material: Material, approach: str, recipe: str) -> list[list[Entry]]:
    records = material.results.cell(approach, recipe, "common")
    curves = [curve for record in records if (curve := record.arrays.pruning) is not None]
    if not curves:
        why = Measured(gather(records, _no_curve))
        return [[approach, recipe, None, None, None, why, *NOT_REPORTED, *[why] * (len(MEASURED) - 1), None]]
    score = " / ".join(sorted({curve.score for curve in curves}))
    levels = {(row.network != MEAN, row.network, row.fraction) for curve in curves for row in curve.rows}
    rows = []
    for draws, network, fraction in sorted(levels):
        accuracy, *others = (_entry(records, network, fraction, name) for name in MEASURED)
        reported = NOT_REPORTED if draws else _reported_and_ours(material, approach, recipe, fraction)
        layers = _layers(records, network, fraction)
        rows.append([approach, recipe, score, network, f"{fraction:g}", accuracy, *reported, *others, layers])
    return rows


def _entry(records: Sequence[Record], network: str, fraction: float, name: str) -> Entry:
    if name == "noise_refusal_rate" and network == MEAN:
        return Missing(ABSENT)  # one network has no draws whose median could refuse

    def read(record: Record) -> float | Gap:
        row = _find(record, network, fraction)
        if row is None:
            return _no_curve(record)
        value: float | None = getattr(row, name)
        return Gap("n/a", f"the pruning curve has no '{name}'") if value is None else float(value)

    return Measured(gather(records, read), WHOLE if name in ("kept", "bytes") else FRACTION)


def _no_curve(record: Record) -> float | Gap:
    reason = record.missing.get("pruning")
    return Gap("n/a", in_words(reason)) if reason else NO_PRUNING


def _find(record: Record, network: str, fraction: float) -> PrunedRow | None:
    rows = record.arrays.pruning.rows if record.arrays.pruning else []
    return next((row for row in rows if (row.network, row.fraction) == (network, fraction)), None)


def _layers(records: Sequence[Record], network: str, fraction: float) -> Linked | None:
    """Return the kept share of each layer, mean over seeds."""
    found = [row.layers for record in records if (row := _find(record, network, fraction)) and row.layers]
    if not found:
        return None
    names = list(found[0])
    text = ", ".join(f"{name} {sum(layers[name] for layers in found) / len(found):.3f}" for name in names)
    return Linked(text, tuple(record.key for record in records))


def _reported_and_ours(material: Material, approach: str, recipe: str, fraction: float) -> list[Entry]:
    ending = f"/pruned_accuracy@{fraction:g}"
    claims = [claim for claim in material.claims if claim.approach == approach and recipe == "published"]
    claim = next((claim for claim in claims if measured_key(claim)[1].endswith(ending)), None)
    return beside_report(claim, material.results.cell(approach, recipe, "published"))
