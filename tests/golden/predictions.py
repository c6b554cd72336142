"""What fitted posteriors predict: as they are, exact for each row alone, pruned, and by the network of means."""

import functools

import numpy as np
import torch

from bench.core.errors import Unsupported
from bench.data.splits import load_split
from bench.interface import Categorical
from bench.plan.registry import manifest
from tests.golden.fits import SEED, fitted
from tests.golden.numbers import Trace, mixed, signs

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
        return torch.linspace(-3, 3, PREDICTED).reshape(-1, 1), rows
    return load_split("test10k", SEED).x[rows], rows


def _predicted(found, way, posterior, task):
    x, rows = inputs(task)
    n_draws = posterior.n_draws
    draws = range(FIRST_DRAW, FIRST_DRAW + DRAWS) if n_draws is None else range(min(n_draws, DRAWS))
    answer = posterior.predict(x, draws, rows)
    if isinstance(answer, Categorical):
        logs = answer.log_probs.double().numpy()
        probs = np.exp(logs)
        found.number(f"{way}/largest-log", logs.max(axis=2).mean())
        found.number(f"{way}/mean-log", logs.mean())
        entropy = -(probs * np.maximum(logs, -1e4)).sum(axis=2).mean()
        found.number(f"{way}/entropy", entropy, max(entropy, 1.0))  # nats; a sure network's is rounding
        _projected(found, f"{way}/probabilities", probs)
        _projected(found, f"{way}/logs", logs)
    else:
        for part in ("mean", "variance"):
            values = getattr(answer, part).double().numpy()
            found.number(f"{way}/{part}", np.abs(values).mean())
            _projected(found, f"{way}/{part}", values)


def _projected(found, key, values):
    norm = float((values**2).sum() ** 0.5)
    found.number(f"{key}/projection", float(values.ravel() @ signs(values.size)), max(norm, 1e-9))


def _ratios(found, way, posterior):
    try:
        ratios = posterior.log_density_ratio(range(FIRST_DRAW, FIRST_DRAW + DRAWS))
    except Unsupported:
        found.exact[f"{way}/log-density-ratio"] = "unsupported"
        return
    for index, ratio in enumerate(ratios.tolist()):
        found.number(f"{way}/log-density-ratio/{index}", ratio)
