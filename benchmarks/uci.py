"""All networks of a UCI set at once, beside a loop of single networks in plain PyTorch: time, and the same errors.

    python -m benchmarks.uci [SET] [EPOCHS]     default: bostonHousing, 40

The loop is one that a user would write: data in memory, no DataLoader, Adam with foreach; one process for each core.
Both train the networks of every split with drop rate .05; the times are of rounds that alternate, and hold for the 240
networks of a set's tuning. Needs a quiet machine.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import torch

from bench.core.environment import usable_threads
from bench.uci.data import Floats, facts_of, load
from bench.uci.dropout import Batch, Network, Parts, keras_decay
from bench.uci.train import prepare

RATE, SETTINGS, ROUNDS, ROWS = 0.05, 12, 5, 128
Rows = tuple[Floats, Floats]


def alone(rows: Rows, points: Floats, hidden: int, epochs: int, decay: float, seed: int) -> tuple[float, Floats]:
    """Train one network in plain PyTorch; return the seconds of a step, and its outputs for the points [n]."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    x, y = (torch.tensor(one, dtype=torch.float32) for one in rows)
    layers = torch.nn.Linear(x.shape[1], hidden), torch.nn.Linear(hidden, 1)
    for layer in layers:
        torch.nn.init.xavier_uniform_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
    network = torch.nn.Sequential(
        torch.nn.Dropout(RATE), layers[0], torch.nn.ReLU(), torch.nn.Dropout(RATE), layers[1], torch.nn.Flatten(0)
    )
    kernels, biases = ([getattr(layer, name) for layer in layers] for name in ("weight", "bias"))
    groups = [{"params": kernels, "weight_decay": 2 * decay}, {"params": biases}]
    adam = torch.optim.Adam(groups, lr=1e-3, eps=1e-7, foreach=True)
    begun = time.perf_counter()
    for _ in range(epochs):
        for chosen in torch.randperm(len(x)).split(ROWS):
            adam.zero_grad()
            torch.nn.functional.mse_loss(network(x[chosen]), y[chosen]).backward()
            adam.step()
    seconds = (time.perf_counter() - begun) / (epochs * math.ceil(len(x) / ROWS))
    with torch.no_grad():
        return seconds, network.eval()(torch.tensor(points, dtype=torch.float32)).numpy().astype(np.float64)


def main(name: str = "bostonHousing", epochs: int = 40) -> None:
    """Print the milliseconds of a step of all networks both ways, their ratio, and the errors of both."""
    data, known, cores = load(name), facts_of(name), usable_threads()
    prepared = prepare(data, data.splits)
    parts, n_splits = prepared.train, len(data.splits)
    decay = keras_decay(RATE, known.tau_2016, parts.x.shape[1])
    networks = [Network(s, (s, k), RATE, decay) for s in range(n_splits) for k in range(SETTINGS)]
    warm = Batch(networks, parts, known.hidden, 0)
    warm.train(1, cores)
    ratios, loop_ms, batch_ms = [], [], []
    found: dict[str, list[Floats]] = {"loop": [], "at once": []}
    with ProcessPoolExecutor(cores, get_context("spawn")) as pool:
        for seed in range(ROUNDS):
            jobs = [
                pool.submit(alone, (parts.x[s], parts.y[s]), prepared.test.x[s], known.hidden, epochs, decay, number)
                for s, number in enumerate(range(seed * n_splits, (seed + 1) * n_splits))
            ]
            results = [job.result() for job in jobs]
            loop_ms.append(1e3 * statistics.fmean(seconds for seconds, _ in results) * len(networks) / cores)
            batch = Batch(networks, Parts(*parts), known.hidden, seed)
            begun = time.perf_counter()
            batch.train(epochs * batch.steps_an_epoch, cores)
            batch_ms.append(1e3 * (time.perf_counter() - begun) / batch.step)
            ratios.append(loop_ms[-1] / batch_ms[-1])
            first = range(0, len(networks), SETTINGS)
            off = batch.predict(prepared.test, np.ones((n_splits, 1)), 1, only=first, dropout=False).mean
            for way, outputs in (("loop", np.stack([one for _, one in results])), ("at once", off)):
                found[way].append(np.sqrt(np.mean((outputs - prepared.test.y) ** 2, axis=1)) * prepared.sd)
    middle = [statistics.median(one) for one in (loop_ms, batch_ms, ratios)]
    print(f"{name}, {len(networks)} networks, {cores} cores, {ROUNDS} rounds of {epochs} epochs")
    print(f"a step: loop {middle[0]:.2f} ms, at once {middle[1]:.2f} ms")
    print(f"ratio: {middle[2]:.1f} ({min(ratios):.1f} to {max(ratios):.1f})")
    means = {way: np.array([one.mean() for one in rounds]) for way, rounds in found.items()}
    for way, one in means.items():
        print(
            f"RMSE without dropout, {way}: {one.mean():.4f} +- {one.std(ddof=1) / math.sqrt(ROUNDS):.4f} (se of rounds)"
        )


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:3]))
