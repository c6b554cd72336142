"""The table of metrics: what each name means, in which unit and within which bounds, and where it comes from.

It is in the lowest room, because every record is checked against it when it is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

N_CLASSES = 10
LARGEST = 1e100  # bound of every number: sums of squares of such numbers are still finite
SURE = 0.99  # a network is sure of a row whose largest mean probability is at least this
SHARE_SURE = f"sure@{SURE}"
RIGHT_OF_SURE = f"sure_right@{SURE}"
PROMISED_OF_SURE = f"sure_promised@{SURE}"
ROUNDING = 1e-9  # tolerance for a share of rows and for means of shares
# Tolerance for numbers from probabilities. The probabilities of a row may sum to e^0.001 (`metrics.draws`). This
# changes an entropy of ten classes by less than 0.0015, a Brier score by 0.004 and a log-probability by 0.001.
SLACK = 5e-3


@dataclass(frozen=True)
class Unit:
    """What a number counts, and the bounds of all numbers of the unit."""

    name: str
    low: float
    high: float


FRACTION = Unit("fraction", -ROUNDING, 1 + ROUNDING)
GAP = Unit("fraction", 0, 1 + SLACK)  # between a confidence and an accuracy
NATS = Unit("nats per row", -SLACK, LARGEST)
ENTROPY = Unit("nats per row", -SLACK, math.log(N_CLASSES) + SLACK)
BRIER = Unit("squared probability per row, 0 to 2", 0, 2 + SLACK)
SIZE = Unit("units of the target", 0, LARGEST)  # a distance, width or standard deviation
REAL = Unit("in the unit of its document", -LARGEST, LARGEST)

_SCORE_TITLES = {
    "predictive_entropy": "the predictive entropy",
    "mutual_information": "the mutual information",
    "max_probability": "minus the largest mean probability",
}
SCORES = tuple(_SCORE_TITLES)  # they tell out-of-distribution rows apart, see `bench.measure.metrics.ood`
Better = Literal["higher", "lower", "none"]


@dataclass(frozen=True)
class MetricSpec:
    """One metric."""

    name: str
    unit: Unit
    better: Better  # "none": no direction is better, or it depends on the rows which one is
    definition: str
    source: str


_ENTROPIES = "Depeweg et al. 2018, 'Decomposition of Uncertainty in Bayesian Deep Learning'"
_CHOPRA = "chopra2018, cells 15-16 of bnn.ipynb"
_CURVES: tuple[tuple[str, Unit, Better], ...] = (
    ("accuracy", FRACTION, "higher"),
    ("nll", NATS, "lower"),
    ("ece", GAP, "lower"),
    ("sure", FRACTION, "none"),
)

_SPECS = [
    MetricSpec(
        "accuracy",
        FRACTION,
        "higher",
        "share of rows whose largest mean probability is at the label",
        "argmax of the Monte Carlo predictive distribution",
    ),
    MetricSpec(
        "nll",
        NATS,
        "lower",
        "mean over rows of minus the log of the label's mean probability",
        "logarithmic score, Good 1952",
    ),
    MetricSpec(
        "brier",
        BRIER,
        "lower",
        "mean over rows of the squared distance between mean probabilities and one-hot label, summed over classes",
        "Brier 1950",
    ),
    MetricSpec(
        "ece",
        GAP,
        "lower",
        "mean over rows of |accuracy - confidence| of the row's bin; confidence is the largest mean probability, "
        "in 15 equal-width bins",
        "Guo et al. 2017, 'On Calibration of Modern Neural Networks'",
    ),
    MetricSpec(
        "ece_equal_mass",
        GAP,
        "lower",
        "as ece, but each of the 15 bins has the same number of rows; rows of equal confidence are in one bin",
        "Nixon et al. 2019, 'Measuring Calibration in Deep Learning'",
    ),
    MetricSpec(
        "predictive_entropy",
        ENTROPY,
        "none",
        "mean over rows of the entropy of the mean probabilities",
        _ENTROPIES,
    ),
    MetricSpec(
        "expected_entropy",
        ENTROPY,
        "none",
        "mean over rows of the mean over draws of the entropy of a draw's probabilities",
        _ENTROPIES,
    ),
    MetricSpec(
        "mutual_information",
        ENTROPY,
        "none",
        "predictive entropy minus expected entropy; exactly 0 for one draw",
        _ENTROPIES,
    ),
    MetricSpec(
        "refusal_rate",
        FRACTION,
        "none",
        "share of rows for which no class has a median probability over draws above 0.2",
        _CHOPRA,
    ),
    MetricSpec(
        "selective_accuracy",
        FRACTION,
        "higher",
        "share of rows whose largest median probability is at the label, among those that refusal_rate accepts",
        _CHOPRA,
    ),
    MetricSpec(
        "refusal_rate_strict",
        FRACTION,
        "none",
        "share of rows for which no class has a 10th percentile of probability over draws above 0.5",
        "chopra2018, the article's proposal of a stricter rule",
    ),
    MetricSpec(
        "selective_accuracy_strict",
        FRACTION,
        "higher",
        "share of rows whose largest 10th percentile is at the label, among those that refusal_rate_strict accepts",
        "chopra2018, the article's proposal of a stricter rule",
    ),
    MetricSpec(
        "risk_coverage_area",
        FRACTION,
        "lower",
        "mean over coverages 1/N to 1 of the share of errors among the rows with the largest mean probability; "
        "rows of equal confidence count with their mean error",
        "AURC: Geifman, Uziel and El-Yaniv 2019, 'Bias-Reduced Uncertainty Estimation for Deep Neural Classifiers'",
    ),
    MetricSpec(
        "disagreement_rate",
        FRACTION,
        "none",
        "share of rows for which the classes of the first 30 draws (all, if there are fewer) are not unanimous",
        "alsibahi2019, 'uncertain images'",
    ),
    MetricSpec(
        "draw_accuracy_mean",
        FRACTION,
        "higher",
        "mean over draws of the accuracy of one draw alone",
        "alsibahi2019 reports the accuracy of one draw",
    ),
    MetricSpec(
        "draw_accuracy_std",
        FRACTION,
        "none",
        "standard deviation over draws (S - 1 in the denominator) of the accuracy of one network alone",
        "sample standard deviation",
    ),
    MetricSpec(
        "mean_network/accuracy",
        FRACTION,
        "higher",
        "accuracy of the one network of posterior means",
        "rabanser2017 measured it",
    ),
    MetricSpec(
        "mean_network/nll",
        NATS,
        "lower",
        "nll of the one network of posterior means",
        "logarithmic score, Good 1952",
    ),
    MetricSpec(
        "sure",
        FRACTION,
        "none",
        "sure@T: share of rows whose largest mean probability is at least T",
        "protocols common and shift, and the readings of ladders",
    ),
    MetricSpec(
        "sure_right",
        FRACTION,
        "none",
        "sure_right@T: share of all rows that have a largest mean probability of at least T, at the label",
        "with sure@T, the accuracy of the answers of which a network is sure",
    ),
    MetricSpec(
        "sure_promised",
        GAP,
        "none",
        "sure_promised@T: sum of the largest mean probabilities that are at least T, divided by the number of rows",
        "the sure_right@T that the network's own probabilities promise",
    ),
    *(
        MetricSpec(
            f"{name}_area",
            unit,
            better,
            f"area under {name} against the angle or the distance by which images are moved (straight lines between "
            "the steps), divided by its width: the mean over the steps",
            "protocol shift; steps of Ovadia et al. 2019, 'Can You Trust Your Model's Uncertainty?'",
        )
        for name, unit, better in _CURVES
    ),
    MetricSpec(
        "geometric_entropy",
        ENTROPY,
        "none",
        "mean over rows of -sum p log(p + 1e-10) with p = exp(mean over draws of log p), not renormalised",
        "feldman2018, compute_entropy (there in bits)",
    ),
    *(
        MetricSpec(
            f"auroc_{score}",
            FRACTION,
            "higher",
            f"probability that {title} of an out-of-distribution row is above that of an in-distribution row, ties 1/2",
            "Hendrycks and Gimpel 2017",
        )
        for score, title in _SCORE_TITLES.items()
    ),
    *(
        MetricSpec(
            f"aupr_{score}",
            FRACTION,
            "higher",
            f"average precision of finding out-of-distribution rows by {title}; compare only on one pair of data sets",
            "Hendrycks and Gimpel 2017; average precision without interpolation",
        )
        for score, title in _SCORE_TITLES.items()
    ),
    *(
        MetricSpec(
            f"fpr95_{score}",
            FRACTION,
            "lower",
            f"share of in-distribution rows that are flagged by {title} when 95 % of out-of-distribution rows are",
            "Liang, Li and Srikant 2018 (ODIN), with out-of-distribution as the positive class",
        )
        for score, title in _SCORE_TITLES.items()
    ),
]

METRICS: dict[str, MetricSpec] = {spec.name: spec for spec in _SPECS}

_OTHERS: dict[Unit, tuple[str, ...]] = {
    FRACTION: (
        "right_when_sure",
        "fraction_correct",
        "fraction_incorrect",
        "fraction_undecided",
        "pruned_accuracy",
        "pruned_used_accuracy",
        "refusal_rate_of_100_networks",
        "refusal_rate_upright",
        "draw_refusal_rate",
        "mean_network_refusal_rate",
        "error",
        "error_of_10_draws",
        "error_of_draws",
        "error_at_chosen_epoch",
        "error_at_best_test_epoch",
        "pruned_error",
        "pruned_error_of_draws",
        "noisy_pruned_error_of_draws",
        "draw_auroc",
        "mean_network_auroc",
        "geometric_accuracy",
    ),
    GAP: ("draw_ece", "mean_network_ece", "geometric_ece"),
    NATS: ("draw_nll", "geometric_nll", "train_nll"),
    ENTROPY: ("mean_network_entropy", "normalised_geometric_entropy"),
    SIZE: ("weights/std", "toy/rmse", "toy/band_width_near", "toy/band_width_far"),
    REAL: (
        "train_loss",
        "train_loss_sum",
        "train_loss_per_image",
        "train_loss_ema",
        "test_loss",
        "toy/nll",
        "prediction",
        "weights/mean",
        "complexity",
    ),
}
UNITS: Mapping[str, Unit] = {
    **{name: spec.unit for name, spec in METRICS.items()},
    **{name: unit for unit, names in _OTHERS.items() for name in names},
}
"""The units of METRICS, and of numbers that only a document's protocol, a regression or a reading has."""


@lru_cache(maxsize=10_000)
def unit_of(key: str) -> Unit | None:
    """Return the unit of a metric by its key in a record, such as "mnist/test10k/pruned_accuracy@0.75"."""
    parts = key.partition("@")[0].split("/")
    names = ("/".join(parts[start:]) for start in range(len(parts)))
    return next((UNITS[name] for name in names if name in UNITS), None)


def check_metrics(metrics: Mapping[str, float | None]) -> None:
    """Raise ValueError for a number that its metric cannot have. Of an unknown metric, only the size is bounded."""
    for key, value in metrics.items():
        unit = unit_of(key) or REAL
        if value is not None and not unit.low <= value <= unit.high:
            bounds = f"from {unit.low:.4g} to {unit.high:.4g}"
            raise ValueError(f"{key:.100} is {value:.6g}; allowed are numbers {bounds} ({unit.name})")
