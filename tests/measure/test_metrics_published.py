"""The documents' own estimators, worked by hand and against their printed numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from bench.measure.metrics import published
from bench.measure.metrics.draws import reduce_draws
from bench.measure.metrics.published import PrintedShare
from tests.close import DOUBLE, close


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
