"""A training step replayed as one CUDA graph: python -m benchmarks.gpu.graphs mlp linear_bbb --device cuda.

Most of the time of a small network's step goes into launching its kernels. A graph launches all of them at once. The
noise is drawn before the graph, because a graph would draw the same numbers at each replay. Both ways start from the
same numbers and must end with the same weights. A CPU has no graphs; there, the plain step is timed twice.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from bench.core.environment import OtherLoad
from bench.core.errors import check_known
from bench.core.streams import StepNoise, stream_seed
from bench.core.text import THREE
from bench.core.timing import repeat_seconds
from bench.interface import Task
from bench.judge.contract.under_test import CheckContext
from bench.plan.registry import load_class
from bench.show.table import Number, Table
from benchmarks.command import add_device, notes, run
from implementations import _dense, linear_bbb, mlp
from implementations._kernels.flat_adam import FlatAdam
from implementations._kernels.layout import Layout

NAMES = ("mlp", "linear_bbb")
STEPS, REPEATS, LIMIT_S, BATCH = 30, 200, 3.0, 128
COLUMNS = ("approach", "as it is, us", "as a graph, us", "as it is / as a graph", "largest difference of the weights")
CAPTION = (
    f"One training step of {BATCH} rows: median of up to {REPEATS} steps, without the noise's drawing. Difference: "
    f"after {STEPS} steps from the same numbers."
)


@dataclass(frozen=True)
class Step:
    """A training step whose inputs stay at the same place in memory, as a graph needs them."""

    draw: Callable[[], object]  # draws the noise of the next step
    step: Callable[[], object]
    weights: Tensor  # the weights that the step changes
    adam: FlatAdam


def table(given: argparse.Namespace) -> Table:
    """Return the table of the approaches on the device."""
    device = given.device
    others = OtherLoad(torch.get_num_threads())
    lines: list[list[str | Number]] = []
    for name in given.approaches:
        check_known("approach", STEP_OF, name)
        eager, graph = (STEP_OF[name](device) for _ in range(2))
        replay = captured(graph, device)
        for _ in range(STEPS):
            eager.draw(), eager.step()
            graph.draw(), replay()
        off = float((eager.weights - graph.weights).abs().max())
        plain, replayed = (
            statistics.median(repeat_seconds(call, device, REPEATS, LIMIT_S)) * 1e6 for call in (eager.step, replay)
        )
        numbers = [Number(value, THREE) for value in (plain, replayed, plain / replayed)]
        lines.append([name, *numbers, f"{off:.1e}"])
    return Table("graphs", "Training steps as CUDA graphs", CAPTION, COLUMNS, lines, notes(others.reasons()))


def captured(step: Step, device: torch.device) -> Callable[[], object]:
    """Return a call that replays the step; on a CPU, the step itself. The weights stay as they were."""
    if device.type != "cuda":
        return step.step
    changed = step.adam.for_graphs()
    before = [value.clone() for value in changed]
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):  # PyTorch asks for some steps on a side stream before a capture
        for _ in range(3):
            step.step()
    torch.cuda.current_stream(device).wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step.step()
    for value, old in zip(changed, before, strict=True):  # undo the warm-up steps
        value.detach().copy_(old)
    return graph.replay


def _rows(device: torch.device) -> tuple[Tensor, Tensor, Task]:
    source = torch.Generator().manual_seed(0)
    x, y = torch.rand(BATCH, 784, generator=source), torch.randint(10, (BATCH,), generator=source)
    return x.to(device), y.to(device), Task("classification", n_outputs=10, n_train=60_000, n_inputs=784)


def _context(device: torch.device) -> CheckContext:
    context = CheckContext(0)
    context.device = device
    return context


def _mlp(device: torch.device) -> Step:
    x, y, task = _rows(device)
    recipe = load_class("mlp")()
    assert isinstance(recipe, mlp.Mlp)
    layout = Layout((task.n_inputs, recipe.width, recipe.width, task.n_outputs))
    training = mlp.Training(recipe, layout, _dense.linear_init(layout, _context(device).generator("init")).to(device))
    return Step(lambda: None, partial(training.step, x, y), training.flat, training.adam)


def _linear_bbb(device: torch.device) -> Step:
    x, y, task = _rows(device)
    recipe = load_class("linear_bbb")()
    assert isinstance(recipe, linear_bbb.LinearBbb)
    network = recipe.network(task, _context(device))
    adam = FlatAdam(network.parameters, network.gradient, recipe.learning_rate, network.of_seed)
    noise = StepNoise(stream_seed(0, "noise", 1))

    def step() -> None:
        network.loss_and_gradient(x, y)
        adam.step()

    return Step(lambda: noise.normals_(network.epsilon), step, network.parameters, adam)


STEP_OF = {"mlp": _mlp, "linear_bbb": _linear_bbb}


if __name__ == "__main__":
    sys.exit(run("gpu.graphs", "A training step as one CUDA graph.", NAMES, table, add_device))
