"""What a record holds: the measurement of one cell with one seed, and a reading of one fit.

Every part is checked when a file is read (`bench.core.folder`), so that code can rely on the types below.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from bench.core.reasons import Reason

SCHEMA = 2  # of records and readings; tools/convert_records.py converts those of schema 1
DAMAGED: Literal["damaged"] = "damaged"  # outcome of what stands in for a record that cannot be read

Outcome = Literal["done", "diverged", "failed", "out-of-time", "skipped", "damaged"]
Number = float | None
RecipeValue = None | bool | int | float | str | list[object] | dict[str, object]


class Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The fields of a file, or of a part of it. A field that is not known is left out of the file."""


class Timings(Fields, frozen=True, kw_only=True):
    """What training, predicting and measuring cost (seconds, MiB), and why the times do not count, if they do not."""

    valid: bool = False
    reasons: list[Reason] = []
    fit_s: Number = None
    wall_s: Number = None
    epoch_s_median: Number = None
    epoch_with_measuring_s: Number = None
    train_images_per_s: Number = None
    peak_memory_mib: Number = None
    peak_device_memory_mib: Number = None
    batched: int | None = None  # seeds trained in one computation
    measure_s: Number = None
    predict_s: Number = None
    predict_draws: int | None = None
    predict_images: int | None = None
    predict_draw_images_per_s: Number = None
    latency_s: Number = None  # of one image: median, least and most
    latency_min_s: Number = None
    latency_max_s: Number = None
    latency_repeats: int | None = None


class NetworkSize(Fields, frozen=True, kw_only=True):
    """How large the fitted network is."""

    n_weights: int | None = None
    n_parameters: int | None = None
    n_used_weights: int | None = None


class Provenance(Fields, frozen=True, kw_only=True):
    """Machine, code and data that made a file."""

    started: str = ""  # UTC, ISO 8601, as the two below
    measured: str = ""
    made: str = ""
    commit: str = ""
    dirty: bool = False
    versions: dict[str, str] = {}  # of Python and packages, "absent" where not installed
    cpu: str = ""
    accelerator: str = ""
    cores: int | None = None
    threads: int | None = None
    platform: str = ""
    device_name: str = ""
    vector_instructions: str = ""
    products: str = ""
    matmul_rate: Number = None
    load_average: tuple[float, float] | None = None  # before and after
    source_sha256: str | None = None
    data_sha256: dict[str, str] = {}
    train_sha256: str | None = None
    split_looked_at: str = ""


class Versions(Fields, frozen=True, kw_only=True):
    """Versions of what makes numbers; absent parts could not be shown."""

    recipe: dict[str, int] = {}
    protocol: int | None = None
    metrics: int | None = None


class Epoch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one epoch of training cost, and the numbers that were printed or measured after it."""

    epoch: int  # from 1
    seconds: float
    metrics: dict[str, Number]


class ReliabilityBins(Fields, frozen=True, kw_only=True):
    """Confidence and accuracy of the predictions by bins of confidence; None where a bin is empty."""

    lower: list[float]
    upper: list[float]
    count: list[int]
    confidence: list[Number]
    accuracy: list[Number]


class RiskCurve(Fields, frozen=True, kw_only=True):
    """Error rate among the most confident part of the rows."""

    coverage: list[float]
    risk: list[float]


class FirstUncertain(Fields, frozen=True, kw_only=True):
    """The first held-out images whose draws disagree."""

    rows: list[int]  # of the training file
    votes: list[list[int]]  # of each row, by class
    scanned: int


class Printed(Fields, frozen=True, kw_only=True):
    """Whole numbers as chopra2018 prints them."""

    accuracy_percent: int | None = None
    selective_accuracy_percent: int | None = None
    skipped: int


class PrunedRow(Fields, frozen=True, kw_only=True):
    """One network with a share of its weights removed."""

    fraction: float
    network: str
    accuracy: Number
    nll: Number = None
    pruned_of_used: float
    kept: int
    bytes: int
    layers: dict[str, float]
    noise: str | None = None
    noise_refusal_rate: Number = None


class Pruned(Fields, frozen=True, kw_only=True):
    """The networks of one record, pruned by a score."""

    score: str
    rows: list[PrunedRow]


class ToyCurve(Fields, frozen=True, kw_only=True):
    """The mean and band of a regression over x."""

    x: list[float]
    mean: list[float]
    lower: list[float]
    upper: list[float]


_ARRAYS = {
    "reliability": "mnist/reliability",
    "risk_coverage": "mnist/risk_coverage",
    "first_uncertain": "mnist/heldout10k-of-train/first_uncertain",
    "printed": "mnist/test10k/printed",
    "toy_near": "toy/near",
    "toy_far": "toy/far",
}


class Arrays(Fields, frozen=True, kw_only=True, rename=_ARRAYS):
    """Whatever is more than one number."""

    reliability: ReliabilityBins | None = None
    risk_coverage: RiskCurve | None = None
    first_uncertain: FirstUncertain | None = None
    printed: Printed | None = None
    noise: dict[str, str] = {}  # by data set, what a draw redraws
    pruning: Pruned | None = None
    toy_near: ToyCurve | None = None
    toy_far: ToyCurve | None = None


class Naming(Fields, frozen=True, kw_only=True):
    """The fields that name a record."""

    approach: str
    recipe: str
    protocol: str
    profile: str
    seed: int
    device: str
    precision: str
    fit_key: str
    key: str

    @property
    def conditions(self) -> tuple[str, str, str]:
        """Return profile, device and precision: numbers of different conditions are never mixed."""
        return self.profile, self.device, self.precision


class Record(Naming, frozen=True, kw_only=True):
    """One measurement of one fit, or why there is none."""

    schema: int  # the version of this form
    sha256: str = ""  # of all other fields
    outcome: Outcome
    reason: Reason | None
    metrics: dict[str, Number]
    missing: dict[str, Reason]  # by metric, or by the part of a metric's name that all of them share
    epochs: list[Epoch]
    timings: Timings
    provenance: Provenance
    detail: str = ""  # the traceback of a failure
    arrays: Arrays = Arrays()
    model: NetworkSize = NetworkSize()
    recipe_values: dict[str, RecipeValue] = {}
    corrections: list[str] = []
    scores_sha256: str | None = None
    versions: Versions | None = None


class Reading(Record, frozen=True, kw_only=True):
    """What a ladder asks of a fit beyond its records."""

    version: int  # of the definitions that made it


def record_name(record: Naming) -> str:
    """Return the path of a record below the folder of records."""
    name = f"{record.recipe}__{record.protocol}__{record.profile}__seed{record.seed}__{record.key[:8]}.json"
    return f"{record.approach}/{name}"


def reading_name(reading: Naming) -> str:
    """Return the path of a reading below the folder of readings."""
    return f"{reading.approach}/{reading.recipe}__{reading.profile}__seed{reading.seed}__{reading.key[:8]}.json"
