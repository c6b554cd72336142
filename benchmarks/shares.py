"""Where the time of a training step goes, ours and the documents': python -m benchmarks.shares [APPROACH ...].

Writes results/tables/shares. PyTorch's profiler runs over blocks of our real fit and of the document's own steps, in
turn with blocks without profiler, which say how long a step takes. Needs the data and, for some minutes, a quiet
machine. The profiler does not see MXNet's operators, so that approaches on MXNet are left out.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from bench.core.errors import ConfigError
from bench.core.load import OtherLoad
from bench.core.noise import compiled_loops
from bench.core.reasons import Reason
from bench.core.text import THREE, Digits
from bench.core.timing import Stopwatch
from bench.plan.registry import manifest
from bench.show.table import Number, Table
from benchmarks.command import notes, run
from benchmarks.throughput import yardsticks
from benchmarks.throughput.blocks import MatrixProduct, as_documented, time_block
from benchmarks.throughput.measure import make_subject
from benchmarks.throughput.table import Request
from benchmarks.throughput.training import BlockContext, Subject, steps_of_a_block
from benchmarks.throughput.yardsticks import Yardstick

ROUNDS = 5  # blocks of each side with the profiler, and as many without
BLOCK_S = 0.5
SHARE = Digits(decimals=2)
PRODUCTS, RANDOM, OPTIMISER, PASSES, REST = (
    "matrix products",
    "random numbers",
    "optimiser",
    "compiled passes",
    "other operators",
)
KINDS = (PRODUCTS, RANDOM, PASSES, OPTIMISER, REST)
OPERATORS = {  # by the operator's name without its namespace and a last underscore
    PRODUCTS: {"mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "_addmm_activation"},
    RANDOM: {"normal", "uniform", "bernoulli", "random", "randperm", "exponential", "multinomial", "native_dropout"},
}
RANDOM_LOOPS = {"fill_words", "fill_normals"}
MODULES = ("compiled", "compiled_layers", "compiled_mixture")  # modules of `bench.core` with compiled loops
MARK = "compiled::"  # in the profiler, the start of the name of such a loop
COLUMNS = ("approach", "whose", "step, ms", "with profiler, ms", *KINDS, "Python and framework", "rate of the products")
CAPTION = (
    "Shares of a training step's time, ours and the document's, blocks of both in turn: medians over {rounds} "
    "blocks with PyTorch's profiler, whose own cost is the difference between the two columns of milliseconds; as "
    "many blocks go without. Matrix products: one that adds to its result counts as a whole. Compiled passes: our "
    "loops over all weights, for draws, gradients and their Adam. Optimiser: what PyTorch's optimisers call. Other "
    "operators: activations, losses, element-wise work, copies. Python and framework: all else, autograd's own work "
    "and most of the profiler's among it. Rate of the products: the operations that our step needs, over the time "
    "that its products took and the rate of a large (2048 x 2048) product between the blocks: what the shapes of "
    "layers and batches leave of it."
)


@dataclass
class Profiled:
    """Seconds of a step in each block of one side."""

    plain: list[float] = field(default_factory=list)  # without profiler
    whole: list[float] = field(default_factory=list)  # with profiler
    parts: list[dict[str, float]] = field(default_factory=list)  # with profiler, by kind of work

    def add(self, seconds: float, parts: dict[str, float], n_steps: int) -> None:
        """Keep a block of `n_steps` steps with profiler."""
        self.whole.append(seconds / n_steps)
        self.parts.append({kind: part / n_steps for kind, part in parts.items()})

    def shares(self, kind: str) -> list[float]:
        """Return each profiled block's share of one kind of work."""
        return [parts.get(kind, 0.0) / whole for parts, whole in zip(self.parts, self.whole, strict=True)]

    def line(self, approach: str, whose: str, rate: Number | str) -> list[str | Number]:
        """Return the row of the table; `rate` is the rate of the step's products over that of a large product."""
        times = [Number(1e3 * statistics.median(seconds), THREE) for seconds in (self.plain, self.whole)]
        blocks = [self.shares(kind) for kind in KINDS]
        blocks.append([1 - sum(shares) for shares in zip(*blocks, strict=True)])
        return [approach, whose, *times, *(Number(statistics.median(shares), SHARE) for shares in blocks), rate]


def kind_of(names: Sequence[str]) -> str | None:
    """Return the kind of work of an event; None if it does no work of these kinds itself.

    `names`: of the event and its callers, innermost first.
    """
    if names[0].startswith(MARK):
        return RANDOM if names[0].removeprefix(MARK) in RANDOM_LOOPS else PASSES
    namespace, _, operator = names[0].partition("::")
    if namespace != "aten":
        return None
    if any(name.startswith("Optimizer.step") for name in names):
        return OPTIMISER
    operator = operator.removesuffix("_")
    return next((kind for kind, known in OPERATORS.items() if operator in known), REST)


def seconds_of_kinds(events: Iterable[Any]) -> dict[str, float]:
    """Return the seconds of each kind of work; an event counts without the events that it called."""
    found: Counter[str] = Counter()
    for event in events:
        kind = kind_of([each.name for each in _with_callers(event)])
        if kind:
            found[kind] += event.self_cpu_time_total / 1e6  # from microseconds
    return dict(found)


def _with_callers(event: Any) -> Iterator[Any]:
    while event is not None:
        yield event
        event = event.cpu_parent


@contextmanager
def marked_loops() -> Iterator[None]:
    """Make the compiled loops visible to the profiler inside the `with`."""
    modules = [loops for name in MODULES if (loops := compiled_loops(name)) is not None]
    plain = [(loops, name, each) for loops in modules for name, each in vars(loops).items() if _is_loop(each)]
    for loops, name, function in plain:
        setattr(loops, name, _marked(name, function))
    try:
        yield
    finally:
        for loops, name, function in plain:
            setattr(loops, name, function)


def _is_loop(value: object) -> bool:
    return getattr(value, "__qualname__", "") == "loop.<locals>.call"


def _marked(name: str, function: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(function)
    def call(*arguments: Any) -> None:
        with record_function(f"{MARK}{name}"):
            function(*arguments)

    return call


def compare(
    subject: Subject, yardstick: Yardstick, product: MatrixProduct, rounds: int = ROUNDS, block_s: float = BLOCK_S
) -> tuple[Profiled, Profiled, list[float]]:
    """Return our blocks, the document's, and the seconds of the large product after each of our profiled blocks."""
    n_ours, n_document = steps_of_a_block(subject, yardstick, product, block_s)
    ours, document = Profiled(), Profiled()
    products: list[float] = []
    watch = Stopwatch(subject.device, yardstick.settle)
    running: list[profile] = []  # the profiler of our block, if it has one

    def between() -> None:
        seconds = context.seconds[-1]
        if running:
            ours.add(seconds, _stopped(running.pop()), n_ours)
            products.append(time_block(watch, product, 1))
            with as_documented(subject.device), yardstick.session():
                document.plain.append(time_block(watch, yardstick.step, n_document) / n_document)
            return
        if len(context.seconds) > 1:  # the first warms up
            ours.plain.append(seconds / n_ours)
        with as_documented(subject.device), yardstick.session():
            profiler = _started()
            seconds = time_block(watch, yardstick.step, n_document)
            document.add(seconds, _stopped(profiler), n_document)
        if len(context.seconds) <= 2 * rounds:
            running.append(_started())

    context = BlockContext(subject.seed, subject.device, n_ours, Stopwatch(subject.device, yardstick.settle), between)
    with marked_loops():
        dataclasses.replace(subject.approach, epochs=1 + 2 * rounds).fit(subject.train, subject.task, context)
    del document.whole[0], document.parts[0]  # the first block warmed up
    return ours, document, products


def _started() -> profile:
    profiler = profile(activities=[ProfilerActivity.CPU])
    profiler.start()
    return profiler


def _stopped(profiler: profile) -> dict[str, float]:
    profiler.stop()
    return seconds_of_kinds(profiler.events() or [])  # type: ignore[no-untyped-call]  # PyTorch gives it no types


def products_rate(ours: Profiled, products: Sequence[float], step_flops: float, product_flops: float) -> float:
    """Return the rate of our step's products over the rate of the large product: median over the rounds."""
    return statistics.median(
        (step_flops / parts[PRODUCTS]) / (product_flops / seconds)
        for parts, seconds in zip(ours.parts, products, strict=True)
    )


def lines(name: str) -> list[list[str | Number]]:
    """Return the two rows of the table for an approach."""
    subject = make_subject(Request(name))
    yardstick = yardsticks.YARDSTICKS[name](subject.train, subject.seed)
    product = MatrixProduct(subject.device)
    ours, document, products = compare(subject, yardstick, product)
    reached = products_rate(ours, products, yardstick.training_flops(subject.batch_size), product.flops)
    return [ours.line(name, "ours", Number(reached, SHARE)), document.line(name, "document", "")]


def names() -> list[str]:
    """Return the approaches with a yardstick that do not run on MXNet."""
    return [name for name in yardsticks.names() if "mxnet" not in manifest(name).requires]


def table(found: Sequence[Sequence[str | Number]], load: Sequence[Reason]) -> Table:
    """Return the table of these rows; `load`: see `notes`."""
    title = "Where the time of a training step goes"
    return Table("shares", title, CAPTION.format(rounds=ROUNDS), COLUMNS, found, notes(load))


def main() -> int:
    """Measure, write the table and print it; return the exit code."""
    return run("shares", "Where a step's time goes.", names(), _measure)


def _measure(given: argparse.Namespace) -> Table:
    chosen = yardsticks.choose(given.approaches)
    for name in chosen:
        if name not in names():
            raise ConfigError(f"{name} runs on MXNet, whose operators PyTorch's profiler does not see; leave it out")
    others = OtherLoad(torch.get_num_threads())
    found = [line for name in chosen for line in lines(name)]
    return table(found, others.reasons())


if __name__ == "__main__":
    sys.exit(main())
