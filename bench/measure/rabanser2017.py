"""Protocol `published` of rabanser2017."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.interface import Posterior, Split
from bench.measure.measuring import EpochMetrics, Measurement, last_epoch, predict_split
from bench.measure.metrics.pruning import prune_at
from bench.measure.protocols import Protocol


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
        found = Measurement(last_epoch(epochs))
        test = self.split("test10k")
        for level, keep in prune_at(posterior.weights(), self.levels).items():
            accuracy = self._accuracy(posterior.masked(keep).mean_network(), test)
            found.metrics[f"mnist/test10k/pruned_accuracy@{level:g}"] = accuracy
        return found
