"""The precision table: what bfloat16 or TF32 products change in every metric, against the noise of float32 itself.

A float32 value is known no better than its noise. Where there are `MIN_SEEDS` float32 seeds it is their standard
deviation, which is what another seed changes. Else it is the standard error that the finite number of test rows gives,
which is smaller: a difference beyond it may still be no more than another seed would make.

    mean over rows   sd / sqrt(n)                       of the rows' stored numbers
    proportion       sqrt(p (1 - p) / n)                at least one row, 1 / n
    AUROC A          Hanley and McNeil 1982, "The meaning and use of the area under a ROC curve", with Q1 = A / (2 - A),
                     Q2 = 2 A^2 / (1 + A) for m positives and n negatives:
                     sqrt([A (1 - A) + (m - 1)(Q1 - A^2) + (n - 1)(Q2 - A^2)] / (m n))

A mean difference over k seeds is beyond the noise s if it exceeds 2 s sqrt(2 / k): two standard deviations of a
difference between two independent float32 values.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.core.reasons import in_words
from bench.core.records import Record
from bench.core.text import THREE_DIFFERENCE, WHOLE, Digits
from bench.judge.results import Results, select
from bench.judge.samples import Gap, Sample
from bench.show.tables.accuracy import ABSENT
from bench.show.tables.cells import Entry, Measured, Missing, Number, Table, make_table

if TYPE_CHECKING:
    from bench.plan.manifests import ApproachManifest

Rows = Mapping[str, NDArray[np.generic]]
"""Per-row numbers of one record by "DATASET/NAME"; empty where there are none."""

FLOAT32 = "float32"
LONG, SHORT = "full", "epoch1"  # the second stands in for the first where an approach has no pairs of that
MIN_SEEDS = 3  # float32 seeds whose spread says something
BEYOND = 2.0  # standard deviations
FOUR, TWO = Digits(significant=4), Digits(significant=2)
PROPORTIONS = (
    "accuracy",
    "mean_network/accuracy",
    "draw_accuracy_mean",  # of many draws: no more than that of one
    "refusal_rate",
    "refusal_rate_strict",
    "disagreement_rate",
)
SELECTIVE = {"selective_accuracy": "refusal_rate", "selective_accuracy_strict": "refusal_rate_strict"}
ROW_MEANS = ("predictive_entropy", "expected_entropy", "nll", "brier")
TIMES = {"epoch_s_median": "s an epoch", "predict_draw_images_per_s": "draws x images/s"}
SAME_MACHINE = ("cpu", "device_name", "vector_instructions", "threads")
NO_NOISE = Gap("unknown", f"the rows tell no standard error of this metric, and there are no {MIN_SEEDS} float32 seeds")
COLUMNS = ["approach", "precision", "profile", "data set", "metric", "float32", "there", "difference"]
COLUMNS += ["noise", "noise from", "n", "beyond noise", "ratio"]


@dataclass(frozen=True)
class Noise:
    """How well a float32 value is known."""

    value: float
    kind: str  # "seeds", "rows", "proportion" or "ROC"
    n: int  # seeds, rows, or out-of-distribution rows


def precision_table(
    records: Iterable[Record],
    profile: str,
    device: str,
    manifests: Mapping[str, ApproachManifest],
    rows_of: Callable[[Record], Rows],
) -> Table:
    """Set published x common of every other precision beside float32, seed by seed.

    Args:
        records: of any conditions; those of the profile and device are taken.
        profile: of the records; of `LONG`, an approach without a pair in a precision is shown by those of `SHORT`.
        device: of the records.
        manifests: the approaches in the order of the table.
        rows_of: gives a record's per-row numbers.
    """
    lengths = (profile, SHORT) if profile == LONG else (profile,)
    here = [record for record in records if record.profile in lengths and record.device == device]
    rows: list[list[Entry]] = []
    notes: list[str] = []
    for precision in sorted({record.precision for record in here} - {FLOAT32}):
        for approach, length in _longest(here, lengths, device, precision, manifests):
            plain, other = (Results(select(here, length, device, kind), manifests) for kind in (FLOAT32, precision))
            made, said = _approach(plain, other, approach, (precision, length), rows_of)
            rows += made
            notes += said
    if not notes:
        notes = ["No records: python -m bench run --all --precision bf16 makes them."]
    caption = (
        "Published training, common protocol, the same seeds: float32, 'there' with matrix products in the precision "
        "named, and the difference. Noise: standard deviation of one float32 value, over seeds (n of them), or where "
        f"there are no {MIN_SEEDS} seeds the standard error from n test rows ('rows': of a mean, 'proportion', 'ROC': "
        "of an area, n out-of-distribution images), which is less than what another seed changes. Beyond noise: over "
        f"{BEYOND:.0f} standard deviations of a difference of two such values, one time in 20 by chance alone. "
        f"Ratio: there over float32, of times that count on one machine. Profile {profile}"
        + (f", where there is no pair of it {SHORT}: one epoch, fewer rows and draws" if len(lengths) > 1 else "")
        + f"; {device}."
    )
    return make_table("precision", "What reduced precision changes", caption, COLUMNS, rows, notes)


def _longest(
    records: Sequence[Record],
    lengths: Sequence[str],
    device: str,
    precision: str,
    manifests: Mapping[str, ApproachManifest],
) -> list[tuple[str, str]]:
    """Return every approach with records in a precision, and the first profile with pairs, or else with records."""
    found: dict[str, str] = {}
    paired = set()
    for length in lengths:
        plain, other = (Results(select(records, length, device, kind), manifests) for kind in (FLOAT32, precision))
        for approach in other.approaches:
            if approach not in paired and _done(plain, approach).keys() & _done(other, approach).keys():
                paired.add(approach)
                found[approach] = length
            elif other.cell(approach, "published", "common"):
                found.setdefault(approach, length)
    order = list(manifests)
    return sorted(found.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order))


def _done(results: Results, approach: str) -> dict[int, Record]:
    """Return the records of published x common with numbers, by seed."""
    found = results.cell(approach, "published", "common")
    return {record.seed: record for record in found if record.outcome == "done"}


def _approach(
    plain: Results, other: Results, approach: str, conditions: tuple[str, str], rows_of: Callable[[Record], Rows]
) -> tuple[list[list[Entry]], list[str]]:
    """Return an approach's lines and notes; conditions: the other precision, and the profile of both."""
    found = other.cell(approach, "published", "common")
    name = f"{approach}, {', '.join(conditions)}"
    done = _done(other, approach)
    if not done:
        return [], [f"{name}: {found[0].outcome}, {in_words(found[0].reason)}."]
    plains = _done(plain, approach)
    pairs = [(plains[seed], done[seed]) for seed in sorted(done) if seed in plains]
    if not pairs:
        return [], [f"{name}: no float32 record of seed {', '.join(map(str, sorted(done)))} to compare with."]
    rows = rows_of(pairs[0][0])
    lines = [
        [approach, *conditions, *_metric_line(key, pairs, list(plains.values()), rows)]
        for key in sorted(pairs[0][0].metrics, key=_place)
        if all(_number(record, key) is not None for pair in pairs for record in pair)
    ]
    beyond = [line[COLUMNS.index("beyond noise")] for line in lines]
    products = sorted({record.provenance.products or "unknown means" for _, record in pairs})
    note = (
        f"{name}: {beyond.count('yes')} of {len(beyond) - beyond.count('unknown')} metrics with a known noise are "
        f"beyond it; {len(pairs)} seed(s), products by {' / '.join(products)}."
    )
    return lines + [[approach, *conditions, *_time_line(key, pairs)] for key in TIMES], [note]


def _place(key: str) -> tuple[bool, str]:
    """Return what sorts metrics: those of the test set before those of other sets."""
    return not key.startswith("mnist/"), key


def _number(record: Record, key: str) -> float | None:
    value = record.metrics.get(key)
    return float(value) if value is not None and math.isfinite(value) else None


def _metric_line(key: str, pairs: Sequence[tuple[Record, Record]], plains: Sequence[Record], rows: Rows) -> list[Entry]:
    dataset, _, name = key.partition("/")
    before, after = (_sample([(pair[side], pair[side].metrics[key]) for pair in pairs]) for side in (0, 1))
    difference = statistics.fmean(b - a for a, b in zip(before.values, after.values, strict=True))
    values = [value for record in plains if (value := _number(record, key)) is not None]
    noise = noise_of(key, values, pairs[0][0], rows)
    start: list[Entry] = [
        dataset,
        name,
        Measured(before, FOUR),
        Measured(after, FOUR),
        Number(difference, THREE_DIFFERENCE, after.sources),
    ]
    if noise is None:
        return [*start, Missing(NO_NOISE), "-", Missing(NO_NOISE), "unknown", Missing(ABSENT)]
    beyond = abs(difference) > BEYOND * noise.value * math.sqrt(2 / len(pairs))
    shown: list[Entry] = [Number(noise.value, TWO, before.sources), noise.kind, Number(noise.n, WHOLE, before.sources)]
    return [*start, *shown, "yes" if beyond else "no", Missing(ABSENT)]


def _sample(found: Sequence[tuple[Record, float | None]]) -> Sample:
    values = tuple(float(value) for _, value in found if value is not None)
    return Sample(values, sources=tuple(record.key for record, _ in found))


def noise_of(key: str, values: Sequence[float], record: Record, rows: Rows) -> Noise | None:
    """Return the noise of a float32 metric, or None where nothing tells it.

    Args:
        key: DATASET/METRIC.
        values: the metric of every float32 seed.
        record: the first of them, for the metrics that this one's standard error depends on.
        rows: its per-row numbers.
    """
    if len(values) >= MIN_SEEDS:
        return Noise(statistics.stdev(values), "seeds", len(values))
    dataset, _, name = key.partition("/")
    n = len(rows.get(f"{dataset}/label", ()))
    n_inside = len(rows.get("mnist/label", ()))
    if not n or not values:
        return None
    value = values[0]
    if name in PROPORTIONS:
        return _proportion(value, n)
    if name in SELECTIVE:
        refused = record.metrics[f"{dataset}/{SELECTIVE[name]}"]
        return None if refused is None else _proportion(value, round(n * (1 - refused)))
    if name.startswith("fpr95_"):
        return _proportion(value, n_inside)  # of the in-distribution images, at a threshold taken as given
    if name.startswith("auroc_"):
        return Noise(auroc_error(value, n, n_inside), "ROC", n)
    numbers = _row_numbers(dataset, name, rows)
    return None if numbers is None or n < 2 else Noise(float(numbers.std(ddof=1)) / math.sqrt(n), "rows", n)


def _proportion(value: float, n: int) -> Noise | None:
    return Noise(max(math.sqrt(value * (1 - value) / n), 1 / n), "proportion", n) if n else None


def _row_numbers(dataset: str, name: str, rows: Rows) -> NDArray[np.float64] | None:
    if name == "mutual_information":
        parts = [rows.get(f"{dataset}/{part}") for part in ("predictive_entropy", "expected_entropy")]
        if parts[0] is None or parts[1] is None:
            return None
        return parts[0].astype(np.float64) - parts[1].astype(np.float64)
    found = rows.get(f"{dataset}/{name}") if name in ROW_MEANS else None
    return None if found is None else found.astype(np.float64)


def auroc_error(area: float, n_positive: int, n_negative: int) -> float:
    """Return the standard error of an area under a ROC curve, see the top of this file."""
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    spread = area * (1 - area) + (n_positive - 1) * (q1 - area**2) + (n_negative - 1) * (q2 - area**2)
    return math.sqrt(max(spread, 0.0) / (n_positive * n_negative))


def _time_line(key: str, pairs: Sequence[tuple[Record, Record]]) -> list[Entry]:
    """Return the line of a time, whose ratio is given if all times count and were taken on one machine."""
    gap = _why_not_comparable(key, pairs)
    if gap is not None:
        return ["speed", TIMES[key], *[Missing(gap)] * 4, "-", Missing(gap), "-", Missing(gap)]
    before, after = (_sample([(pair[side], getattr(pair[side].timings, key)) for pair in pairs]) for side in (0, 1))
    ratios = [b / a for a, b in zip(before.values, after.values, strict=True)]
    shown: list[Entry] = [
        Measured(before, FOUR),
        Measured(after, FOUR),
        *[Missing(ABSENT)] * 2,
        "-",
        Missing(ABSENT),
        "-",
    ]
    return ["speed", TIMES[key], *shown, Number(statistics.median(ratios), FOUR, after.sources)]


def _why_not_comparable(key: str, pairs: Sequence[tuple[Record, Record]]) -> Gap | None:
    for record in (record for pair in pairs for record in pair):
        if not record.timings.valid:
            why = in_words(*record.timings.reasons) or "?"
            return Gap("n/a", f"times of {record.precision} do not count: {why}")
        if getattr(record.timings, key) is None:
            return Gap("n/a", "not taken: it does not apply to the task or protocol")
    machines = {tuple(getattr(record.provenance, name) for name in SAME_MACHINE) for pair in pairs for record in pair}
    return Gap("n/a", "the two precisions were timed on different machines") if len(machines) > 1 else None
