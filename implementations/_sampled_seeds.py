"""Seeds of Bayes by Backprop that train together: one sampled network, one Adam, and a posterior for each seed."""

from __future__ import annotations

from collections.abc import Sequence

from bench.interface import Posterior
from implementations import _seeds
from implementations._kernels.flat_adam import FlatAdam
from implementations._kernels.gaussian_posterior import Family, GaussianPosterior
from implementations._kernels.sampled_mlp import SampledMlp, sigma_of


class SampledSeeds(_seeds.Seeds):
    """Seeds that train one sampled network. A subclass says which rows they see, and in which order."""

    def __init__(self, network: SampledMlp, learning_rate: float, families: Sequence[Family]) -> None:
        """Train `network` from its present parameters by Adam; `families`: one for the posterior of each seed."""
        self.network = network
        self.adam = FlatAdam(network.parameters, network.gradient, learning_rate, network.of_seed)
        self._families = families

    def restore(self, states: Sequence[_seeds.State]) -> None:
        """See `_seeds.Seeds`."""
        self.adam.restore(*states)

    def posterior(self, index: int) -> Posterior:
        """See `_seeds.Seeds`."""
        mu, rho = (self.network.of_seed(vector, index) for vector in (self.network.mu, self.network.rho))
        # a copy, because training goes on and changes the parameters in place
        return GaussianPosterior(self._families[index], mu.to("cpu", copy=True), sigma_of(rho).cpu())

    def state(self, index: int) -> _seeds.State:
        """See `_seeds.Seeds`."""
        return self.adam.state(index)
