"""What fitted posteriors predict: as they are, exact for each row alone, pruned, and by the network of means."""

import functools

import numpy as np
import torch

from bench.core.errors import Unsupported
from bench.data.splits import load_split
from bench.interface import Categorical
from bench.plan.registry import manifest
from tests.golden.fits import SEED, fitted
from tests.golden.numbers import Trace, mixed

PREDICTED = 48  # rows of the test file, from FIRST_ROW on
FIRST_ROW = 200
FIRST_DRAW, DRAWS = 5, 3


def predict_trace(name, recipe):
    """Return summaries of every way in which the published or changed fit of seed 0 predicts."""
    (one,) = fitted(name, recipe)
    found = Trace()
    posterior = one.posterior
    ways = {"as-fitted": lambda: posterior}
    ways["per-row"] = posterior.per_row
    ways["mean-network"] = posterior.mean_network
    ways["masked"] = lambda: posterior.masked(_masks(posterior))
    torch.set_flush_denormal(True)
    try:
        for way, make in ways.items():
            try:
                other = make()
            except Unsupported:
                found.exact[f"{way}/noise"] = "unsupported"
                continue
            found.exact[f"{way}/noise"] = other.noise
            _predicted(found, way, other, manifest(name).task)
            if way != "mean-network":
                _ratios(found, way, other)
    finally:
        torch.set_flush_denormal(False)
    return found


def _masks(posterior):
    """Return masks that drop a third of the weights, by their places."""
    return {key: _thirds(m.mean.numel()).view(m.mean.shape) for key, m in posterior.weights().items()}


@functools.lru_cache(maxsize=16)
def _thirds(n):
    return torch.from_numpy(mixed(np.arange(n, dtype=np.uint64)) % np.uint64(3) != 0)


def inputs(task):
    """Return inputs [B, n_inputs] and their row numbers."""
    rows = torch.arange(FIRST_ROW, FIRST_ROW + PREDICTED)
    if task == "toy":
        return torch.linspace(-3, 3, PREDICTED, dtype=torch.float64).reshape(-1, 1), rows
    return load_split("test10k", SEED).x[rows].double(), rows


def _predicted(found, way, posterior, task):
    x, rows = inputs(task)
    n_draws = posterior.n_draws
    draws = range(FIRST_DRAW, FIRST_DRAW + DRAWS) if n_draws is None else range(min(n_draws, DRAWS))
    answer = posterior.predict(x, draws, rows)
    found.exact[f"{way}/type"] = str((answer.log_probs if isinstance(answer, Categorical) else answer.mean).dtype)
    if isinstance(answer, Categorical):
        found.array(f"{way}/probabilities", answer.log_probs.exp())
        found.array(f"{way}/logs", answer.log_probs)
    else:
        for part in ("mean", "variance"):
            found.array(f"{way}/{part}", getattr(answer, part))


def _ratios(found, way, posterior):
    try:
        ratios = posterior.log_density_ratio(range(FIRST_DRAW, FIRST_DRAW + DRAWS))
    except Unsupported:
        found.exact[f"{way}/log-density-ratio"] = "unsupported"
        return
    for index, ratio in enumerate(ratios.tolist()):
        found.number(f"{way}/log-density-ratio/{index}", ratio)
