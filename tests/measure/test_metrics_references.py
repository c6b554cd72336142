"""Metrics against scikit-learn, torchmetrics and closed forms."""

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
from bench.measure.metrics import classification, ood
from bench.measure.metrics.draws import draw_hits, reduce_draws
from bench.measure.metrics.evaluate import evaluate_classification
from tests.close import close

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
    ones |= {"sure@0.99", "sure_right@0.99", "sure_promised@0.99"}
    assert values == close({name: float(name in ones) for name in values})
