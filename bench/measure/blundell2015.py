"""Protocol `published` of blundell2015: errors of the mean network and of averaged draws, during and after training.

The paper does not say which of these errors its tables show, nor of which epoch. So all are measured. No held-out or
test image is used to train. Errors are shares of wrong answers; the paper prints percent.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import runtime_checkable

from torch import Tensor

from bench.interface import Posterior, Split
from bench.measure.measuring import EpochMetrics, Measurement, draws_of, predict_split
from bench.measure.metrics.epochs import HELD_OUT, TEST, chosen_epochs
from bench.measure.metrics.pruning import prune_at
from bench.measure.protocols import Protocol

EPOCHS_WITH_DRAWS, EPOCH_DRAWS = 50, 10  # every 50 epochs, 10 networks are averaged
END_DRAWS = 100  # networks averaged at the end
PRUNED = (0.5, 0.75, 0.95, 0.98)  # shares of the weights that Table 2 removes
NOISE_LEFT = math.log(2)  # the sigma of a weight whose rho is set to 0: softplus(0)


@runtime_checkable
class LeavesNoise(typing.Protocol):
    """A posterior whose weights can lose their means and keep noise."""

    def masked_with_noise(self, keep: Mapping[str, Tensor], std: float) -> Posterior:
        """Return the posterior with mean 0 and standard deviation `std` where keep is False."""


class Blundell2015(Protocol):
    """Error on the 10,000 held-out images and on the test images; pruning by |mu| / sigma as in Table 2."""

    @cached_property
    def _splits(self) -> Mapping[str, Split]:
        return {name: self.split(name) for name in (HELD_OUT, TEST)}

    def _error(self, network: Posterior, name: str, draws: range) -> float:
        """Return the share of wrong answers of the mean probabilities of some draws."""
        split = self._splits[name]
        answers = predict_split(network, split, draws).summary.log_mean_probs.argmax(axis=1)
        return float((answers != split.y.numpy()).mean())

    def epoch(self, posterior: Posterior, epoch: int) -> Mapping[str, float]:
        """See `Protocol.epoch`."""
        network = posterior.mean_network()
        found = {f"mnist/{name}/error": self._error(network, name, range(1)) for name in self._splits}
        if posterior.n_draws is None and epoch % EPOCHS_WITH_DRAWS == 0:
            draws = draws_of(posterior, EPOCH_DRAWS, first=epoch * END_DRAWS)
            # another name than at the end, because the audit of records compares numbers that have the same name
            key = f"error_of_{EPOCH_DRAWS}_draws"
            found |= {f"mnist/{name}/{key}": self._error(posterior, name, draws) for name in self._splits}
        return found

    def final(self, posterior: Posterior, epochs: Sequence[EpochMetrics]) -> Measurement:
        """See `Protocol.final`."""
        network = posterior.mean_network()
        found = Measurement({f"mnist/{name}/error": self._error(network, name, range(1)) for name in self._splits})
        found.metrics |= chosen_epochs(epochs)
        if posterior.n_draws is None:
            draws = draws_of(posterior, min(END_DRAWS, self.budget.draws))
            found.metrics |= {
                f"mnist/{name}/error_of_draws": self._error(posterior, name, draws) for name in self._splits
            }
            self._prune(found, posterior)
        return found

    def _prune(self, found: Measurement, posterior: Posterior) -> None:
        """Prune the smallest |mu| / sigma: weights with their noise, then means only, which is a known mistake."""
        draws = draws_of(posterior, min(EPOCH_DRAWS, self.budget.draws))
        for share, keep in prune_at(posterior.weights(), PRUNED).items():
            pruned = posterior.masked(keep)
            errors = {
                "pruned_error": self._error(pruned.mean_network(), TEST, range(1)),
                "pruned_error_of_draws": self._error(pruned, TEST, draws),
            }
            if isinstance(posterior, LeavesNoise):
                noisy = posterior.masked_with_noise(keep, NOISE_LEFT)
                errors["noisy_pruned_error_of_draws"] = self._error(noisy, TEST, draws)
            found.metrics |= {f"mnist/{TEST}/{name}@{share:g}": error for name, error in errors.items()}
