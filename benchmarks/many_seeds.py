"""Seeds that train together beside the same seeds one after the other: python -m benchmarks.many_seeds [APPROACH ...].

Times short fits in turn: all seeds together, then each alone, then together again.
Groups have 8 seeds, the most that a run trains together on a CPU (`bench.plan.computations`), and 16. Needs the data
and, for some minutes, a quiet machine.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence

import torch

from bench.core.environment import OtherLoad
from bench.core.reasons import Reason
from bench.core.timing import Stopwatch
from bench.plan.registry import manifest
from bench.show.table import Number, Table
from benchmarks.command import add_device, counts, notes, run
from benchmarks.throughput import documents
from benchmarks.throughput.measure import make_subject, median_and_range
from benchmarks.throughput.training import BlockContext, Subject

GROUPS = (8, 16)  # seeds
STEPS, ROUNDS = 10, 5
COLUMNS = (
    "approach",
    "seeds",
    "together, s",
    "together, range",
    "one after the other, s",
    "one after the other, range",
    "as long as fits alone",
    "as long as fits alone, range",
)
CAPTION = (
    "{steps} training steps of each seed, in one computation and in a fit each, in turn: medians and ranges over "
    "{rounds} rounds of the second epoch of such fits. As long as fits alone: how many single fits take the time of "
    "all together, median and range of the rounds' own."
)


def names() -> list[str]:
    """Return the approaches of the documents that fit several seeds at once."""
    return [name for name in documents.names() if "fit_many" in manifest(name).capabilities]


def seconds(subject: Subject, seeds: Sequence[int], steps: int, epochs: int = 2) -> float:
    """Train the seeds in epochs of `steps` steps, and return the seconds of the last epoch; earlier epochs warm up."""
    contexts = [BlockContext(seed, subject.device, steps, Stopwatch(subject.device), lambda: None) for seed in seeds]
    approach = dataclasses.replace(subject.approach, epochs=epochs)
    if len(contexts) == 1:
        approach.fit(subject.train, subject.task, contexts[0])
    else:
        rows = torch.arange(len(subject.train)).expand(len(contexts), -1)
        approach.fit_many(subject.train, rows, subject.task, contexts)
    return contexts[0].seconds[-1]  # the first context's clock stops when all seeds have taken their steps


def line(subject: Subject, name: str, n_seeds: int, steps: int = STEPS, rounds: int = ROUNDS) -> list[str | Number]:
    """Return the row of the table for `n_seeds` seeds."""
    together, alone = [], []
    for _ in range(rounds):
        together.append(seconds(subject, range(n_seeds), steps))
        alone.append(sum(seconds(subject, [seed], steps) for seed in range(n_seeds)))
    fits = [n_seeds * both / single for both, single in zip(together, alone, strict=True)]
    return [name, str(n_seeds), *median_and_range(together), *median_and_range(alone), *median_and_range(fits)]


def table(lines: Sequence[Sequence[str | Number]], load: Sequence[Reason]) -> Table:
    """Return the table of these rows; `load`: see `notes`."""
    caption = CAPTION.format(steps=STEPS, rounds=ROUNDS)
    return Table("many_seeds", "Seeds that train together", caption, COLUMNS, lines, notes(load))


def main() -> int:
    """Measure and print the table; return the exit code."""
    return run("many_seeds", "Seeds that train together.", names(), _measure, _options)


def _options(parser: argparse.ArgumentParser) -> None:
    add_device(parser)
    parser.add_argument("--groups", type=counts, default=GROUPS, help="seeds of each group, a list (default: 8,16)")


def _measure(given: argparse.Namespace) -> Table:
    others = OtherLoad(torch.get_num_threads())
    lines = []
    for name in documents.choose(given.approaches):
        subject = make_subject(name, str(given.device))
        lines += [line(subject, name, n_seeds) for n_seeds in given.groups]
    return table(lines, others.reasons())


if __name__ == "__main__":
    sys.exit(main())
