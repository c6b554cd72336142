"""The sampler of reference posteriors: is it right, and how fast is it?

python -m benchmarks.posterior ranks [DATA_SETS]    simulation-based calibration (Talts et al. 2018)
"""

from __future__ import annotations

import sys

import torch
from scipy import stats
from torch import Tensor

from bench.core import streams
from bench.posterior.gradient import Target
from bench.posterior.hmc import sample
from bench.posterior.network import Network

CHAINS, THIN, WARMUP = 2, 4, 60


def simulated_ranks(network: Network, *, n_rows: int, data_sets: int, n_draws: int, seed: int) -> Tensor:
    """Return the ranks of parameters drawn from the prior among draws from the posterior of data that they simulate.

    Every fourth draw counts, so that draws are nearly independent, as uniform ranks require. The statistics: the
    log-likelihood of the data (Modrak et al. 2023), the log-probability of the first class at a new row, and the size
    of the last layer's first bias. None depends on the order of hidden units.

    Args:
        network: a classifier.
        n_rows: of each data set.
        data_sets: how many are simulated.
        n_draws: from each posterior; odd or even.
        seed: of all random numbers.

    Returns:
        int64 [data_sets, 3], from 0 to n_draws.
    """
    found = []
    for number in range(data_sets):
        source = streams.generator(seed, "simulated", number)
        x = torch.randn(n_rows + 1, network.n_inputs, generator=source)
        z = torch.randn(1, network.n_parameters, generator=source)
        probabilities = network.outputs(network.weights(z), x[:-1])[0].softmax(-1)
        y = torch.multinomial(probabilities, 1, generator=source)[:, 0]

        def statistics(z: Tensor, x: Tensor = x, y: Tensor = y) -> Tensor:
            new = network.outputs(network.weights(z), x[-1:]).log_softmax(-1)[:, 0, 0]
            bias = network.weights(z).layers[-1][1][:, 0].abs()
            return torch.stack([network.log_likelihood(z, x[:-1], y), new, bias], 1)

        drawn = sample(
            Target(network, x[:-1], y),
            chains=CHAINS,
            draws=THIN * -(-n_draws // CHAINS),
            warmup=WARMUP,
            seed=streams.stream_seed(seed, "sampling", number),
            keep=statistics,
        ).draws[:, THIN - 1 :: THIN]
        found.append((drawn.transpose(0, 1).flatten(0, 1)[:n_draws] < statistics(z)).sum(0))
    return torch.stack(found)


def main() -> None:
    """Print the p-value of each statistic's ranks."""
    data_sets = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    n_draws = 19
    ranks = simulated_ranks(Network(2, 3, 2, "tanh"), n_rows=8, data_sets=data_sets, n_draws=n_draws, seed=2)
    for name, of_statistic in zip(("log-likelihood", "log-probability", "bias"), ranks.T, strict=True):
        counts = torch.bincount(of_statistic, minlength=n_draws + 1)
        print(f"{name}: ranks {counts.tolist()}, p = {stats.chisquare(counts.numpy()).pvalue:.3g}")


if __name__ == "__main__":
    main()
