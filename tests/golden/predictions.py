"""What fitted posteriors predict, and the streams of random numbers.

Predictions: as they are, exact for each row alone, pruned, and by the network of means. Of streams: integers exactly,
numbers in float64, and the rows that they choose.
"""

import functools

import numpy as np
import torch

from bench.core.errors import Unsupported
from bench.core.noise import fill_normals, fill_words
from bench.core.streams import generator, normals, stream_seed, uniforms
from bench.data.splits import load_ood, load_shared, load_split, toy_split
from bench.interface import Categorical
from bench.plan.registry import manifest
from tests.golden.fits import SEED, fitted
from tests.golden.numbers import Trace, digest_of, mixed

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


NAMES = ("init", "shuffle", "noise", "draw", "shared-draw", "split", "ood", "test-order")


def streams_trace():
    """Return seeds of streams, words, normals, permutations and splits."""
    found = Trace()
    for name in NAMES:
        for index in ((), (1,), (2, 3)):
            found.exact[f"stream_seed/{name}/{index}"] = str(stream_seed(7, name, *index))
    rows = torch.tensor([0, 3, 70_000, 2**40])
    words = fill_words(torch.empty(4, 700, dtype=torch.int64), stream_seed(0, "words"), rows)
    found.exact["words"] = digest_of(words.numpy())
    found.array("normals", fill_normals(torch.empty(4, 700, dtype=torch.float64), stream_seed(0, "normals"), rows))
    for n in (15, 32, 700):
        found.array(f"generator/normals/{n}", normals(n, generator(3, "init"), torch.float64))
    found.array("generator/uniforms", uniforms(700, 0.05, generator(3, "init"), torch.float64))
    found.exact["randperm"] = digest_of(torch.randperm(5000, generator=generator(3, "shuffle", 1)).numpy())
    return found


def data_trace():
    """Return which rows each split has, and sums of their pixels."""
    found = Trace()
    for name in ("train60k", "test10k", "train50k", "heldout10k-of-train"):
        split = load_split(name, 1)
        found.exact[f"{name}/rows"] = digest_of(split.rows.numpy())
        found.exact[f"{name}/labels"] = digest_of(split.y.numpy())
        _pixels(found, name, split)
    shared, places = load_shared("train50k", [1, 2])
    found.exact["train50k/shared"] = digest_of(shared.rows[places].numpy())
    for name in ("noise_gaussian", "noise_uniform", "fashion_mnist", "letters"):
        split = load_ood(name, 1, dtype=torch.float64)
        found.exact[f"{name}/length"] = len(split)
        _pixels(found, name, split)
    points = toy_split()
    found.number("toy/x", (points.x.double().flatten() @ torch.arange(6.0, dtype=torch.float64)).item())
    found.number("toy/y", (points.y.double().flatten() @ torch.arange(6.0, dtype=torch.float64)).item())
    return found


def _pixels(found, name, split):
    found.array(f"{name}/pixels", split.x[:200])
