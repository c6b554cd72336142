"""Table `precision`: how matrix products in bfloat16 or TF32 change the metrics, beside the noise of float32 itself.

All metrics are compared. The table shows the main ones, and others that change beyond noise.

The noise s of a float32 value is its standard deviation over seeds. A mean difference over k seeds is beyond noise if
it exceeds 2 s sqrt(2 / k): two standard deviations of a difference between means of k independent float32 values.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from bench.core.reasons import in_words
from bench.core.records import Record
from bench.core.text import THREE_DIFFERENCE, WHOLE, Digits, counted
from bench.data.manifest import OOD_LABELS
from bench.judge.results import Results, select
from bench.judge.samples import Gap, Sample
from bench.plan.manifests import ApproachManifest
from bench.show.table import Entry, Measured, Missing, Number, Table

PrecisionPairs: TypeAlias = Sequence[tuple[Record, Record]]
"""The records of a seed in float32 and in another precision, seed by seed."""

FLOAT32 = "float32"
LONG, SHORT = "full", "epoch1"  # profiles; an approach without pairs of `LONG` is shown by those of `SHORT`
MIN_SEEDS = 3  # float32 seeds; fewer give no noise
BEYOND = 2.0  # standard deviations
FOUR, TWO = Digits(significant=4), Digits(significant=2)
NO_NOISE = Gap("unknown", f"fewer than {MIN_SEEDS} float32 seeds")
MAIN = ("mnist/accuracy", "mnist/nll", "mnist/ece", *(f"{name}/auroc_predictive_entropy" for name in OOD_LABELS))
COLUMNS = ["approach", "precision", "profile", "data set", "metric"]
COLUMNS += ["float32", "there", "difference", "noise", "n", "beyond noise"]


def precision_table(
    records: Iterable[Record], profile: str, device: str, manifests: Mapping[str, ApproachManifest]
) -> Table:
    """Compare published x common of every other precision with float32, seed by seed.

    If the profile is `LONG`, an approach without a pair in a precision is shown by the records of `SHORT`.
    """
    lengths = (profile, SHORT) if profile == LONG else (profile,)
    here = [record for record in records if record.profile in lengths and record.device == device]
    rows: list[list[Entry]] = []
    notes: list[str] = []
    for precision in sorted({record.precision for record in here} - {FLOAT32, "float64"}):  # that one is not reduced
        plain, others = (
            {length: Results(select(here, length, device, kind), manifests) for length in lengths}
            for kind in (FLOAT32, precision)
        )
        for approach in dict.fromkeys(name for length in lengths for name in others[length].approaches):
            found = [length for length in lengths if _cell(others[length], approach)]
            paired = [length for length in found if _pairs(plain[length], others[length], approach)]
            for length in (paired or found)[:1]:
                made, said = _approach(plain[length], others[length], approach, (precision, length))
                rows += made
                notes.append(said)
    caption = (
        "The main metrics, and each other metric that changes beyond noise. Published training, common protocol, the "
        "same seeds. Float32: all in float32. There: matrix products in the "
        "precision named. Noise: standard deviation of a float32 value over n seeds. Beyond noise: the difference "
        f"exceeds {BEYOND:.0f} standard deviations of a difference of two float32 values; by chance, one in 20 does "
        "with many seeds, and more with few. "
        f"Profile {profile}"
        + (f", where there is no pair of it {SHORT}: one epoch, fewer rows and draws" if len(lengths) > 1 else "")
        + f"; {device}."
    )
    notes = notes or ["No records: python -m bench run --all --precision bf16 makes them."]
    return Table("precision", "What reduced precision changes", caption, COLUMNS, rows, notes)


def _cell(results: Results, approach: str) -> list[Record]:
    return results.cell(approach, "published", "common")


def _done(results: Results, approach: str) -> dict[int, Record]:
    return {record.seed: record for record in _cell(results, approach) if record.outcome == "done"}


def _pairs(plain: Results, other: Results, approach: str) -> PrecisionPairs:
    plains, others = _done(plain, approach), _done(other, approach)
    return [(plains[seed], others[seed]) for seed in sorted(others) if seed in plains]


def _approach(
    plain: Results, other: Results, approach: str, conditions: tuple[str, str]
) -> tuple[list[list[Entry]], str]:
    """Return an approach's rows and its note. `conditions`: the other precision, and the profile of both."""
    name = f"{approach}, {', '.join(conditions)}"
    done, pairs = _done(other, approach), _pairs(plain, other, approach)
    if not done:
        first = _cell(other, approach)[0]
        return [], f"{name}: {first.outcome}, {in_words(first.reason)}."
    if not pairs:
        return [], f"{name}: no float32 record of seed {', '.join(map(str, sorted(done)))} to compare with."
    plains = list(_done(plain, approach).values())
    lines = {
        key: _line([approach, *conditions], key, pairs, plains)
        for key in sorted(pairs[0][0].metrics, key=lambda key: (not key.startswith("mnist/"), key))
        if all(_number(record, key) is not None for pair in pairs for record in pair)
    }
    products = sorted({record.provenance.products or "unknown means" for _, record in pairs})
    shown = [line for key, (line, is_beyond) in lines.items() if key in MAIN or is_beyond]
    known = [is_beyond for _, is_beyond in lines.values() if is_beyond is not None]
    return shown, (
        f"{name}: {sum(known)} of {len(known)} metrics with a known noise are "
        f"beyond it; {counted(len(pairs), 'seed')}, products by {' / '.join(products)}."
    )


def _number(record: Record, key: str) -> float | None:
    value = record.metrics.get(key)
    return float(value) if value is not None and math.isfinite(value) else None


def _line(
    start: Sequence[Entry], key: str, pairs: PrecisionPairs, plains: Sequence[Record]
) -> tuple[list[Entry], bool | None]:
    """Return a metric's row, and whether its difference is beyond noise: None if the noise is unknown."""
    dataset, _, name = key.partition("/")
    before, after = (_sample([pair[side] for pair in pairs], key) for side in (0, 1))
    noise = _sample(plains, key)
    difference = statistics.fmean(b - a for a, b in zip(before.values, after.values, strict=True))
    line: list[Entry] = [*start, dataset, name, Measured(before, FOUR), Measured(after, FOUR)]
    line.append(Number(difference, THREE_DIFFERENCE, after.sources))
    if noise.sd is None or noise.n < MIN_SEEDS:
        return [*line, Missing(NO_NOISE), Missing(NO_NOISE), "unknown"], None
    beyond = abs(difference) > BEYOND * noise.sd * math.sqrt(2 / len(pairs))
    known = (Number(noise.sd, TWO, before.sources), Number(noise.n, WHOLE, before.sources))
    return [*line, *known, "yes" if beyond else "no"], beyond


def _sample(records: Sequence[Record], key: str) -> Sample:
    values = tuple(value for record in records if (value := _number(record, key)) is not None)
    return Sample(values, sources=tuple(record.key for record in records))
