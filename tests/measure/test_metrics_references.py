"""Metrics against scikit-learn, torchmetrics and closed forms; the documents' estimators against printed numbers."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, brier_score_loss, log_loss, roc_auc_score, roc_curve

from bench.core.errors import MissingFramework
from bench.core.reasons import Reason
from bench.data.torchvision_shim import import_datasets
from bench.measure.metrics import classification, ood, published
from bench.measure.metrics.draws import draw_hits, reduce_draws
from bench.measure.metrics.evaluate import evaluate_classification
from bench.measure.metrics.published import PrintedShare
from tests.close import DOUBLE, close

SEEDS = range(2)
RATES = {"selective_accuracy": "refusal_rate", "selective_accuracy_strict": "refusal_rate_strict"}


def mixture(seed: int, n_classes: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Log mean probabilities [N, K] of eight draws, and labels that they predict better than chance."""
    source = torch.Generator().manual_seed(seed)
    own, common = (torch.randn(n, 2000, n_classes, generator=source, dtype=torch.float64) for n in (8, 1))
    log_mean = reduce_draws((2 * own + 3 * common).log_softmax(2)).log_mean_probs
    return log_mean, torch.multinomial(torch.from_numpy(np.exp(log_mean)), 1, generator=source)[:, 0].numpy()


@pytest.mark.parametrize("n_classes", [2, 10])
def test_nll_and_brier_are_sklearns(n_classes: int) -> None:
    log_probs, labels = mixture(0, n_classes)
    probs = np.exp(log_probs)
    assert classification.nll(log_probs, labels) == close(log_loss(labels, probs))
    if n_classes == 2:  # scikit-learn counts the positive class only; both classes have the same squared error
        assert classification.brier(probs, labels) == close(2 * brier_score_loss(labels, probs[:, 1]))


@pytest.fixture(scope="module")
def calibration_error() -> Callable[..., torch.Tensor]:
    # torchmetrics imports torchvision where it is installed, which needs our help beside a CPU-only torch
    with contextlib.suppress(MissingFramework):
        import_datasets()
    from torchmetrics.functional.classification import multiclass_calibration_error

    return multiclass_calibration_error


@pytest.mark.parametrize("seed", SEEDS)
def test_ece_is_torchmetrics_calibration_error(seed: int, calibration_error: Callable[..., torch.Tensor]) -> None:
    log_probs, labels = mixture(seed)
    # torchmetrics computes in float32, which adds 2,000 multiples of 1/4096 without rounding. None of them is near the
    # edge of a bin: k/15 is at least 1/(15 x 4096) away
    probs = np.floor(4096 * np.exp(log_probs)) / 4096
    theirs = calibration_error(torch.from_numpy(probs), torch.from_numpy(labels), num_classes=10, n_bins=15, norm="l1")
    # tolerance: in float32 a bin's two means, their difference, its share of the rows and the product are rounded, then
    # 15 bins are added; no number is above 1, and the shares add up to 1
    assert classification.ece(probs, labels) == pytest.approx(float(theirs), rel=0, abs=20 * 2.0**-24)


def assert_detects_as_sklearn(inside: np.ndarray, outside: np.ndarray) -> None:
    truth, scores = np.repeat([0, 1], [len(inside), len(outside)]), np.concatenate([inside, outside])
    assert ood.auroc(inside, outside) == close(roc_auc_score(truth, scores))
    assert ood.aupr(inside, outside) == close(average_precision_score(truth, scores))
    fpr, tpr, _ = roc_curve(truth, scores, drop_intermediate=False)
    assert ood.fpr_at_tpr(inside, outside) == fpr[tpr >= 0.95].min()


@pytest.mark.parametrize("decimals", [1, 12], ids=["many ties", "no ties"])
def test_detection_is_sklearns(decimals: int) -> None:
    source = np.random.default_rng(0)
    assert_detects_as_sklearn(source.normal(0, 1, 700).round(decimals), source.normal(1, 2, 300).round(decimals))


@given(*2 * [st.lists(st.integers(-5, 5), min_size=1, max_size=30)])
def test_detection_by_few_scores_is_sklearns(inside: list[int], outside: list[int]) -> None:
    assert_detects_as_sklearn(np.array(inside, dtype=float), np.array(outside, dtype=float))


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_a_blind_predictor_scores_log_k(n_classes: int) -> None:
    log_probs = torch.full((4, 5 * n_classes, n_classes), -math.log(n_classes), dtype=torch.float64)
    labels = np.arange(5 * n_classes) % n_classes
    values, missing, _ = evaluate_classification(
        reduce_draws(log_probs), labels, draw_hits(log_probs, labels), "weights"
    )
    chance = 1 / n_classes
    expected = {
        "accuracy": chance,  # ties go to class 0, which every K-th row is
        "nll": math.log(n_classes),
        "brier": (1 - chance) ** 2 + (n_classes - 1) * chance**2,
        "ece": 0.0,
        "ece_equal_mass": 0.0,
        "predictive_entropy": math.log(n_classes),
        "expected_entropy": math.log(n_classes),
        "mutual_information": 0.0,
        "refusal_rate": float(chance <= 0.2),
        "refusal_rate_strict": 1.0,
        "risk_coverage_area": 1 - chance,
        "disagreement_rate": 0.0,
        "draw_accuracy_mean": chance,
        "draw_accuracy_std": 0.0,
    }
    for name, value in expected.items():
        assert values[name] == close(value), name
    refusing = [name for name in ("selective_accuracy", "selective_accuracy_strict") if values[RATES[name]] == 1]
    assert missing == dict.fromkeys(refusing, Reason("rows-refused"))  # and not NaN


def test_a_perfect_predictor_scores_zero() -> None:
    labels = np.arange(20) % 10
    log_probs = torch.from_numpy(
        np.log(np.eye(10)[labels], where=np.eye(10)[labels] > 0, out=np.full((20, 10), -np.inf))
    )
    draws = log_probs.repeat(3, 1, 1)
    values, missing, _ = evaluate_classification(reduce_draws(draws), labels, draw_hits(draws, labels), "weights")
    assert missing == {}
    ones = {"accuracy", "selective_accuracy", "selective_accuracy_strict", "draw_accuracy_mean"}
    ones |= {"sure@0.99", "sure_right@0.99", "sure_expected@0.99"}
    assert values == close({name: float(name in ones) for name in values})


def log_probs_with_hits(hits: list[bool]) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities [N, 2] that are right (label 0) where `hits` says so, and the labels."""
    right = np.log([0.8, 0.2])
    return np.stack([right if hit else right[::-1] for hit in hits]), np.zeros(len(hits), np.int64)


def test_geometric_entropy_worked() -> None:
    # draws (.9, .1) and (.3, .7): geometric means sqrt(.27) = .519615 and sqrt(.07) = .264575, which sum to .784;
    # .519615 * .654667 + .264575 * 1.329630 = .340175 + .351787
    summary = reduce_draws(torch.tensor([[[0.9, 0.1]], [[0.3, 0.7]]], dtype=torch.float64).log())
    expected = -sum(p * math.log(p + 1e-10) for p in (math.sqrt(0.27), math.sqrt(0.07)))
    assert published.geometric_entropy(summary.mean_log_probs) == close([expected])


def test_geometric_entropy_of_opposed_sure_draws_is_zero() -> None:
    # All uncertainty is between the draws, which the geometric mean cannot see: both products vanish
    summary = reduce_draws(torch.tensor([[[0.0, -500.0]], [[-500.0, 0.0]]]))
    assert published.geometric_entropy(summary.mean_log_probs) == close([0.0])


def test_number_inside_the_logarithm_is_there() -> None:
    # p = 1 gives -log(1 + 1e-10), a negative entropy
    (entropy,) = published.geometric_entropy(np.array([[0.0, -np.inf]]))
    assert entropy == pytest.approx(-math.log(1 + 1e-10), rel=DOUBLE, abs=0)


@pytest.mark.parametrize(
    ("printed", "right_in_last_batch", "right"),
    [
        # mean over 79 batches * 79 * 128 = right in 78 full batches + 8 * right of the last 16
        (0.9725079113924051, 16, 9834 - 8 * 16 + 16),  # linear_bbb, epoch 20
        (0.9725079113924051, 13, 9834 - 8 * 13 + 13),
        (0.9800237341772152, 16, 9910 - 8 * 16 + 16),  # mlp, epoch 10
    ],
)
def test_feldman2018_weighs_batches_alike(printed: float, right_in_last_batch: int, right: int) -> None:
    in_full_batches = right - right_in_last_batch
    hits = [i < in_full_batches for i in range(78 * 128)] + [i < right_in_last_batch for i in range(16)]
    value = published.feldman2018_accuracy(*log_probs_with_hits(hits))
    assert value == close(printed)
    assert abs(value - right / 10_000) > 2e-4  # more than two of the 10,000 images


def test_feldman2018_losses_worked() -> None:
    log_probs = np.log([[0.5, 0.5], [0.25, 0.75], [0.1, 0.9]])
    labels = np.array([0, 0, 0])
    ln2 = math.log(2)
    # batches of two: rows 0 and 1 have ln 2 and 2 ln 2; the last batch has ln 10 alone
    mean_loss = published.feldman2018_mlp_test_loss(log_probs, labels, batch_size=2)
    assert mean_loss == close((1.5 * ln2 + math.log(10)) / 2)
    # n_train 5 / batch 2 = 2.5 batches: KL terms 10 / 2.5 and 5 / 2.5
    loss = published.feldman2018_test_loss(log_probs, labels, np.array([10.0, 5.0]), n_train=5, batch_size=2)
    assert loss == close(((4 + 3 * ln2) + (2 + math.log(10))) / 2)


def test_chopra2018_prints_truncated_percent() -> None:
    assert PrintedShare(8999, 10_000).printed_percent == 89
    assert PrintedShare(8999, 10_000).fraction == 0.8999
    assert PrintedShare(0, 0) == published.Chopra2018Outcomes(0, 0, 5).accepted
    assert PrintedShare(0, 0).printed_percent is None
    assert PrintedShare(0, 0).fraction is None


def test_chopra2018_forced_accuracy_is_the_argmax_of_mean_logits() -> None:
    logits = torch.randn(10, 500, 10, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 5
    labels = torch.randint(10, (500,), generator=torch.Generator().manual_seed(1))
    # give each draw its own scale and offset, as draws of a network have
    logits = logits * torch.linspace(0.1, 3, 10)[:, None, None] + torch.linspace(-9, 9, 10)[:, None, None]
    share = published.chopra2018_forced_accuracy(reduce_draws(logits.log_softmax(2)).mean_log_probs, labels)
    assert share == PrintedShare(int((logits.mean(0).argmax(1) == labels).sum()), 500)


def test_chopra2018_outcomes() -> None:
    sure, other, flat = [0.98, 0.01, 0.01], [0.01, 0.98, 0.01], [1 / 3] * 3
    probs = torch.tensor([[sure, sure, flat, sure]] * 3 + [[other, other, flat, other]] * 2)
    spread = torch.full((5, 1, 6), 1 / 6)
    outcomes = published.chopra2018_outcomes(reduce_draws(probs.log()), torch.tensor([0, 1, 0, 0]))
    # medians: .98 at class 0 (right, wrong, right); 1/3 at all of three classes is above .2 and answered as class 0
    assert outcomes == published.Chopra2018Outcomes(correct=3, incorrect=1, undecided=0)
    refused = published.chopra2018_outcomes(reduce_draws(spread.log()), torch.tensor([0]))
    assert refused == published.Chopra2018Outcomes(correct=0, incorrect=0, undecided=1)
    assert refused.refusal_rate == 1.0
