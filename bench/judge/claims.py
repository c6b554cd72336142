"""Claims: the numbers that the documents report, and what our records measured of each.

A claim is a row of `results/reference/published.csv`. It is compared with the published recipe measured by
the published protocol, at the same epoch, on the same split, in the claim's own unit.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from bench.core.csv_rows import CsvRow, read_csv, refused
from bench.core.errors import ConfigError
from bench.core.project import REFERENCE
from bench.core.records import Amount, Record
from bench.core.text import counted
from bench.core.toml import Text
from bench.judge.results import Results
from bench.judge.samples import MissingValue, Samples, gather, metric, value_of

LONGEST_QUOTE = 200  # characters of a value that an error repeats
PUBLISHED = REFERENCE / "published.csv"

STEPS_PER_EPOCH = {"toy_mlp": 5000, "toy_bbb": 10}  # steps between two lines of feldman2018's training logs
WORKED_EXAMPLE = "worked_example"
CLOSED_FORM = "closed form"
FEWER_EPOCHS = "fewer epochs"  # code of the missing value where a profile ends before the claim's stage
NATS_PER_BIT = math.log(2)
FLOAT32_EPSILON = 2.0**-23  # the documents compute in float32 and print `exact` numbers in full
LARGEST_EXPONENT = 300  # of ten, in a number that both floats and decimals can hold
COUNT_TOLERANCE = 1e-3  # of one count: the file gives a count as a fraction with finitely many digits


ClaimUnit = Literal[
    "",
    "bits",
    "fraction",
    "nats",
    "nats per batch",
    "nats per image",
    "squared target units",
    "sum of 391 batch means",
    "target units",
]


PrecisionKind = Literal["rounded", "truncated", "count", "exact", "range"]


class Claim(CsvRow, frozen=True, kw_only=True):
    """One reported number; the fields are the columns of published.csv, in order."""

    id: Text
    source: Text  # document, or the run of a document
    approach: Text
    stage: str  # "final", "epoch:N" or "step:N"
    metric: Text
    dataset: Text
    split: str
    protocol: str
    unit: ClaimUnit
    printed: str = msgspec.field(name="value")  # the number's text
    precision: Amount  # one unit of the last printed digit, one count, or half a range; 0 for full floats
    precision_kind: PrecisionKind
    margin: Amount  # the difference that would matter, in the unit; 0 where the digits decide
    margin_reason: Text
    n_runs: Annotated[int, msgspec.Meta(ge=1)]
    locator: str
    note: str
    spread: Amount | None = None  # reported standard deviation (divisor n - 1) of the n_runs whose mean is the value

    def __post_init__(self) -> None:
        """Raise ValueError if a column has a value that it cannot have."""
        if not re.fullmatch(r"final|epoch:[1-9]\d*|step:\d+", self.stage):
            raise ValueError(refused("stage", self.stage, "final, epoch:N or step:N"))
        if number(self.printed) is None:
            raise ValueError(refused("value", self.printed, "a finite number"))
        if not self.precision and self.precision_kind != "exact":
            raise ValueError(refused("precision", "0", f"a number above 0 (kind {self.precision_kind})"))
        if self.spread is not None and self.n_runs == 1:
            raise ValueError(refused("n_runs", "1", "at least 2 runs where a spread is reported"))
        if self.metric == "pruned_accuracy" and _pruned_percent(self.id) is None:
            raise ValueError(refused("id", self.id, "an id with prunedNNN, the percentage removed"))

    @property
    def value(self) -> float:
        """Return the number."""
        return float(self.printed)


@dataclass(frozen=True)
class Interval:
    """The numbers that a document would have printed as the reported one."""

    low: float
    high: float
    open_above: bool = False  # `high` itself is outside

    def __contains__(self, value: float) -> bool:
        """Return whether the value lies inside."""
        return self.low <= value < self.high if self.open_above else self.low <= value <= self.high


@dataclass(frozen=True)
class ClaimRow:
    """A claim and our measurements of it, in the claim's unit."""

    claim: Claim
    sample: Samples
    others: tuple[Samples, ...] = ()  # of other recipes of the approach, measured alike


# reading the file


def load_claims(path: Path = PUBLISHED) -> list[Claim]:
    """Read and check the claims; raises ConfigError, which names the row and the column of the first fault."""
    return read_csv(path, Claim, "claims", key="id")


def number(text: str) -> float | None:
    """Return a printed number; None if the text is not a number, or the number is not finite or too large."""
    try:
        value, decimal = float(text), Decimal(text)
    except (ValueError, InvalidOperation):
        return None
    return value if math.isfinite(value) and abs(decimal.adjusted()) <= LARGEST_EXPONENT else None


def _pruned_percent(claim_id: str) -> int | None:
    found = re.search(r"\.pruned(\d{3})\.", claim_id)
    return int(found[1]) if found and int(found[1]) <= 100 else None


# from a claim to a measured number


def measured_key(claim: Claim) -> tuple[str, str]:
    """Return where a record of the published recipe and protocol holds the number: (stage, key).

    The stage is "final" (the record's metrics), "epoch:N" (the entry of epoch N) or "closed form" (computed). For a
    toy, a claim's step N is the first step of an epoch. The level of a pruned network is part of the key.

    Raises:
        ConfigError: a step is not the first of an epoch.
    """
    if claim.approach == WORKED_EXAMPLE:
        return CLOSED_FORM, claim.metric
    name = claim.metric
    percent = _pruned_percent(claim.id)
    if name == "pruned_accuracy" and percent is not None:
        name = f"{name}@{percent / 100:g}"
    return _epoch_stage(claim), "/".join([claim.dataset, claim.split, name])


def _epoch_stage(claim: Claim) -> str:
    kind, _, number = claim.stage.partition(":")
    if kind != "step":
        return claim.stage
    steps = STEPS_PER_EPOCH.get(claim.approach)
    if steps is None or int(number) % steps:
        raise ConfigError(
            f"claim '{claim.id}': step {number} is not the first of an epoch of {claim.approach}; "
            + (f"an epoch has {steps} steps" if steps else "only toys have steps")
        )
    return f"epoch:{int(number) // steps + 1}"


def in_claim_unit(claim: Claim, value: float) -> float:
    """Convert a stored number to the claim's unit. Records store entropies in nats; some documents report bits."""
    return value / NATS_PER_BIT if claim.unit == "bits" else value


def measure(claim: Claim, records: Sequence[Record]) -> Samples:
    """Return what the records of one trained run, one for each seed, measured of a claim, in the claim's unit."""
    stage, key = measured_key(claim)
    if stage == CLOSED_FORM:
        return _closed_form(key)
    sample = gather(records, lambda record: _read(record, stage, key))
    return sample.converted(lambda value: in_claim_unit(claim, value))


def match(claims: Iterable[Claim], results: Results) -> list[ClaimRow]:
    """Return a row for every claim, measured by the published recipe and the published protocol of its approach."""
    return [
        ClaimRow(claim, measure(claim, results.trained_run(claim.approach, "published", "published")))
        for claim in claims
    ]


def _closed_form(name: str) -> Samples:
    try:
        # Imported here and by name, so that reading claims imports no implementation.
        module = importlib.import_module("implementations.worked_example")
    except ImportError as error:
        return Samples(missing_value=MissingValue("n/a", f"the closed form cannot be computed: {error}"))
    return Samples.of([float(module.worked_example()[name])])


def _read(record: Record, stage: str, key: str) -> float | MissingValue:
    profile = record.profile
    if stage == "final":
        if profile != "full":
            return MissingValue(FEWER_EPOCHS, f"profile {profile} does not train to the end; profile full does")
        return metric(record, key)
    if profile in ("smoke", "faults"):
        return MissingValue(FEWER_EPOCHS, f"profile {profile} cuts every epoch short; profiles epoch1 and full do not")
    epoch = int(stage.partition(":")[2])
    entries = {entry.epoch: entry for entry in record.epochs}
    if epoch not in entries:
        return MissingValue(
            FEWER_EPOCHS,
            f"profile {profile} trained {counted(len(entries), 'epoch')}, this number is of epoch {epoch}",
        )
    return value_of(entries[epoch].metrics, key, record)


# the digits a document printed


def print_interval(claim: Claim) -> Interval:
    """Return the numbers that print as the claim does, by its kind of precision.

    Rounded: half a unit of the last digit to both sides. Truncated (as by Python's `%d`): from the value to below the
    next one. Count: that count, to a thousandth of one. Range: the range. Exact: the value, to float32's resolution.
    The edges are computed in decimals, so that a measured 0.90 is outside [0.89, 0.90).
    """
    value, unit = Decimal(claim.printed), Decimal(repr(claim.precision))
    if claim.precision_kind == "truncated":
        return Interval(float(value), float(value + unit), open_above=True)
    half = {
        "rounded": unit / 2,
        "count": unit * Decimal(repr(COUNT_TOLERANCE)),
        "range": unit,
        "exact": abs(value) * Decimal(FLOAT32_EPSILON),
    }[claim.precision_kind]
    return Interval(float(value - half), float(value + half))
