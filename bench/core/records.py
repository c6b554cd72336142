"""The fields of a record (the measurement of one trained run) and of a derived metric (of one fit, for an ablation).

`bench.core.folder` checks every field when it reads a file, so that code can rely on the types below.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from itertools import pairwise
from typing import Annotated, Literal

import msgspec

from bench.core.metric_table import LARGEST, ROUNDING, SLACK, check_metrics
from bench.core.reasons import Reason

SCHEMA = 3  # of records and derived metrics
Outcome = Literal["done", "diverged", "failed", "out-of-time", "skipped", "damaged"]
LONGEST_DETAIL = 1 << 16  # characters
MOST_EPOCHS = 1_000_000
StoredNumber = float | None
Real = Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=-ROUNDING, le=1 + ROUNDING)]
Probability = Annotated[float, msgspec.Meta(ge=0, le=1 + SLACK)]
EpochNumber = Annotated[int, msgspec.Meta(ge=1, le=MOST_EPOCHS)]
Key = Annotated[str, msgspec.Meta(max_length=200)]  # of a number
Percent = Annotated[int, msgspec.Meta(ge=0, le=100)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[\w.+:-]*\Z", max_length=200)]  # it may become part of a file's name
RecipeValue = None | bool | int | float | str | list[object] | dict[str, object]


class Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The fields of a file, or of a part of it. A field that has its default value is left out of the file."""


class Timings(Fields, frozen=True, kw_only=True):
    """Seconds and MiB of training, predicting and measuring; `reasons` say why the times do not count."""

    valid: bool = False
    reasons: list[Reason] = []
    fit_s: Amount | None = None
    wall_s: Amount | None = None
    epoch_s_median: Amount | None = None
    epoch_with_measuring_s: Amount | None = None
    train_images_per_s: Amount | None = None
    peak_memory_mib: Amount | None = None
    peak_device_memory_mib: Amount | None = None
    batched: Count | None = None  # seeds of its seed batch, if more than one
    measure_s: Amount | None = None
    predict_s: Amount | None = None
    predict_draws: Count | None = None
    predict_images: Count | None = None
    predict_draw_images_per_s: Amount | None = None
    latency_s: Amount | None = None  # of one image: median; the next two are the least and the most
    latency_min_s: Amount | None = None
    latency_max_s: Amount | None = None
    latency_repeats: Count | None = None


class NetworkSize(Fields, frozen=True, kw_only=True):
    """How large the fitted network is."""

    n_weights: Count | None = None
    n_parameters: Count | None = None
    n_used_weights: Count | None = None


class Provenance(Fields, frozen=True, kw_only=True):
    """Machine, code and data that made a file."""

    started: str = ""  # UTC, ISO 8601
    measured: str = ""  # UTC, ISO 8601
    commit: str = ""
    dirty: bool = False
    versions: dict[str, str] = {}  # of Python and packages, "absent" where not installed
    cpu: str = ""
    accelerator: str = ""
    cores: Count | None = None
    threads: Count | None = None
    platform: str = ""
    device_name: str = ""
    vector_instructions: str = ""
    matmul_rate: Amount | None = None
    load_average: tuple[Real, Real] | None = None  # before and after the fit; -1 where the system has none
    source_sha256: str | None = None
    data_sha256: dict[str, str] = {}
    train_sha256: str | None = None
    predictions_sha256: str | None = None  # of a model that was only scored
    split_looked_at: str = ""


class Versions(Fields, frozen=True, kw_only=True):
    """Versions of recipe, protocol and metrics that made the numbers; None: not known. A metric not named had 1."""

    recipe: dict[str, int] = {}
    protocol: int | None = None
    metrics: dict[str, int] = {}


class Epoch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The training time of one epoch, and the numbers that were printed or measured after it."""

    epoch: EpochNumber
    seconds: Amount
    metrics: dict[Key, StoredNumber]

    def __post_init__(self) -> None:
        check_metrics(self.metrics)


def check_order(epochs: Sequence[Epoch]) -> None:
    """Raise ValueError unless each epoch comes after the one before it."""
    for before, after in pairwise(epochs):
        if after.epoch <= before.epoch:
            raise ValueError(f"epoch {after.epoch} comes after epoch {before.epoch}")


class ReliabilityBins(Fields, frozen=True, kw_only=True):
    """Confidence and accuracy of the predictions by bins of confidence; None where a bin is empty."""

    lower: list[Probability]
    upper: list[Probability]
    count: list[Count]
    confidence: list[Probability | None]
    accuracy: list[Share | None]

    def __post_init__(self) -> None:
        _same_length("bins", self.lower, self.upper, self.count, self.confidence, self.accuracy)
        if [0.0, *self.upper] != [*self.lower, 1.0]:
            raise ValueError("bins of confidence begin at 0, follow each other and end at 1")


class RiskCurve(Fields, frozen=True, kw_only=True):
    """Error rate among the most confident part of the rows."""

    coverage: Annotated[list[Share], msgspec.Meta(min_length=1)]
    risk: list[Share]

    def __post_init__(self) -> None:
        _same_length("points", self.coverage, self.risk)


class FirstUncertain(Fields, frozen=True, kw_only=True):
    """The first held-out images whose draws disagree."""

    rows: list[Annotated[int, msgspec.Meta(ge=0, lt=60_000)]]  # of MNIST's training file
    votes: list[list[Count]]  # of each row, by class
    scanned: Count  # images that were looked at

    def __post_init__(self) -> None:
        _same_length("rows", self.rows, self.votes)
        _same_length("classes", *self.votes)


class Printed(Fields, frozen=True, kw_only=True):
    """Whole numbers as chopra2018 prints them."""

    accuracy_percent: Percent | None = None
    selective_accuracy_percent: Percent | None = None
    skipped: Count


class PrunedRow(Fields, frozen=True, kw_only=True):
    """One network with a share of its weights removed."""

    fraction: Share
    network: str
    accuracy: Share | None
    nll: Annotated[float, msgspec.Meta(ge=-SLACK, le=LARGEST)] | None = None
    pruned_of_used: Share
    kept: Count
    bytes: Count
    layers: dict[str, Share]
    noise: str | None = None
    noise_refusal_rate: Share | None = None


class Pruned(Fields, frozen=True, kw_only=True):
    """The networks of one record, pruned by a score."""

    score: str
    rows: list[PrunedRow]


class ToyCurve(Fields, frozen=True, kw_only=True):
    """The mean and band of a regression over x."""

    x: Annotated[list[Real], msgspec.Meta(min_length=1)]
    mean: list[Real]
    lower: list[Real]
    upper: list[Real]

    def __post_init__(self) -> None:
        _same_length("points", self.x, self.mean, self.lower, self.upper)


def _same_length(what: str, *lists: Sized) -> None:
    lengths = sorted(set(map(len, lists)))
    if len(lengths) > 1:
        raise ValueError(f"lists of {lengths[0]} and {lengths[-1]} {what} do not go together")


_ARRAYS = {
    "reliability": "mnist/reliability",
    "risk_coverage": "mnist/risk_coverage",
    "clothes_reliability": "fashion_mnist/reliability",
    "clothes_risk_coverage": "fashion_mnist/risk_coverage",
    "first_uncertain": "mnist/heldout10k-of-train/first_uncertain",
    "printed": "mnist/test10k/printed",
    "toy_near": "toy/near",
    "toy_far": "toy/far",
}


class Arrays(Fields, frozen=True, kw_only=True, rename=_ARRAYS):
    """The results that are more than one number; each is stored under its name in `_ARRAYS`."""

    reliability: ReliabilityBins | None = None
    risk_coverage: RiskCurve | None = None
    clothes_reliability: ReliabilityBins | None = None  # of a fit that learnt clothes
    clothes_risk_coverage: RiskCurve | None = None  # of a fit that learnt clothes
    first_uncertain: FirstUncertain | None = None
    printed: Printed | None = None
    noise: dict[str, str] = {}  # by data set, what is random in one draw (`bench.interface.Noise`)
    pruning: Pruned | None = None
    toy_near: ToyCurve | None = None
    toy_far: ToyCurve | None = None


class Naming(Fields, frozen=True, kw_only=True):
    """The fields that name a record."""

    approach: Name
    recipe: Name
    protocol: Name
    profile: Name
    seed: Count
    device: Name
    precision: Name
    fit_key: Name
    key: Annotated[Name, msgspec.Meta(min_length=1)]

    @property
    def conditions(self) -> tuple[str, str, str]:
        """Return profile, device and precision: numbers of different conditions are never mixed."""
        return self.profile, self.device, self.precision

    @property
    def combination(self) -> tuple[str, str, str]:
        """Return approach, recipe and protocol."""
        return self.approach, self.recipe, self.protocol

    @property
    def series(self) -> tuple[str, str, str, str, str, str]:
        """Return combination and conditions. Records of one series differ in their seeds."""
        return *self.combination, *self.conditions

    @property
    def title(self) -> str:
        """Return the record's name for people."""
        return f"{self.approach} {self.recipe} x {self.protocol}, seed {self.seed}"


class Record(Naming, frozen=True, kw_only=True):
    """One measurement of one fit, or why there is none."""

    schema: int  # the version of this form
    sha256: str = ""  # of all other fields
    outcome: Outcome
    reason: Reason | None
    metrics: dict[Key, StoredNumber]
    missing: dict[Key, Reason]  # by metric, or by the part of their names that several metrics share
    epochs: list[Epoch]
    timings: Timings
    provenance: Provenance
    detail: Annotated[str, msgspec.Meta(max_length=LONGEST_DETAIL)] = ""  # the traceback of a failure
    arrays: Arrays = Arrays()
    model: NetworkSize = NetworkSize()
    recipe_values: dict[str, RecipeValue] = {}
    corrections: list[str] = []
    scores_sha256: str | None = None
    versions: Versions | None = None

    def __post_init__(self) -> None:
        check_metrics(self.metrics)
        check_order(self.epochs)

    def keys(self) -> list[str]:
        """Return the keys of all numbers, also of those that are missing."""
        return [*self.metrics, *self.missing, *(key for epoch in self.epochs for key in epoch.metrics)]


class DerivedMetrics(Record, frozen=True, kw_only=True):
    """Numbers of a fit that an ablation needs and a record does not have."""

    version: int  # of the definitions of these numbers
