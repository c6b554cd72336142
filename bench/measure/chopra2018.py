"""Protocol `published` of chopra2018."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from bench.core.errors import DataMissing
from bench.core.reasons import Reason, message_reason
from bench.interface import Posterior, Split
from bench.measure.measuring import (
    EpochMetrics,
    Measurement,
    categorical,
    draws_of,
    last_epoch,
    shuffled_batches,
)
from bench.measure.metrics import published as estimators
from bench.measure.metrics.draws import DrawSummary, concatenate, reduce_draws
from bench.measure.metrics.refusal import MEDIAN_RULE
from bench.measure.protocols import Protocol

SELECTIVE_FIRST, NOISE_FIRST, LETTERS_FIRST = 100_000, 200_000, 300_000  # first draws of the later steps


class Chopra2018(Protocol):
    """Forced answers from the mean logits of 10 networks; the median rule over 100. New networks for each batch."""

    def final(self, posterior: Posterior, epochs: Sequence[EpochMetrics]) -> Measurement:
        """See `Protocol.final`."""
        found = Measurement(last_epoch(epochs))
        test = self.split("test10k")
        batches = shuffled_batches(test, self.seed)
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
                found.missing[key] = message_reason("no-data", error)
            return
        side = round(letters.x.shape[1] ** 0.5)
        lying = letters.x.reshape(-1, side, side).transpose(1, 2).reshape(len(letters), -1).contiguous()
        for x, suffix in ((lying, ""), (letters.x, "_upright")):
            batches = shuffled_batches(Split(letters.name, x, letters.y, letters.rows), self.seed, 1)
            summary = concatenate(self._summaries(posterior, batches, n_draws=100, first=LETTERS_FIRST))
            refused = ~MEDIAN_RULE.accepted(summary)
            found.metrics[f"{place}/refusal_rate{suffix}"] = float(refused.mean())
            if not suffix:
                found.metrics["notmnist459/100 random of 459/refusal_rate"] = float(refused[:100].mean())
