"""Protocol `published` of feldman2018."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from bench.data.splits import load_split
from bench.interface import Posterior
from bench.measure.measuring import (
    EpochMetrics,
    Measurement,
    categorical,
    draws_of,
    last_epoch,
    shuffled_batches,
)
from bench.measure.metrics import published as estimators
from bench.measure.metrics.arrays import FloatArray, IntArray
from bench.measure.protocols import Protocol

EPOCH_DRAWS = 1_000  # indices of draws that belong to one epoch, so that every epoch measures new networks


class Feldman2018(Protocol):
    """The base of both classifiers of feldman2018: shuffled batches of the test set, and entropy on Gaussian noise."""

    epoch_draws = 1
    noise_draws = 1

    def _by_batch(self, posterior: Posterior, epoch: int) -> tuple[FloatArray, IntArray, FloatArray]:
        """Return mean log-probabilities and labels in shuffled order, and the mean log density ratio of each batch."""
        batches = shuffled_batches(self.split("test10k"), self.seed, epoch)
        means, ratios = [], []
        for index, batch in enumerate(batches):
            first = epoch * EPOCH_DRAWS + index * self.epoch_draws
            draws = draws_of(posterior, self.epoch_draws, first)
            log_probs = categorical(posterior, batch.x, draws, batch.rows)
            means.append(log_probs.double().mean(dim=0).cpu().numpy())
            # In this loop, because the posterior still has the networks of this batch in memory.
            ratios.append(self._density_ratio(posterior, draws))
        return np.concatenate(means), torch.cat([batch.y for batch in batches]).numpy(), np.array(ratios)

    def _density_ratio(self, posterior: Posterior, draws: range) -> float:
        """Return the mean of log q(w) - log p(w) over a batch's networks, in nats; 0 for a deterministic network."""
        del posterior, draws
        return 0.0

    def final(self, posterior: Posterior, epochs: Sequence[EpochMetrics]) -> Measurement:
        """See `Protocol.final`."""
        found = Measurement(last_epoch(epochs))
        noise = self.ood("noise_gaussian")
        draws = draws_of(posterior, self.noise_draws)
        log_probs: Tensor = categorical(posterior, noise.x, draws, noise.rows)
        entropy = estimators.geometric_entropy(log_probs.double().mean(dim=0).cpu().numpy())
        found.metrics["noise_gaussian/1000 images/predictive_entropy"] = float(entropy.mean())
        return found


class Feldman2018Mlp(Feldman2018):
    """One prediction of the deterministic network."""

    def epoch(self, posterior: Posterior, epoch: int) -> Mapping[str, float]:
        """See `Protocol.epoch`."""
        means, labels, _ = self._by_batch(posterior, epoch)
        return {
            "mnist/test10k/test_loss": estimators.feldman2018_mlp_test_loss(means, labels),
            "mnist/test10k/accuracy": estimators.feldman2018_accuracy(means, labels),
        }


class Feldman2018Bbb(Feldman2018):
    """Mean log-probabilities of five networks for each batch; 100 networks on noise."""

    epoch_draws = 5
    noise_draws = 100

    def epoch(self, posterior: Posterior, epoch: int) -> Mapping[str, float]:
        """See `Protocol.epoch`."""
        means, labels, ratios = self._by_batch(posterior, epoch)
        n_train = len(load_split(self.entry.recipes["published"].split, self.seed, self.data_dir))
        return {
            "mnist/test10k/test_loss": estimators.feldman2018_test_loss(means, labels, ratios, n_train),
            "mnist/test10k/accuracy": estimators.feldman2018_accuracy(means, labels),
        }

    def _density_ratio(self, posterior: Posterior, draws: range) -> float:
        return float(posterior.log_density_ratio(draws).mean())
