"""Metrics of a few rows; a comment derives each expected value."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from bench.core.errors import BenchError, ConfigError, ContractViolation
from bench.interface import Gaussian
from bench.measure.metrics import classification, ood, regression, uncertainty
from bench.measure.metrics.draws import DrawSummary, concatenate, draw_hits, reduce_draws
from bench.measure.metrics.refusal import MEDIAN_RULE, STRICT_RULE, RefusalRule, risk_coverage
from tests.close import close


def draws_of(*probs: list[list[float]]) -> torch.Tensor:
    """Log-probabilities [S, B, K] in float64, from one list [B][K] of probabilities for each draw."""
    return torch.tensor(probs, dtype=torch.float64).log()


def entropy_of(*probs: float) -> float:
    return -sum(p * math.log(p) for p in probs)


TWO_DRAWS = draws_of([[0.9, 0.1]], [[0.3, 0.7]])


def test_two_draws_of_one_row() -> None:
    summary = reduce_draws(TWO_DRAWS)
    # means .6 and .4; quantile .1 lies 1/10 of the way from the smaller to the larger draw: .3 + .06, .1 + .06
    assert summary.mean_probs == close(np.array([[0.6, 0.4]]))
    assert summary.quantile_probs[0.5] == close(np.array([[0.6, 0.4]]))
    assert summary.quantile_probs[0.1] == close(np.array([[0.36, 0.16]]))
    assert summary.votes.tolist() == [[1, 1]]
    # log sqrt(.9 * .3) and log sqrt(.1 * .7)
    assert summary.mean_log_probs == close(np.log([[math.sqrt(0.27), math.sqrt(0.07)]]))
    # -.9 ln .9 - .1 ln .1 = .325083 and -.3 ln .3 - .7 ln .7 = .610864
    expected = (entropy_of(0.9, 0.1) + entropy_of(0.3, 0.7)) / 2
    assert summary.expected_entropy == close([expected])
    # -.6 ln .6 - .4 ln .4 = .673012; mutual information .673012 - .4679735
    parts = uncertainty.entropies(summary)
    assert parts["predictive_entropy"] == close([entropy_of(0.6, 0.4)])
    assert parts["mutual_information"] == close([entropy_of(0.6, 0.4) - expected])


def test_nll_survives_probabilities_that_underflow() -> None:
    # exp(-800) is 0 in float64, its logarithm is an ordinary number
    summary = reduce_draws(torch.tensor([[[0.0, -800.0]], [[0.0, -800.0]]]))
    assert summary.mean_probs[0, 1] == 0.0
    assert classification.nll(summary.log_mean_probs, np.array([1])) == close(800.0)


def test_log_of_the_other_probabilities_tells_rows_apart_whose_largest_probability_is_one() -> None:
    # .7, .2, .1: log .3. Logits x, 0, ..., 0: the others have 9 / (e^x + 9), whose logarithm is log 9 - x - log(1 +
    # 9 e^-x); for x = 50 and 60 the last term is below 2e-21 and 1 - probability is 0. Uniform: log .9
    assert uncertainty.log_others(np.log([[0.2, 0.7, 0.1]])) == close([math.log(0.3)])
    logits = torch.zeros(3, 10, dtype=torch.float64)
    logits[:, 4] = torch.tensor([50.0, 60.0, 0.0])
    log_probs = logits.log_softmax(1).numpy()
    assert (1 - np.exp(log_probs[:2]).max(axis=1)).tolist() == [0, 0]
    assert uncertainty.log_others(log_probs) == close([math.log(9) - 50, math.log(9) - 60, math.log(0.9)])


def test_log_of_the_other_probabilities_at_its_ends() -> None:
    # One class alone has all; two share all: log .5. The tie is the same row whichever of the two is the answer.
    log_probs = np.array([[0, -np.inf, -np.inf], [-np.inf, math.log(0.5), math.log(0.5)]])
    assert uncertainty.log_others(log_probs).tolist() == [-np.inf, math.log(0.5)]


def test_only_the_first_thirty_draws_vote() -> None:
    draws = torch.tensor([[0.9, 0.1]]).log().repeat(31, 1, 1)
    draws[30] = draws[30].flip(-1)
    assert reduce_draws(draws).votes.tolist() == [[30, 0]]


def test_disagreement() -> None:
    assert uncertainty.disagreement_rate(np.array([[30, 0, 0], [29, 1, 0], [0, 15, 15], [0, 0, 30]])) == 0.5


PROBS = np.array([[0.95, 0.05], [0.95, 0.05], [0.35, 0.65], [0.65, 0.35]])
LABELS = np.array([0, 1, 1, 0])  # right, wrong, right, right


def test_calibration_error() -> None:
    # two rows of confidence .95, one right: |.5 - .95|; two of .65, both right: |1 - .65|; the mean is .4
    for bins in (2, 5, 15):
        assert classification.ece_equal_mass(PROBS, LABELS, bins) == close(0.4)
    assert classification.ece(PROBS, LABELS, 5) == close(0.4)
    # one bin: |.75 - .8|
    assert classification.ece(PROBS, LABELS, 1) == close(0.05)
    assert classification.ece_equal_mass(PROBS, LABELS, 1) == close(0.05)


def test_reliability_bins() -> None:
    bins = classification.reliability(PROBS, LABELS, 5)
    assert bins.count.tolist() == [0, 0, 0, 2, 2]
    assert bins.accuracy[3:].tolist() == [1.0, 0.5]
    assert bins.confidence[3:] == close([0.65, 0.95])
    assert np.isnan(bins.accuracy[:3]).all()
    assert (bins.lower[0], bins.upper[4]) == (0.0, 1.0)


def test_upper_edge_belongs_to_the_bin() -> None:
    probs = np.array([[0.75, 0.25], [0.5, 0.5], [1.0 + 1e-15, 0.0]])
    assert classification.reliability(probs, np.zeros(3, np.int64), 4).count.tolist() == [0, 1, 1, 1]


def test_a_confidence_within_single_precision_of_an_edge_is_on_it() -> None:
    # .6 is the upper edge of the ninth of 15 bins: 2 rows of .6 are right, 2 of .62, in the next bin, are wrong
    probs, labels = np.array([[0.6, 0.4]] * 2 + [[0.62, 0.38]] * 2), np.array([0, 0, 1, 1])
    for given in (probs, probs.astype(np.float32)):
        # tolerance: single precision rounds a confidence in [1/2, 1] by at most 2^-25
        assert classification.ece(given.astype(np.float64), labels) == pytest.approx(0.51, abs=2**-24)
    votes = np.array([1.0] * 9 + [0.0] * 6, np.float32).mean()  # 9 of 15 draws; float32 rounds .6 upwards
    assert float(votes) > 0.6
    assert classification.equal_width_bins(np.array([[votes, 1 - votes]], np.float64)) == [8]
    assert classification.equal_width_bins(np.array([[0.6 + 1e-6, 0.4 - 1e-6]])) == [9]  # further than rounding


def test_equal_mass_bins_hold_equal_numbers_and_keep_ties_together() -> None:
    top = np.array([0.6, 0.7, 0.8, 0.9])
    probs = np.stack([top, 1 - top], axis=1)
    assert classification.equal_mass_bins(probs, 2).tolist() == [0, 0, 1, 1]
    # three of four rows tie at .9: the first of them falls in bin 1 of 4, and takes the others with it
    top = np.array([0.9, 0.6, 0.9, 0.9])
    probs = np.stack([top, 1 - top], axis=1)
    assert classification.equal_mass_bins(probs, 4).tolist() == [1, 0, 1, 1]


def summary_with(median: list[list[float]], tenth: list[list[float]]) -> DrawSummary:
    n_rows, n_classes = np.shape(median)
    flat = np.full((n_rows, n_classes), -math.log(n_classes))
    return DrawSummary(
        n_draws=100,
        log_mean_probs=flat,
        mean_log_probs=flat,
        expected_entropy=np.zeros(n_rows),
        quantile_probs={0.5: np.array(median), 0.1: np.array(tenth)},
        votes=np.zeros((n_rows, n_classes), np.int64),
    )


def test_quantile_rules() -> None:
    summary = summary_with(
        median=[[0.2, 0.2, 0.1], [0.21, 0.3, 0.0], [0.0, 0.0, 0.9], [0.6, 0.1, 0.0]],
        tenth=[[0.0, 0.1, 0.0], [0.2, 0.1, 0.0], [0.0, 0.0, 0.51], [0.5, 0.0, 0.0]],
    )
    labels = np.array([0, 1, 2, 1])
    # exactly .2 and exactly .5 are not above the threshold
    assert MEDIAN_RULE.accepted(summary).tolist() == [False, True, True, True]
    assert STRICT_RULE.accepted(summary).tolist() == [False, False, True, False]
    assert MEDIAN_RULE.refusal_rate(summary) == 0.25
    assert STRICT_RULE.refusal_rate(summary) == 0.75
    # answers 1 (right), 2 (right), 0 (wrong)
    assert MEDIAN_RULE.selective_accuracy(summary, labels) == 2 / 3
    assert STRICT_RULE.selective_accuracy(summary, labels) == 1.0
    assert RefusalRule(0.5, 0.9).selective_accuracy(summary, labels) is None


def test_median_rule_counts_votes_of_one_hot_draws() -> None:
    # 50 of 100 one-hot draws: the median is half-way between 0 and 1; 49 of 100: it is 0
    one_hot = torch.tensor([[[0.0, -1000.0]], [[-1000.0, 0.0]]])
    for votes, class_0 in ((50, 0.5), (49, 0.0)):
        draws = one_hot[[0] * votes + [1] * (100 - votes)]
        assert reduce_draws(draws).quantile_probs[0.5][0, 0] == class_0


def test_risk_coverage() -> None:
    probs = np.array([[0.7, 0.3], [0.9, 0.1], [0.2, 0.8]])  # right, right, wrong; answered as rows 1, 2, 0
    curve = risk_coverage(probs, np.array([0, 0, 0]))
    assert curve.coverage.tolist() == [1 / 3, 2 / 3, 1]
    assert curve.risk.tolist() == [0, 1 / 2, 1 / 3]
    assert curve.area == close(5 / 18)


def test_risk_coverage_of_ties_is_the_mean_over_orders() -> None:
    # .9 right; then .6 right and .6 wrong in both orders: risks 0, 0, 1/3 and 0, 1/2, 1/3
    probs = np.array([[0.6, 0.4], [0.9, 0.1], [0.4, 0.6]])
    curve = risk_coverage(probs, np.array([0, 0, 0]))
    assert curve.risk.tolist() == [0, 1 / 4, 1 / 3]


def test_thinned_curve_keeps_its_ends() -> None:
    probs = np.linspace(0.5, 1, 1000)
    curve = risk_coverage(np.stack([probs, 1 - probs], 1), np.arange(1000) % 2)
    thin = curve.thinned(11)
    assert len(thin.risk) == 11
    assert (thin.coverage[0], thin.coverage[-1]) == (0.001, 1.0)
    assert thin.risk[-1] == curve.risk[-1] == 0.5
    assert len(risk_coverage(PROBS, LABELS).thinned().risk) == 4


def test_ood_detection() -> None:
    inside, outside = np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0])
    # pairs: 2 against 1, 2, 3 wins 1 + 1/2 + 0; 4 wins 3; 4.5 of 6
    assert ood.auroc(inside, outside) == 0.75
    # threshold 4: precision 1, recall +1/2; threshold 2: precision 2/4, recall +1/2
    assert ood.aupr(inside, outside) == 0.75
    # both are flagged only at threshold 2, which flags 2 and 3 of the others too
    assert ood.fpr_at_tpr(inside, outside) == 2 / 3
    assert ood.fpr_at_tpr(inside, outside, 0.5) == 0.0


def test_nineteen_of_twenty_is_enough_for_95_percent() -> None:
    outside = np.concatenate([np.full(19, 2.0), [0.0]])
    assert ood.fpr_at_tpr(np.array([1.0]), outside) == 0.0


def test_regression() -> None:
    prediction = Gaussian(torch.tensor([[[1.0]], [[3.0]]]), torch.ones(2, 1, 1))
    y = np.array([[2.0]])
    assert regression.rmse(prediction, y) == 0.0
    assert regression.rmse(prediction, y + 2) == 2.0
    # both draws are one standard deviation off: 1/2 + ln(2 pi)/2 = 1.418939
    assert regression.gaussian_nll(prediction, y) == close(1 / 2 + math.log(2 * math.pi) / 2)
    # percentiles 2.5 and 97.5 of {1, 3} are 1.05 and 2.95
    assert [end.item() for end in regression.band(prediction)] == close([1.05, 2.95])


def test_regression_nll_multiplies_dimensions_before_it_averages_draws() -> None:
    mean = torch.tensor([[[0.0, 0.0]], [[2.0, 2.0]]])
    y = np.array([[0.0, 2.0]])  # each draw: one dimension right, the other 2 off: density exp(-2) / (2 pi)
    expected = 2 + math.log(2 * math.pi)
    assert regression.gaussian_nll(Gaussian(mean, torch.ones_like(mean)), y) == close(expected)


OK = draws_of([[0.5, 0.5]])


@pytest.mark.parametrize(
    ("log_probs", "words"),
    [
        (OK[0], r"shape \(1, 2\)"),
        (OK[:0], r"shape \(0, 1, 2\)"),
        (OK[:, :0], r"shape \(1, 0, 2\)"),
        (torch.zeros(1, 1, 2, dtype=torch.int64), "torch.int64"),
        (torch.zeros(1, 1, 2), "log_softmax"),  # logits
        (OK / math.log(2), "log_softmax"),  # bits
        (torch.full((1, 1, 2), math.nan), "NaN"),
        (torch.cat([OK, OK * math.nan]), "NaN"),
    ],
)
def test_blocks_that_break_the_contract(log_probs: torch.Tensor, words: str) -> None:
    with pytest.raises(ContractViolation, match=words):
        reduce_draws(log_probs)


def test_bad_input_is_one_line() -> None:
    summary = reduce_draws(OK)
    faults = [
        lambda: concatenate([]),
        lambda: concatenate([summary, reduce_draws(TWO_DRAWS)]),
        lambda: draw_hits(OK, np.array([0, 1])),
        lambda: classification.accuracy(summary.mean_probs, np.array([-1])),
        lambda: classification.nll(summary.log_mean_probs, np.array([2])),
        lambda: classification.brier(np.empty((0, 2)), np.empty(0, np.int64)),
        lambda: ood.auroc(np.array([]), np.array([1.0])),
        lambda: ood.aupr(np.array([1.0]), np.array([math.nan])),
    ]
    for fault in faults:
        with pytest.raises(ConfigError) as caught:
            fault()
        assert "\n" not in str(caught.value)


def test_negative_mutual_information_is_a_fault_and_rounding_is_not() -> None:
    assert uncertainty.mutual_information(np.array([1.0]), np.array([1.0 + 1e-15])).tolist() == [0.0]
    with pytest.raises(BenchError, match="cannot be negative"):
        uncertainty.mutual_information(np.array([1.0, 1.0]), np.array([0.5, 1.1]))
