"""Properties that metrics must have for any predictions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.core.errors import ConfigError
from bench.measure.metrics import classification, draws, uncertainty
from bench.measure.metrics.classification import row_hits
from bench.measure.metrics.coverage import accepted, refused_for, wrong_among
from bench.measure.metrics.draws import DrawSummary, concatenate, draw_hits, reduce_draws
from bench.measure.metrics.evaluate import evaluate_classification
from bench.measure.metrics.refusal import risk_coverage
from tests.close import DOUBLE, close

# tolerance: the same draws are added in another order. On each side a number has at most 24 roundings of its own size,
# or of size 1 if that is larger. An expected entropy has 11 of the sum over 12 draws, 9 of the sum over 10 classes, 1
# of the division, 1 of the product and 2 of exp (1 unit in the last place). A log-probability has 11 of the sum, 2 of
# exp, 5 of a log of size 2.5, and 5 of adding the largest term and of taking log 12 away.
ORDER = 48 * 2.0**-53
# tolerance: up to 35 draws are added, in PyTorch and in NumPy, whose exp is off by up to 4 units in the last place.
# Entropies have 34 + 9 + 1 + 1 roundings on each side, and 2 and 8 of exp: 100 together. A mean probability of PyTorch
# has 34 of the sum, 2 of exp, 15 of two logs of size 3.6, of the largest term and of the subtraction, and 8 of NumPy's
# exp; one of NumPy has 34 + 1 + 8: 102 together. A mean of logs has 35 on each side. A quantile has 8 of exp on each
# side, and fewer than 20 of the interpolation.
DEFINITION = 104 * 2.0**-53


@st.composite
def predictions(draw: st.DrawFn, max_draws: int = 12) -> tuple[torch.Tensor, np.ndarray]:
    """Log-probabilities float32 [S, B, K], from nearly uniform to nearly one-hot, and labels [B]."""
    n_draws, n_rows, n_classes = draw(st.integers(1, max_draws)), draw(st.integers(1, 40)), draw(st.integers(2, 10))
    source = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    scale = draw(st.sampled_from([0.01, 1.0, 10.0, 300.0]))
    logits = scale * torch.randn(n_draws, n_rows, n_classes, generator=source)
    labels = torch.randint(n_classes, (n_rows,), generator=source)
    return torch.log_softmax(logits, dim=2), labels.numpy()


def assert_same(left: DrawSummary, right: DrawSummary) -> None:
    assert left.n_draws == right.n_draws
    for name in ("log_mean_probs", "mean_log_probs", "expected_entropy", "votes"):
        np.testing.assert_allclose(getattr(left, name), getattr(right, name), rtol=ORDER, atol=ORDER)
    for q, values in left.quantile_probs.items():
        np.testing.assert_allclose(values, right.quantile_probs[q], rtol=ORDER, atol=ORDER)


@given(predictions(max_draws=35))
def test_summary_equals_its_definition_in_numpy(data: tuple[torch.Tensor, np.ndarray]) -> None:
    log_probs, _ = data
    summary = reduce_draws(log_probs)
    exact = log_probs.double().numpy()
    probs = np.exp(exact)
    np.testing.assert_allclose(summary.mean_probs, probs.mean(0), rtol=0, atol=DEFINITION)
    np.testing.assert_allclose(summary.mean_log_probs, exact.mean(0), rtol=DEFINITION, atol=0)
    entropies = -(probs * exact).sum(2)
    np.testing.assert_allclose(summary.expected_entropy, entropies.mean(0), rtol=DEFINITION, atol=DEFINITION)
    for q, values in summary.quantile_probs.items():
        np.testing.assert_allclose(values, np.percentile(probs, 100 * q, axis=0), rtol=0, atol=DEFINITION)
    classes = range(exact.shape[2])
    votes = np.stack([(exact[:30].argmax(2) == k).sum(0) for k in classes], axis=1)
    assert (summary.votes == votes).all()


@given(predictions(), st.integers(1, 40))
def test_blocks_of_rows_do_not_matter(data: tuple[torch.Tensor, np.ndarray], size: int) -> None:
    log_probs, labels = data
    blocks = log_probs.split(size, dim=1)
    assert_same(concatenate([reduce_draws(block) for block in blocks]), reduce_draws(log_probs))
    hits = sum(draw_hits(block, part) for block, part in zip(blocks, torch.from_numpy(labels).split(size), strict=True))
    assert (hits == draw_hits(log_probs, labels)).all()


def test_chunks_inside_a_block_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    log_probs = torch.randn(7, 50, 3, generator=torch.Generator().manual_seed(1)).log_softmax(2)
    at_once = reduce_draws(log_probs)
    monkeypatch.setattr(draws, "_CHUNK_NUMBERS", 7 * 3 * 8)  # 8 rows at a time, the last of 2
    assert_same(reduce_draws(log_probs), at_once)


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
    assert after[0] == close(before[0])
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
    curve, other = risk_coverage(probs, labels), risk_coverage(probs[order], labels[order])
    assert np.array_equal(curve.risk, other.risk)  # exactly, at every coverage: of ties, whole numbers are added
    assert curve.area == other.area
    for error in (classification.ece, classification.ece_equal_mass):
        assert error(probs[order], labels[order]) == close(error(probs, labels))


@given(predictions())
def test_bounds(data: tuple[torch.Tensor, np.ndarray]) -> None:
    log_probs, labels = data
    log_probs = log_probs.double().log_softmax(2)  # float32 probabilities sum to 1 within 1e-6 only
    summary = reduce_draws(log_probs)
    parts = uncertainty.entropies(summary)
    for values in parts.values():
        assert values.min() >= -DOUBLE  # of a certain row it is a log minus a log, which two libraries computed
        assert values.max() <= math.log(log_probs.shape[2]) + DOUBLE
    assert (parts["expected_entropy"] <= parts["predictive_entropy"] + DOUBLE).all()
    values, _, _ = evaluate_classification(summary, labels, draw_hits(log_probs, labels), "weights")
    for name in ("accuracy", "ece", "ece_equal_mass", "refusal_rate", "risk_coverage_area", "draw_accuracy_mean"):
        assert 0 <= values[name] <= 1 + DOUBLE, name
    assert 0 <= values["brier"] <= 2 + DOUBLE
    assert values["nll"] >= -DOUBLE


# equal coverage

CONFIDENCE = np.array([4.0, 3.0, 2.0, 2.0])
HITS = np.array([True, True, False, True])


def test_worked_rows():
    # the surest two are right; of three answers, the third is one of two tied rows, of which one is wrong: .5 of 3
    assert wrong_among(CONFIDENCE, HITS, 0.5) == 0
    assert wrong_among(CONFIDENCE, HITS, 0.75) == close(0.5 / 3)
    assert wrong_among(CONFIDENCE, HITS, 1) == close(1 / 4)
    # at .75 the threshold is 2, and one of the two tied rows is answered: so half of the outside rows at 2 are
    outside = np.array([5.0, 2.0, 2.0, 1.0])
    assert accepted(CONFIDENCE, outside, 0.75) == close((1 + 0.5 * 2) / 4)
    assert accepted(CONFIDENCE, outside, 0.5) == close(1 / 4)
    # risks after 1 to 4 answers: 0, 0, .5/3, .25
    assert refused_for(CONFIDENCE, HITS, 0.2) == close(1 / 4)
    assert refused_for(CONFIDENCE, HITS, 0.1) == close(2 / 4)
    assert refused_for(CONFIDENCE, ~HITS, 0.1) is None


rows = st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=6)


@given(rows)
def test_ties_give_the_mean_over_all_orders(given_rows):
    """The plain form: sort by confidence, in every order of tied rows, and count mistakes among the first ones."""
    confidence, hits = (np.array(part) for part in zip(*given_rows, strict=True))
    n_answers = max(1, round(0.5 * len(hits)))
    orders = [
        order for order in itertools.permutations(range(len(hits))) if (np.diff(confidence[list(order)]) <= 0).all()
    ]
    plain = np.mean([(~hits[list(order[:n_answers])]).mean() for order in orders])
    assert wrong_among(confidence.astype(float), hits, 0.5) == close(plain)


@given(rows)
def test_the_curve_of_risk_is_the_same(given_rows):
    confidence, hits = (np.array(part) for part in zip(*given_rows, strict=True))
    probs = np.stack([0.6 + 0.1 * confidence, 0.4 - 0.1 * confidence], axis=1)
    labels = np.where(hits, 0, 1)
    assert (row_hits(probs, labels) == hits).all()
    curve = risk_coverage(probs, labels)
    shares = np.arange(1, len(hits) + 1) / len(hits)
    assert [wrong_among(probs[:, 0], hits, share) for share in shares] == close(curve.risk)


@given(rows, st.sampled_from([0.3, 0.9, 1.0]))
def test_the_rows_themselves_are_accepted_as_often_as_asked(given_rows, coverage):
    confidence = np.array([one for one, _ in given_rows], dtype=float)
    assert accepted(confidence, confidence, coverage) == close(
        max(1, round(coverage * len(confidence))) / len(confidence)
    )


def test_a_coverage_that_answers_nothing_is_refused():
    for coverage in (0, 1.1):
        with pytest.raises(ConfigError, match="above 0 and at most 1"):
            wrong_among(CONFIDENCE, HITS, coverage)
    with pytest.raises(ConfigError, match="of 0 rows"):
        accepted(np.array([]), CONFIDENCE, 0.5)
