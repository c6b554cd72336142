"""Reduce a block of draws to the numbers of each row that the metrics need.

Shapes: S draws, B rows, K classes. A block holds all draws of its rows, so quantiles, votes and mutual
information are exact and do not depend on how the rows were cut into blocks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bench.core.errors import ConfigError, ContractViolation
from bench.measure.metrics.arrays import SMALLEST_LOG, FloatArray, IntArray, Labels, as_labels

QUANTILES = (0.1, 0.5)  # of the two refusal rules of chopra2018
VOTE_DRAWS = 30  # alsibahi2019 shows images with "30 samples from posterior"

_CHUNK_NUMBERS = 500_000  # numbers of a block that are reduced at once: each float64 copy has 4 MB

_NORMALISATION_SLACK = 1e-3  # float32 log-softmax misses a sum of 1 by about 1e-6; logits and log2 by far more


@dataclass(frozen=True)
class DrawSummary:
    """What is kept of the draws of each row. All metrics of a data set are computed from this.

    Log-probabilities are in nats. The mean probability is stored as its logarithm: a probability of a very confident
    network can underflow, its logarithm cannot.
    """

    n_draws: int
    log_mean_probs: FloatArray  # [B, K], log of the mean probability over draws
    mean_log_probs: FloatArray  # [B, K], mean of the log-probabilities (what the geometric estimators use)
    expected_entropy: FloatArray  # [B], mean over draws of the entropy of a draw, nats
    quantile_probs: Mapping[float, FloatArray]  # {q: [B, K]}, quantile of each class's probability over draws
    votes: IntArray  # [B, K], how many of the first `VOTE_DRAWS` draws give the class the largest probability

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.log_mean_probs)

    @property
    def mean_probs(self) -> FloatArray:
        """Mean probability over draws, [B, K]."""
        return np.asarray(np.exp(self.log_mean_probs))


def reduce_draws(log_probs: Tensor) -> DrawSummary:
    """Reduce log-probabilities [S, B, K] (nats, normalised over K, any float type and device) over the draws.

    Quantiles are those of `numpy.percentile` (linear interpolation between order statistics) of the probabilities.
    Votes count the first `VOTE_DRAWS` draws, or all if there are fewer. If two classes tie in a draw, the lower class
    gets the vote. Sums are float64.

    Raises:
        ContractViolation: not three dimensions, no draws or rows, NaN, or not normalised.
    """
    _check_block(log_probs)
    n_draws, _, n_classes = log_probs.shape
    rows = max(1, _CHUNK_NUMBERS // (n_draws * n_classes))
    return concatenate([_reduce_chunk(chunk) for chunk in torch.split(log_probs.detach(), rows, 1)])


def draw_hits(log_probs: Tensor, labels: Labels) -> IntArray:
    """Count the rows of a block [S, B, K] that each draw classifies correctly, int64 [S].

    The counts of blocks may be added if draw s is the same network in every block.
    """
    _check_block(log_probs)
    truth = torch.as_tensor(as_labels(labels, *log_probs.shape[1:]), device=log_probs.device)
    hits: IntArray = (log_probs.argmax(dim=2) == truth).sum(dim=1).cpu().numpy()
    return hits


def concatenate(summaries: Sequence[DrawSummary]) -> DrawSummary:
    """Return the rows of several blocks as one summary, in the order of the blocks.

    Raises:
        ConfigError: no blocks, or blocks with different numbers of draws.
    """
    if len({s.n_draws for s in summaries}) != 1:
        raise ConfigError(f"{len(summaries)} blocks were given; give at least one, all with the same number of draws")
    first = summaries[0]
    if len(summaries) == 1:
        return first
    return DrawSummary(
        n_draws=first.n_draws,
        log_mean_probs=np.concatenate([s.log_mean_probs for s in summaries]),
        mean_log_probs=np.concatenate([s.mean_log_probs for s in summaries]),
        expected_entropy=np.concatenate([s.expected_entropy for s in summaries]),
        quantile_probs={q: np.concatenate([s.quantile_probs[q] for s in summaries]) for q in first.quantile_probs},
        votes=np.concatenate([s.votes for s in summaries]),
    )


def _check_block(log_probs: Tensor) -> None:
    if log_probs.ndim != 3 or 0 in log_probs.shape or not log_probs.is_floating_point():
        raise ContractViolation(
            f"a block of shape {tuple(log_probs.shape)} and type {log_probs.dtype} was given; "
            "predict must return float log-probabilities [S, B, K] with at least one draw, row and class"
        )


def _reduce_chunk(chunk: Tensor) -> DrawSummary:
    exact = chunk.to(torch.float64, copy=True)
    log_mean = exact.logsumexp(dim=0) - math.log(len(chunk))
    # A NaN anywhere in a row makes this NaN too, and comparisons with NaN are False.
    if not bool((log_mean.logsumexp(dim=1).abs() < _NORMALISATION_SLACK).all()):
        raise ContractViolation(
            "the mean probabilities of a row do not sum to 1 or are NaN; predict must return log-probabilities "
            "in nats, normalised over the classes: apply log_softmax to logits"
        )
    mean_log = exact.mean(dim=0)
    entropies = exact.exp().mul_(exact.clamp_(min=SMALLEST_LOG)).sum(dim=2).neg_()
    return DrawSummary(
        n_draws=len(chunk),
        log_mean_probs=log_mean.cpu().numpy(),
        mean_log_probs=mean_log.cpu().numpy(),
        expected_entropy=entropies.mean(dim=0).cpu().numpy(),
        quantile_probs=_quantiles(chunk),
        votes=_votes(chunk[:VOTE_DRAWS]),
    )


def _quantiles(chunk: Tensor) -> dict[float, FloatArray]:
    # exp keeps the order, so the order statistics are found among log-probabilities, and exp is taken only of these.
    # The interpolation between them must use probabilities. np.partition takes half as long as sorting.
    positions = [q * (len(chunk) - 1) for q in QUANTILES]
    ranks = sorted({rank for position in positions for rank in (math.floor(position), math.ceil(position))})
    by_number = chunk.flatten(1).t().to(torch.promote_types(chunk.dtype, torch.float32)).contiguous()
    values = np.partition(by_number.cpu().numpy(), ranks, axis=1)
    found = {rank: np.exp(values[:, rank].astype(np.float64)).reshape(chunk.shape[1:]) for rank in ranks}
    result: dict[float, FloatArray] = {}
    for q, position in zip(QUANTILES, positions, strict=True):
        low = math.floor(position)
        below, above = found[low], found[math.ceil(position)]
        result[q] = below + (above - below) * (position - low)
    return result


def _votes(chunk: Tensor) -> IntArray:
    winners = chunk.argmax(dim=2)
    votes: IntArray = torch.nn.functional.one_hot(winners, chunk.shape[2]).sum(dim=0).cpu().numpy()
    return votes
