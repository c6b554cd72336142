"""Protocol `published`: measure as each document did, with its split, draws, estimators and rounding.

The key of a number is "<dataset>/<split>/<metric>". Claims in results/reference/published.csv have the same keys.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bench.core.errors import ConfigError, DataMissing, check_known
from bench.core.reasons import Reason, told
from bench.core.streams import generator
from bench.data.splits import load_split
from bench.interface import Posterior, Split
from bench.measure.measuring import EpochMetrics, Measurement, categorical, draws_of, gaussian, predict_split
from bench.measure.metrics import published as estimators
from bench.measure.metrics.arrays import FloatArray, IntArray
from bench.measure.metrics.classification import disagreement_rate, row_disagrees
from bench.measure.metrics.draws import DrawSummary, concatenate, reduce_draws
from bench.measure.metrics.pruning import prune_at
from bench.measure.metrics.refusal import MEDIAN_RULE
from bench.measure.protocols import CPU, Common, Protocol, ToyCommon
from bench.plan.cells import PROTOCOLS
from bench.plan.manifests import ApproachManifest
from bench.plan.recipes import Profile

BATCH = estimators.BATCH_SIZE
EPOCH_DRAWS = 1_000  # indices of draws that belong to one epoch, so that every epoch measures new networks
SELECTIVE_FIRST, NOISE_FIRST, LETTERS_FIRST = 100_000, 200_000, 300_000  # first draws of chopra2018's later steps


def _shuffled_batches(split: Split, seed: int, *index: int) -> list[Split]:
    """Return the split in random order in batches of 128, like a DataLoader that shuffles."""
    order = torch.randperm(len(split), generator=generator(seed, "test-order", *index))
    return [split.select(part) for part in torch.split(order, BATCH)]


def _last_epoch(epochs: Sequence[EpochMetrics]) -> dict[str, float | None]:
    """Return the numbers of the last epoch: a document that prints every epoch reports these as its result."""
    return dict(epochs[-1]) if epochs else {}


class Alsibahi2019(Protocol):
    """One draw for 10,000 held-out images of the training file; 30 more draws to find uncertain images."""

    def final(self, posterior: Posterior, epochs: Sequence[EpochMetrics]) -> Measurement:
        """See `Protocol.final`."""
        held_out = self.split("heldout10k-of-train")
        file_rows = held_out.rows.numpy()
        # A row's number selects its noise. Here it is the position in the held-out set, not in the training file.
        held_out = dataclasses.replace(held_out, rows=torch.arange(len(held_out)))
        found = Measurement(_last_epoch(epochs))
        place = "mnist/heldout10k-of-train"
        one = predict_split(posterior, held_out, range(1))
        found.metrics[f"{place}/accuracy"] = int(one.hits[0]) / len(held_out)
        many = predict_split(posterior, held_out, range(1, 31))
        found.metrics[f"{place}/disagreement_rate"] = disagreement_rate(many.summary.votes)
        uncertain = np.flatnonzero(row_disagrees(many.summary.votes))
        found.arrays[f"{place}/first_uncertain"] = {
            "rows": file_rows[uncertain[:64]].tolist(),
            "votes": many.summary.votes[uncertain[:64]].tolist(),
            "scanned": int(uncertain[63]) + 1 if len(uncertain) >= 64 else len(held_out),
        }
        return found


class Chopra2018(Protocol):
    """Forced answers from the mean logits of 10 networks; the median rule over 100. New networks for each batch."""

    def final(self, posterior: Posterior, epochs: Sequence[EpochMetrics]) -> Measurement:
        """See `Protocol.final`."""
        found = Measurement(_last_epoch(epochs))
        test = self.split("test10k")
        batches = _shuffled_batches(test, self.seed)
        labels = torch.cat([batch.y for batch in batches]).numpy()
        forced = self._summaries(posterior, batches, n_draws=10, first=0)
        accuracy = estimators.chopra2018_forced_accuracy(concatenate(forced).mean_log_probs, labels)
        selective = self._summaries(posterior, batches, n_draws=100, first=SELECTIVE_FIRST)
        outcomes = estimators.chopra2018_outcomes(concatenate(selective), labels)
        place = "mnist/test10k"
        found.metrics[f"{place}/accuracy"] = accuracy.fraction
        found.metrics[f"{place}/refusal_rate"] = outcomes.refusal_rate
        self._accepted(found, f"{place}/selective_accuracy", outcomes)
        found.arrays[f"{place}/printed"] = {
            "accuracy_percent": accuracy.printed_percent,
            "skipped": outcomes.undecided,
            "selective_accuracy_percent": outcomes.accepted.printed_percent,
        }
        self._first_hundred(found, posterior, batches[0])
        self._noise(found, posterior)
        self._letters(found, posterior)
        return found

    def _summaries(self, posterior: Posterior, batches: Sequence[Split], n_draws: int, first: int) -> list[DrawSummary]:
        """Return the summary of each batch; every batch has its own networks."""
        found = []
        for index, batch in enumerate(batches):
            draws = draws_of(posterior, n_draws, first + index * n_draws)
            found.append(reduce_draws(categorical(posterior, batch.x, draws, batch.rows)))
        return found

    def _accepted(self, found: Measurement, key: str, outcomes: estimators.Chopra2018Outcomes) -> None:
        if outcomes.accepted.fraction is None:
            found.missing[key] = Reason("images-refused")
        else:
            found.metrics[key] = outcomes.accepted.fraction

    def _first_hundred(self, found: Measurement, posterior: Posterior, batch: Split) -> None:
        hundred = batch.select(torch.arange(min(100, len(batch))))
        summary = self._summaries(posterior, [hundred], n_draws=100, first=SELECTIVE_FIRST - 100)[0]
        outcomes = estimators.chopra2018_outcomes(summary, hundred.y.numpy())
        place = "mnist/100 random images of test10k"
        found.metrics[f"{place}/fraction_correct"] = outcomes.correct / outcomes.total
        found.metrics[f"{place}/fraction_incorrect"] = outcomes.incorrect / outcomes.total
        found.metrics[f"{place}/fraction_undecided"] = outcomes.undecided / outcomes.total
        found.metrics[f"{place}/refusal_rate"] = outcomes.refusal_rate
        self._accepted(found, f"{place}/selective_accuracy", outcomes)

    def _noise(self, found: Measurement, posterior: Posterior) -> None:
        """Apply the median rule to uniform noise: 20 networks as in the document's figure, and 100 as in its text."""
        noise = self.ood("noise_uniform")
        for n_draws, suffix in ((20, ""), (100, "_of_100_networks")):
            summary = self._summaries(posterior, [noise], n_draws, NOISE_FIRST + n_draws)[0]
            refused = ~MEDIAN_RULE.accepted(summary)
            found.metrics[f"noise_uniform/100 images/refusal_rate{suffix}"] = float(refused.mean())

    def _letters(self, found: Measurement, posterior: Posterior) -> None:
        """Apply the median rule to not-MNIST: to transposed images, as the document does, and to upright ones."""
        place = "notmnist459/all 459"
        try:
            letters = self.ood("notmnist459")
        except DataMissing as error:
            for key in (f"{place}/refusal_rate", "notmnist459/100 random of 459/refusal_rate"):
                found.missing[key] = told("no-data", error)
            return
        side = round(letters.x.shape[1] ** 0.5)
        lying = letters.x.reshape(-1, side, side).transpose(1, 2).reshape(len(letters), -1).contiguous()
        for x, suffix in ((lying, ""), (letters.x, "_upright")):
            batches = _shuffled_batches(Split(letters.name, x, letters.y, letters.rows), self.seed, 1)
            summary = concatenate(self._summaries(posterior, batches, n_draws=100, first=LETTERS_FIRST))
            refused = ~MEDIAN_RULE.accepted(summary)
            found.metrics[f"{place}/refusal_rate{suffix}"] = float(refused.mean())
            if not suffix:
                found.metrics["notmnist459/100 random of 459/refusal_rate"] = float(refused[:100].mean())


class Feldman2018(Protocol):
    """The base of both classifiers of feldman2018: shuffled batches of the test set, and entropy on Gaussian noise."""

    epoch_draws = 1
    noise_draws = 1

    def _by_batch(self, posterior: Posterior, epoch: int) -> tuple[FloatArray, IntArray, FloatArray]:
        """Return mean log-probabilities and labels in shuffled order, and the mean log density ratio of each batch."""
        batches = _shuffled_batches(self.split("test10k"), self.seed, epoch)
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
        found = Measurement(_last_epoch(epochs))
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


class Feldman2018Toy(Protocol):
    """The losses that are printed in training, and the prediction at x = 100, which the document's text quotes."""

    def final(self, posterior: Posterior, epochs: Sequence[EpochMetrics]) -> Measurement:
        """See `Protocol.final`."""
        found = Measurement(_last_epoch(epochs))
        if posterior.n_draws == 1:
            x = torch.tensor([[100.0]], dtype=self.dtype, device=self.device)
            answer = gaussian(posterior, x, range(1), torch.tensor([0]))
            found.metrics["toy/x=100/prediction"] = float(answer.mean[0, 0, 0])
        return found


class Rabanser2017(Protocol):
    """The mean network's accuracy on all images after every epoch, and at the end after pruning by |mu|/sigma.

    Biases count as weights. The prediction never uses 160,400 of the 478,410 weights. They count too, although pruning
    them changes no answer.
    """

    levels = (0.1, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)

    def _accuracy(self, network: Posterior, split: Split) -> float:
        return int(predict_split(network, split, range(1)).hits[0]) / len(split)

    def epoch(self, posterior: Posterior, epoch: int) -> Mapping[str, float]:
        """See `Protocol.epoch`."""
        del epoch
        network = posterior.mean_network()
        train = self.split("train60k")
        return {
            "mnist/train60k/accuracy": self._accuracy(network, train),
            "mnist/test10k/accuracy": self._accuracy(network, self.split("test10k")),
        }

    def final(self, posterior: Posterior, epochs: Sequence[EpochMetrics]) -> Measurement:
        """See `Protocol.final`."""
        found = Measurement(_last_epoch(epochs))
        test = self.split("test10k")
        for level, keep in prune_at(posterior.weights(), self.levels).items():
            accuracy = self._accuracy(posterior.masked(keep).mean_network(), test)
            found.metrics[f"mnist/test10k/pruned_accuracy@{level:g}"] = accuracy
        return found


_BY_APPROACH: dict[str, type[Protocol]] = {
    "dropout_fcn": Alsibahi2019,
    "pyro_hidden_layer": Alsibahi2019,
    "pyro_random_module": Chopra2018,
    "mlp": Feldman2018Mlp,
    "linear_bbb": Feldman2018Bbb,
    "mxnet_bbb": Rabanser2017,
    "toy_mlp": Feldman2018Toy,
    "toy_bbb": Feldman2018Toy,
}


BLUNDELL2015 = ("blundell_sgd", "blundell_dropout", "blundell_bbb")


def protocol_of(
    entry: ApproachManifest,
    name: str,
    seed: int,
    budget: Profile,
    data_dir: Path | None,
    device: torch.device = CPU,
    dtype: torch.dtype = torch.float32,
) -> Protocol:
    """Return a protocol for one approach and seed: `common`, `shift`, or `published`, that of the document."""
    check_known("protocol", PROTOCOLS, name)
    # Protocols of few runs are imported where they are used, so that the others load less code.
    if name == "shift":
        from bench.measure.shifted import Shift

        return Shift(entry, seed, budget, data_dir, device, dtype)
    if name == "common":
        return (ToyCommon if entry.task == "toy" else Common)(entry, seed, budget, data_dir, device, dtype)
    if not entry.document:
        raise ConfigError(f"{entry.name} has no document; measure it with protocol common")
    if entry.name in BLUNDELL2015:
        from bench.measure.blundell2015 import Blundell2015

        return Blundell2015(entry, seed, budget, data_dir, device, dtype)
    if entry.name not in _BY_APPROACH:
        raise ConfigError(f"{entry.name} names document '{entry.document}', whose protocol is not known here")
    return _BY_APPROACH[entry.name](entry, seed, budget, data_dir, device, dtype)
