"""Small networks of ours and of the documents, for tests of throughput."""

import dataclasses

import torch

from bench.interface import Split, Task
from bench.plan.recipes import build, profile, resolve
from bench.plan.registry import manifest
from benchmarks.throughput import documents
from benchmarks.throughput.documents import DocumentCode
from benchmarks.throughput.training import Subject
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
SMALL = {  # fields of ours
    "dropout_fcn": {"hidden": (8, 8, 8)},
    "pyro_hidden_layer": {"n_hidden": 8},
    "pyro_random_module": {"n_hidden": 8},
    "mlp": {"width": 8},
    "linear_bbb": {"hidden_units": 8},
    "mxnet_bbb": {"hidden_units": 8},
}
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


def code_of(name: str, train: Split) -> DocumentCode:
    class_of(name)
    return documents.DOCUMENTS_CODE[name](train, 0, SIZES[name])
