"""A step of blundell_bbb beside plain SGD and beside the public style: python -m benchmarks.blundell_steps [UNITS ...].

Writes results/tables/blundell_steps. It times blocks of steps in turn, on one batch of 128 random rows, with all cores:

    ours      our step of Bayes by Backprop: matrix products, the loss, and one pass over the weights, which updates
              them, makes noise and draws new weights
    pass      that pass alone
    sgd       a step of our plain network of the same size
    public    the same loss through torch.distributions, autograd and torch.optim.SGD, as public code writes it
    products  only the matrix products of a step, into the same buffers
    memory    additions of long vectors that move as many bytes as the pass must read and write (5 and 4 vectors)

A ratio is the median of the rounds' own ratios.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor
from torch.distributions import Normal
from torch.nn.functional import cross_entropy, linear, softplus

from bench.cli.options import count
from bench.core.load import OtherLoad
from bench.core.streams import StepNoise
from bench.core.text import THREE
from bench.interface import Split, Task
from bench.run.alone import FitAlone
from bench.show.table import Number, Table
from benchmarks.command import notes, run
from implementations._blundell import PlainSeed
from implementations._kernels.layout import Layout
from implementations._kernels.mixture_mlp import MixtureMlp
from implementations.blundell_bbb import BlundellBbb
from implementations.blundell_sgd import BlundellSgd

BATCH, N_BATCHES, RATE = 128, 391, 1e-3
STEPS, ROUNDS = 10, 15
TARGETS = {"ours / sgd": "at most 2.2 at 400", "public / ours": "at least 5", "limit / ours": "at least 0.6 at 1200"}
COLUMNS = ("units", "ours, ms", "pass, ms", "sgd, ms", "public, ms", "products, ms", "memory, ms", *TARGETS)
TASK = Task("classification", 10, 50_000, 784)


class PublicStyle:
    """A training step as public code writes it: means and rhos of each layer, and densities of torch.distributions."""

    def __init__(self, recipe: BlundellBbb) -> None:
        """Start with small means."""
        sizes = recipe.layout(TASK).sizes
        shapes = [shape for n_in, n_out in pairwise(sizes) for shape in ((n_out, n_in), (n_out,))]
        self._mu = [torch.empty(shape).uniform_(-0.04, 0.04).requires_grad_() for shape in shapes]
        self._rho = [torch.full(shape, recipe.rho_start).requires_grad_() for shape in shapes]
        self._optimiser = torch.optim.SGD([*self._mu, *self._rho], lr=RATE)
        self._wide, self._narrow = Normal(0.0, recipe.mixture_wide_std), Normal(0.0, recipe.mixture_narrow_std)
        self._share = recipe.mixture_share

    def step(self, x: Tensor, y: Tensor) -> None:
        """Take one step."""
        log_ratio, drawn = torch.zeros(()), []
        for mu, rho in zip(self._mu, self._rho, strict=True):
            posterior = Normal(mu, softplus(rho))
            w = posterior.rsample()
            parts = (
                math.log(self._share) + self._wide.log_prob(w),
                math.log1p(-self._share) + self._narrow.log_prob(w),
            )
            log_ratio = log_ratio + posterior.log_prob(w).sum() - torch.logsumexp(torch.stack(parts), 0).sum()
            drawn.append(w)
        hidden = x
        for depth in range(0, len(drawn), 2):
            hidden = linear(hidden, drawn[depth], drawn[depth + 1])
            hidden = torch.relu(hidden) if depth + 2 < len(drawn) else hidden
        loss = log_ratio / N_BATCHES + cross_entropy(hidden, y, reduction="sum")
        self._optimiser.zero_grad()
        torch.autograd.backward(loss)
        self._optimiser.step()


class Products:
    """The products of a training step: three forward, three for the matrices' gradients, two for the inputs'."""

    def __init__(self, layout: Layout, x: Tensor) -> None:
        """Allocate random factors and all results."""
        self._inputs = [x, *(torch.rand(len(x), width) for width in layout.sizes[1:-1])]
        self._matrices = [torch.rand(n, m) for m, n in pairwise(layout.sizes)]
        self._outputs = [torch.rand(len(x), width) for width in layout.sizes[1:]]
        self._gradients = [torch.empty_like(matrix) for matrix in self._matrices]
        self._flowing = [torch.empty_like(one) for one in self._inputs]

    def step(self) -> None:
        """Make the products of one step."""
        layers = zip(self._inputs, self._matrices, self._outputs, self._gradients, self._flowing, strict=True)
        for depth, (inputs, matrix, out, gradient, flowing) in enumerate(layers):
            torch.mm(inputs, matrix.t(), out=out)
            torch.mm(out.t(), inputs, out=gradient)
            if depth:
                torch.mm(out, matrix, out=flowing)


def subjects(units: int) -> Mapping[str, Callable[[], object]]:
    """Return the timed calls by name."""
    torch.manual_seed(1)
    x, y = torch.rand(BATCH, TASK.n_inputs), torch.randint(TASK.n_outputs, (BATCH,))
    recipe = BlundellBbb(hidden_units=units)
    layout = recipe.layout(TASK)
    mu = torch.empty(layout.n_weights).uniform_(-0.04, 0.04)
    network = MixtureMlp(layout, recipe.prior_of_weights(), BATCH, mu, torch.full_like(mu, recipe.rho_start))
    noise = StepNoise(1)
    network.draw(noise)

    def ours() -> None:
        network.backpropagate(x, y, 1.0)
        network.descend(1 / N_BATCHES, RATE, noise)

    train = Split("random", x, y, torch.arange(BATCH))
    plain = PlainSeed(BlundellSgd(hidden_units=units), train, TASK, FitAlone(0, torch.device("cpu"), None, None))
    public, products = PublicStyle(recipe), Products(layout, x)
    a, b, c = (torch.zeros(layout.n_weights) for _ in range(3))

    def memory() -> None:
        for _ in range(3):  # an addition reads two vectors and writes one; the pass moves nine
            torch.add(a, b, out=c)

    return {
        "ours": ours,
        "pass": lambda: network.descend(1 / N_BATCHES, RATE, noise),
        "sgd": lambda: plain.step(x, y, noise),
        "public": lambda: public.step(x, y),
        "products": products.step,
        "memory": memory,
    }


def line(units: int, steps: int = STEPS, rounds: int = ROUNDS) -> list[str | Number]:
    """Return the row of the table for one number of hidden units."""
    timed = subjects(units)
    found: dict[str, list[float]] = {name: [] for name in timed}
    for call in timed.values():
        call()  # the first call compiles and fills caches
    for _ in range(rounds):
        for name, call in timed.items():
            start = time.perf_counter()
            for _ in range(steps):
                call()
            found[name].append(1e3 * (time.perf_counter() - start) / steps)
    limits = [a + b for a, b in zip(found["products"], found["memory"], strict=True)]
    ratios = [(found["ours"], found["sgd"]), (found["public"], found["ours"]), (limits, found["ours"])]
    return [
        str(units),
        *(Number(statistics.median(values), THREE) for values in found.values()),
        *(Number(statistics.median([a / b for a, b in zip(*pair, strict=True)]), THREE) for pair in ratios),
    ]


def _measure(given: argparse.Namespace) -> Table:
    others = OtherLoad(torch.get_num_threads())
    lines: Sequence[Sequence[str | Number]] = [line(units) for units in given.approaches]
    caption = (
        f"Milliseconds of a step on {BATCH} rows, median of {ROUNDS} rounds of {STEPS} steps, in turn. Pass: our pass "
        "over the weights alone. Public: torch.distributions and autograd. Products, memory: what the step's matrix "
        "products alone take, and moving the pass's nine vectors; limit: both together. Targets: "
        f"{'; '.join(f'{name} {text}' for name, text in TARGETS.items())}."
    )
    title = "A training step of Bayes by Backprop with a scale mixture"
    return Table("blundell_steps", title, caption, COLUMNS, lines, notes(others.reasons()))


def main() -> int:
    """Measure, write the table and print it; return the exit code."""
    return run("blundell_steps", "A training step of blundell_bbb, by units.", (400, 1200), _measure, kind=count)


if __name__ == "__main__":
    sys.exit(main())
