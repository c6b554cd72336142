"""The table of metrics: what each name means, in which unit, and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SCORES = ("predictive_entropy", "mutual_information", "max_probability")  # of telling out of distribution; see `ood`
Need = Literal["labels", "draws", "networks", "mean_network", "ood"]
"""What a metric cannot do without: labels; more than one draw; draws that are whole networks (noise "weights"); the
posterior's mean network; or an out-of-distribution set, measured beside the in-distribution test set."""


@dataclass(frozen=True)
class MetricSpec:
    """One metric."""

    name: str
    unit: str
    better: Literal["higher", "lower", "none"]  # "none" where it depends on the rows, or is no merit in itself
    needs: tuple[Need, ...]
    definition: str
    source: str


_ENTROPIES = "Depeweg et al. 2018, 'Decomposition of Uncertainty in Bayesian Deep Learning'"
_CHOPRA = "chopra2018, cells 15-16 of bnn.ipynb"
_SCORE_TITLES = dict(
    zip(
        SCORES,
        ("the predictive entropy", "the mutual information", "minus the largest mean probability"),
        strict=True,
    )
)

_SPECS = [
    MetricSpec(
        "accuracy",
        "fraction",
        "higher",
        ("labels",),
        "share of rows whose largest mean probability is at the label",
        "argmax of the Monte Carlo predictive distribution",
    ),
    MetricSpec(
        "nll",
        "nats per row",
        "lower",
        ("labels",),
        "mean over rows of minus the log of the label's mean probability",
        "logarithmic score, Good 1952",
    ),
    MetricSpec(
        "brier",
        "squared probability per row, 0 to 2",
        "lower",
        ("labels",),
        "mean over rows of the squared distance between mean probabilities and one-hot label, summed over classes",
        "Brier 1950",
    ),
    MetricSpec(
        "ece",
        "fraction",
        "lower",
        ("labels",),
        "mean over rows of |accuracy - confidence| of the row's bin; confidence is the largest mean probability, "
        "in 15 equal-width bins",
        "Guo et al. 2017, 'On Calibration of Modern Neural Networks'",
    ),
    MetricSpec(
        "ece_equal_mass",
        "fraction",
        "lower",
        ("labels",),
        "as ece, with 15 bins of equal numbers of rows; rows of equal confidence share a bin",
        "Nixon et al. 2019, 'Measuring Calibration in Deep Learning'",
    ),
    MetricSpec(
        "predictive_entropy",
        "nats per row",
        "none",
        (),
        "mean over rows of the entropy of the mean probabilities",
        _ENTROPIES,
    ),
    MetricSpec(
        "expected_entropy",
        "nats per row",
        "none",
        (),
        "mean over rows of the mean over draws of the entropy of a draw's probabilities",
        _ENTROPIES,
    ),
    MetricSpec(
        "mutual_information",
        "nats per row",
        "none",
        (),
        "predictive entropy minus expected entropy; exactly 0 for one draw",
        _ENTROPIES,
    ),
    MetricSpec(
        "refusal_rate",
        "fraction",
        "none",
        (),
        "share of rows for which no class has a median probability over draws above 0.2",
        _CHOPRA,
    ),
    MetricSpec(
        "selective_accuracy",
        "fraction",
        "higher",
        ("labels",),
        "share of rows whose largest median probability is at the label, among those that refusal_rate accepts",
        _CHOPRA,
    ),
    MetricSpec(
        "refusal_rate_strict",
        "fraction",
        "none",
        (),
        "share of rows for which no class has a 10th percentile of probability over draws above 0.5",
        "chopra2018, the article's proposal of a stricter rule",
    ),
    MetricSpec(
        "selective_accuracy_strict",
        "fraction",
        "higher",
        ("labels",),
        "share of rows whose largest 10th percentile is at the label, among those that refusal_rate_strict accepts",
        "chopra2018, the article's proposal of a stricter rule",
    ),
    MetricSpec(
        "risk_coverage_area",
        "fraction",
        "lower",
        ("labels",),
        "mean over coverages 1/N to 1 of the share of errors among the rows with the largest mean probability; "
        "rows of equal confidence count with their mean error",
        "AURC: Geifman, Uziel and El-Yaniv 2019, 'Bias-Reduced Uncertainty Estimation for Deep Neural Classifiers'",
    ),
    MetricSpec(
        "disagreement_rate",
        "fraction",
        "none",
        ("draws",),
        "share of rows for which the classes of the first 30 draws (all, if there are fewer) are not unanimous",
        "alsibahi2019, 'uncertain images'",
    ),
    MetricSpec(
        "draw_accuracy_mean",
        "fraction",
        "higher",
        ("labels",),
        "mean over draws of the accuracy of one draw alone",
        "alsibahi2019 measured one draw of it",
    ),
    MetricSpec(
        "draw_accuracy_std",
        "fraction",
        "none",
        ("labels", "draws", "networks"),
        "standard deviation over draws (S - 1 in the denominator) of the accuracy of one network alone",
        "sample standard deviation",
    ),
    MetricSpec(
        "mean_network/accuracy",
        "fraction",
        "higher",
        ("labels", "mean_network"),
        "accuracy of the one network of posterior means",
        "rabanser2017 measured it",
    ),
    MetricSpec(
        "mean_network/nll",
        "nats per row",
        "lower",
        ("labels", "mean_network"),
        "nll of the one network of posterior means",
        "logarithmic score, Good 1952",
    ),
    MetricSpec(
        "geometric_entropy",
        "nats per row",
        "none",
        ("ood",),
        "mean over rows of -sum p log(p + 1e-10) with p = exp(mean over draws of log p), not renormalised",
        "feldman2018, compute_entropy (there in bits)",
    ),
    *(
        MetricSpec(
            f"auroc_{score}",
            "fraction",
            "higher",
            ("ood",),
            f"probability that {title} of an out-of-distribution row is above that of an in-distribution row, ties 1/2",
            "Hendrycks and Gimpel 2017",
        )
        for score, title in _SCORE_TITLES.items()
    ),
    *(
        MetricSpec(
            f"aupr_{score}",
            "fraction",
            "higher",
            ("ood",),
            f"average precision of finding out-of-distribution rows by {title}; compare only on one pair of data sets",
            "Hendrycks and Gimpel 2017; average precision without interpolation",
        )
        for score, title in _SCORE_TITLES.items()
    ),
    *(
        MetricSpec(
            f"fpr95_{score}",
            "fraction",
            "lower",
            ("ood",),
            f"share of in-distribution rows that are flagged by {title} when 95 % of out-of-distribution rows are",
            "Liang, Li and Srikant 2018 (ODIN), with out-of-distribution as the positive class",
        )
        for score, title in _SCORE_TITLES.items()
    ),
]

METRICS: dict[str, MetricSpec] = {spec.name: spec for spec in _SPECS}
