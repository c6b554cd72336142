"""Properties that metrics must have for any predictions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.measure.metrics import classification, draws
from bench.measure.metrics.draws import DrawSummary, concatenate, draw_hits, reduce_draws
from bench.measure.metrics.evaluate import evaluate_classification
from bench.measure.metrics.refusal import risk_coverage

ROUNDING = 1e-10  # float64 sums of at most a few thousand terms of order 1


@st.composite
def predictions(draw: st.DrawFn, max_draws: int = 12) -> tuple[torch.Tensor, np.ndarray]:
    """Log-probabilities float32 [S, B, K], from nearly uniform to nearly one-hot, and labels [B]."""
    n_draws, n_rows, n_classes = draw(st.integers(1, max_draws)), draw(st.integers(1, 40)), draw(st.integers(2, 10))
    source = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    scale = draw(st.sampled_from([0.01, 1.0, 10.0, 300.0]))
    logits = scale * torch.randn(n_draws, n_rows, n_classes, generator=source)
    labels = torch.randint(n_classes, (n_rows,), generator=source)
    return torch.log_softmax(logits, dim=2), labels.numpy()


def assert_same(left: DrawSummary, right: DrawSummary, tolerance: float = 0.0) -> None:
    assert left.n_draws == right.n_draws
    for name in ("log_mean_probs", "mean_log_probs", "expected_entropy", "votes"):
        np.testing.assert_allclose(getattr(left, name), getattr(right, name), rtol=tolerance, atol=tolerance)
    for q, values in left.quantile_probs.items():
        np.testing.assert_allclose(values, right.quantile_probs[q], rtol=tolerance, atol=tolerance)


@given(predictions(max_draws=35))
def test_summary_equals_its_definition_in_numpy(data: tuple[torch.Tensor, np.ndarray]) -> None:
    log_probs, _ = data
    summary = reduce_draws(log_probs)
    exact = log_probs.double().numpy()
    probs = np.exp(exact)
    np.testing.assert_allclose(summary.mean_probs, probs.mean(0), atol=1e-14)
    np.testing.assert_allclose(summary.mean_log_probs, exact.mean(0), rtol=1e-13)
    np.testing.assert_allclose(summary.expected_entropy, -(probs * exact).sum(2).mean(0), atol=1e-13)
    for q, values in summary.quantile_probs.items():
        np.testing.assert_allclose(values, np.percentile(probs, 100 * q, axis=0), atol=1e-14)
    classes = range(exact.shape[2])
    votes = np.stack([(exact[:30].argmax(2) == k).sum(0) for k in classes], axis=1)
    assert (summary.votes == votes).all()


@given(predictions(), st.integers(1, 40))
def test_blocks_of_rows_do_not_matter(data: tuple[torch.Tensor, np.ndarray], size: int) -> None:
    log_probs, labels = data
    blocks = log_probs.split(size, dim=1)
    assert_same(concatenate([reduce_draws(block) for block in blocks]), reduce_draws(log_probs), 1e-14)
    hits = sum(draw_hits(block, part) for block, part in zip(blocks, torch.from_numpy(labels).split(size), strict=True))
    assert (hits == draw_hits(log_probs, labels)).all()


def test_chunks_inside_a_block_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    log_probs = torch.randn(7, 50, 3, generator=torch.Generator().manual_seed(1)).log_softmax(2)
    at_once = reduce_draws(log_probs)
    monkeypatch.setattr(draws, "_CHUNK_NUMBERS", 7 * 3 * 8)  # 8 rows at a time, the last of 2
    assert_same(reduce_draws(log_probs), at_once, 1e-14)


@given(predictions(), st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(data: tuple[torch.Tensor, np.ndarray], random: object) -> None:
    log_probs, labels = data
    order = list(range(len(labels)))
    random.shuffle(order)  # type: ignore[attr-defined]
    before = evaluate_classification(reduce_draws(log_probs), labels, draw_hits(log_probs, labels), "weights")
    shuffled = log_probs[:, order]
    after = evaluate_classification(
        reduce_draws(shuffled), labels[order], draw_hits(shuffled, labels[order]), "weights"
    )
    assert after[0] == pytest.approx(before[0], abs=ROUNDING)
    assert after[1] == before[1]


@given(predictions(), st.integers(0, 2**31))
def test_order_of_tied_rows_does_not_matter(data: tuple[torch.Tensor, np.ndarray], seed: int) -> None:
    # Every row five times with other labels: ties everywhere.
    log_probs, _ = data
    repeated = log_probs.repeat(1, 5, 1)
    source = np.random.default_rng(seed)
    labels = source.integers(0, repeated.shape[2], repeated.shape[1])
    order = source.permutation(len(labels))
    probs = reduce_draws(repeated).mean_probs
    assert risk_coverage(probs[order], labels[order]).area == pytest.approx(
        risk_coverage(probs, labels).area, abs=ROUNDING
    )
    for error in (classification.ece, classification.ece_equal_mass):
        assert error(probs[order], labels[order]) == pytest.approx(error(probs, labels), abs=ROUNDING)


@given(predictions())
def test_bounds(data: tuple[torch.Tensor, np.ndarray]) -> None:
    log_probs, labels = data
    summary = reduce_draws(log_probs)
    most = math.log(log_probs.shape[2]) + 1e-6  # float32 probabilities sum to 1 within 1e-6
    parts = classification.entropies(summary)
    for values in parts.values():
        assert values.min() >= 0
        assert values.max() <= most
    assert (parts["expected_entropy"] <= parts["predictive_entropy"] + ROUNDING).all()
    values, _, _ = evaluate_classification(summary, labels, draw_hits(log_probs, labels), "weights")
    for name in ("accuracy", "ece", "ece_equal_mass", "refusal_rate", "risk_coverage_area", "draw_accuracy_mean"):
        assert 0 <= values[name] <= 1 + 1e-6, name
    assert 0 <= values["brier"] <= 2 + 1e-6
    assert values["nll"] >= -1e-6
