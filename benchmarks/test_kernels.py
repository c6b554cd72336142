"""Times our kernels through the contract: training steps and predictions of every approach, and shared functions.

Not part of the tests; it runs by `python -m pytest benchmarks`.
"""

from __future__ import annotations

import pytest
import torch

from bench.core.streams import row_noise
from bench.interface import Split, Task
from bench.measure.metrics.draws import reduce_draws
from bench.plan.recipes import build, profile, resolve
from bench.plan.registry import manifest
from benchmarks import many_seeds
from benchmarks.throughput.documents import names
from benchmarks.throughput.prediction import modes
from benchmarks.throughput.training import Subject, short_fit

pytest.importorskip("pytest_benchmark")

ROWS = 1024
STEPS = {"pyro_hidden_layer": 3, "mlp": 8}  # steps of a fit, for some approaches; the time includes the set-up
DRAWS, PREDICTED = 4, 500
SEEDS, STEPS_TOGETHER = 4, 2


def subject(name: str) -> Subject:
    """Return the published approach with made-up images."""
    reason = manifest(name).missing_framework()
    if reason:
        pytest.skip(reason)
    source = torch.Generator().manual_seed(0)
    x, y = torch.rand(ROWS, 784, generator=source), torch.randint(10, (ROWS,), generator=source)
    rows = Split("train60k", x, y, torch.arange(ROWS))
    approach = build(manifest(name), resolve(manifest(name), "published"), profile("full"))
    return Subject(approach, Task("classification", 10, ROWS, 784), rows, rows, seed=0, device=torch.device("cpu"))


@pytest.mark.parametrize("name", names())
def test_training(name, compare):
    """A fit of a few steps."""
    made = subject(name)
    compare(f"{name} training", lambda: short_fit(made, STEPS.get(name, 4)))


@pytest.mark.parametrize("name", names())
def test_prediction(name, compare):
    """A block of images with a few draws."""
    made = subject(name)
    posterior = short_fit(made)
    x, rows = made.test.x[:PREDICTED], made.test.rows[:PREDICTED]
    compare(f"{name} prediction", lambda: posterior.predict(x, range(posterior.n_draws or DRAWS), rows))


@pytest.mark.parametrize("name", [name for name in names() if name not in ("mlp", "dropout_fcn")])
def test_shared_prediction(name, compare):
    """The same with one noise vector for all rows; mlp has no noise, and dropout_fcn a mask for each row."""
    made = subject(name)
    _, shared = modes(short_fit(made))
    x, rows = made.test.x[:PREDICTED], made.test.rows[:PREDICTED]
    compare(f"{name} shared prediction", lambda: shared.predict(x, range(DRAWS), rows))


@pytest.mark.parametrize("name", many_seeds.names())
def test_seeds_together(name, compare):
    """A fit of a few steps of several seeds."""
    made = subject(name)
    compare(f"{name} {SEEDS} seeds", lambda: many_seeds.seconds(made, range(SEEDS), STEPS_TOGETHER, epochs=1))


def test_reduce_draws(compare):
    """100 draws of 500 images."""
    log_probs = torch.randn(100, PREDICTED, 10, generator=torch.Generator().manual_seed(0)).log_softmax(2)
    compare("reduce_draws", lambda: reduce_draws(log_probs))


def test_row_noise(compare):
    """Normals for 1,000 images and 1,000 units."""
    compare("row_noise", lambda: row_noise(0, 0, torch.arange(1000), 1000))
