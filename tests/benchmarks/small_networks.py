"""Small networks of ours and of the documents, for tests of throughput."""

import dataclasses

import torch

from bench.interface import Split, Task
from bench.plan.recipes import build, profile, resolve
from bench.plan.registry import manifest
from benchmarks.throughput import yardsticks
from benchmarks.throughput.training import Subject
from benchmarks.throughput.yardsticks import Yardstick
from tests.implementations.made_up import class_of

CPU = torch.device("cpu")
SIZES = {  # of small networks, for the documents' code
    "dropout_fcn": (20, 12, 12, 12, 10),
    "pyro_hidden_layer": (20, 12, 12, 12, 10),
    "pyro_random_module": (20, 12, 10),
    "mlp": (20, 12, 12, 10),
    "linear_bbb": (20, 12, 12, 10),
    "mxnet_bbb": (20, 12, 10),
}
SMALL = {name: yardstick.smallest for name, yardstick in yardsticks.YARDSTICKS.items()}
APPROACHES = sorted(SIZES)


def rows_of(n: int, n_inputs: int = 20) -> Split:
    source = torch.Generator().manual_seed(0)
    x, y = torch.rand(n, n_inputs, generator=source), torch.randint(10, (n,), generator=source)
    return Split("train60k", x, y, torch.arange(n))


def subject_of(name: str, n_rows: int = 300) -> Subject:
    class_of(name)
    approach = build(manifest(name), resolve(manifest(name), "published"), profile("full"))
    approach = dataclasses.replace(approach, **SMALL[name])
    train = rows_of(n_rows)
    return Subject(approach, Task("classification", 10, n_rows, 20), train, rows_of(40), seed=0, device=CPU)


def yardstick_of(name: str, train: Split) -> Yardstick:
    class_of(name)
    return yardsticks.YARDSTICKS[name](train, 0, SIZES[name])
