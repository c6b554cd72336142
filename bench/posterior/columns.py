"""Trains the methods of methods.toml on a task, and measures how far each is from the task's reference.

A trained method is one sealed line of RESULTS/posterior/TASK-methods.jsonl, which is written again after each training:
a kill loses the training at work. A line of another definition of task, reference or method is trained again.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import torch
from torch import Tensor

import bench.interface as contract
from bench.core import environment
from bench.core.canonical import digest, seal, unseal
from bench.core.errors import ConfigError, Diverged, MissingFramework, StoreError, check_known
from bench.core.files import is_there, read_file, write_atomically
from bench.core.metric_table import N_CLASSES
from bench.core.project import RESULTS
from bench.core.records import Provenance
from bench.core.toml import Text, TomlTable, read_toml
from bench.interface import Approach, Posterior, Split
from bench.measure.measuring import block_rows, categorical, draws_of
from bench.measure.metrics.classification import accuracy
from bench.measure.metrics.ood import auroc
from bench.measure.metrics.uncertainty import entropy
from bench.plan.registry import load_class
from bench.posterior.compare import compared
from bench.posterior.distance import Floats, log_mean
from bench.posterior.reference import FOLDER, Reference, read
from bench.posterior.tasks import DIGITS, Task, TaskData, load
from bench.run.own import FitAlone

FILE = Path(__file__).with_name("methods.toml")
SCHEMA = 1
LARGEST = 16 << 20  # bytes of a file of lines; a line has 5 kB
SEEDS = range(5)
CHOICE_SEED, HELD_OUT = 1000, 5  # the run seed of the choice; one training row in HELD_OUT is held out for it
NLL, ACCURACY, AUROC = "nll", "accuracy", "auroc predictive entropy"

Value = float | int | str | bool
Tell = Callable[[str], None]


class Method(TomlTable, frozen=True, kw_only=True):
    """A method of methods.toml, which says what the fields mean."""

    title: Text
    approach: Text
    draws: int
    values: dict[str, Value]
    choices: dict[str, list[Value]]
    kl_weight: float = 1.0
    own_prior: bool = False

    def grid(self) -> list[dict[str, Value]]:
        """Return every combination of the choices."""
        names = list(self.choices)
        return [dict(zip(names, values, strict=True)) for values in itertools.product(*self.choices.values())]


class Trained(msgspec.Struct, frozen=True):
    """A trained method: what it chose, and how far it is from the reference."""

    schema: int
    definition: str  # of task, reference and method
    method: str
    seed: int
    chosen: dict[str, Value]
    metrics: dict[str, float]  # SET/METRIC
    seconds: float
    why: str  # there are no metrics; "" if there are
    made: Provenance


def methods() -> dict[str, Method]:
    """Return the methods by name; raises ConfigError if methods.toml cannot be used."""
    return read_toml(FILE, dict[str, Method], "methods of the columns", "restore it from the repository")


@dataclass(frozen=True)
class Column:
    """A task with its rows, its reference and the file of its trained methods."""

    name: str
    task: Task
    data: TaskData
    reference: Reference
    path: Path
    prior_sd: float  # of every weight and bias

    @classmethod
    def of(cls, name: str, task: Task, results: Path, data_dir: Path | None) -> Column:
        """Return the column of a task.

        Raises:
            ConfigError: there is no reference, or the task's prior is not the same for all weights.
            DataMissing, DataCorrupt, MissingFramework, StoreError: see `tasks.load` and `reference.read`.
        """
        sds = {*task.weight_sds, *task.bias_sds}
        if len(sds) > 1:
            raise ConfigError(
                f"task '{name}' has a prior by layer ({', '.join(map(str, sorted(sds)))}), which most methods do not; "
                "take one with the same prior for all weights"
            )
        reference = read(results / FOLDER, name, task) or read(RESULTS / FOLDER, name, task)
        if reference is None:
            raise ConfigError(f"task '{name}' has no reference in {results}; make it: python -m bench posterior {name}")
        path = results / FOLDER / f"{name}-methods.jsonl"
        return cls(name, task, load(task, data_dir), reference, path, sds.pop())

    def definition(self, method: Method) -> str:
        """Return a hash of all that decides a method's numbers but code and seed."""
        return digest([self.task.definition, self.reference.about.arrays, method])

    def stored(self, warn: Tell) -> dict[tuple[str, int], Trained]:
        """Return the trained methods of today's definitions by name and seed; `warn` is told of each damaged line."""
        known = {name: self.definition(method) for name, method in methods().items()}
        found = {}
        for line in read_file(self.path, LARGEST).splitlines() if is_there(self.path) else []:
            try:
                one = unseal(line, Trained, f"a line of {self.path}", SCHEMA, "it is trained again")
            except StoreError as error:
                warn(str(error))
                continue
            if known.get(one.method) == one.definition:
                found[one.method, one.seed] = one
        return found


def train_all(column: Column, names: list[str], tell: Tell) -> dict[tuple[str, int], Trained]:
    """Train what is missing, for all seeds, and return all trained methods by name and seed.

    Args:
        column: the task.
        names: of the methods; [] for all.
        tell: is told of each training, and of what could not be read.

    Raises:
        ConfigError: an unknown method.
        StoreError: the file cannot be written.
    """
    known = methods()
    check_known("method", known, *names)
    found = column.stored(tell)
    for name in names or known:
        chosen: dict[str, Value] | None = None
        for seed in SEEDS:
            if (name, seed) in found:
                chosen = found[name, seed].chosen
                continue
            start = time.monotonic()
            try:
                chosen = best_of(column, known[name]) if chosen is None else chosen
                metrics, why = measured(column, known[name], chosen, seed), ""
            except (Diverged, MissingFramework) as error:
                metrics, why = {}, str(error)
            found[name, seed] = Trained(
                SCHEMA,
                column.definition(known[name]),
                name,
                seed,
                chosen or {},
                metrics,
                time.monotonic() - start,
                why,
                msgspec.structs.replace(environment.describe(torch.get_num_threads()), measured=environment.now()),
            )
            write_atomically(column.path, b"".join(map(seal, found.values())), column.path.parent)
            tell(f"{known[name].title}, seed {seed}: {why or described(metrics)}")
    return found


def described(metrics: Mapping[str, float]) -> str:
    """Return the two numbers of a trained method that a watcher wants."""
    return f"total variation {metrics[f'{DIGITS}/total variation']:.4f} on digits, NLL {metrics[f'{DIGITS}/{NLL}']:.4f}"


def best_of(column: Column, method: Method) -> dict[str, Value]:
    """Return the choices with the least NLL of held-out training rows."""
    grid = method.grid()
    if len(grid) == 1:
        return grid[0]
    train = column.data.train
    held = torch.arange(len(train)) % HELD_OUT == 0
    kept, left_out = train.select(~held), train.select(held)
    return min(grid, key=lambda chosen: _nll(fitted(column, method, chosen, CHOICE_SEED, kept), method, left_out))


def _nll(posterior: Posterior, method: Method, split: Split) -> float:
    logs = log_probabilities(posterior, method.draws, split)
    return float(-log_mean(logs[:, np.arange(len(split)), split.y.numpy()]).mean())


def fitted(column: Column, method: Method, chosen: Mapping[str, Value], seed: int, train: Split) -> Posterior:
    """Train a method on rows of a task; raises Diverged and MissingFramework."""
    approach = built(method, column.prior_sd, chosen)
    has_prior = any(field.name == "prior_std" for field in dataclasses.fields(approach))
    decay = 0.0 if has_prior else 1 / (len(train) * column.prior_sd**2)
    n_train = max(1, round(len(train) / method.kl_weight))  # a method divides its KL by it
    hidden = (column.task.n_hidden,)
    task = contract.Task("classification", N_CLASSES, n_train, train.x.shape[1], hidden, decay)
    return approach.fit(train, task, FitAlone(seed, torch.device("cpu"), None, None))


def built(method: Method, prior_sd: float, chosen: Mapping[str, Value]) -> Approach:
    """Return the approach of a method with its hyper-parameters and the task's prior.

    Raises:
        MissingFramework: a package that it needs is not installed.
        ConfigError: the approach lacks a hyper-parameter.
    """
    made = load_class(method.approach)
    names = [field.name for field in dataclasses.fields(made)]
    values = {**method.values, **chosen}
    check_known(f"hyper-parameter of {method.approach}", names, *values)
    if "prior_std" in names and not method.own_prior:
        values["prior_std"] = prior_sd
    return made(**values)  # type: ignore[arg-type]  # names are checked above


def measured(column: Column, method: Method, chosen: Mapping[str, Value], seed: int) -> dict[str, float]:
    """Train with one seed and return SET/METRIC: distances, and what they are compared with."""
    posterior = fitted(column, method, chosen, seed, column.data.train)
    logs = {name: log_probabilities(posterior, method.draws, split) for name, split in column.data.sets.items()}
    rows = compared(column.reference, column.data, {name: np.exp(values) for name, values in logs.items()})
    found = {f"{row.set}/{row.metric}": row.value for row in rows}
    return found | quality(column.data, logs)


def quality(data: TaskData, logs: Mapping[str, Floats]) -> dict[str, float]:
    """Return NLL and accuracy of the digits, and how well the entropy tells each other set from them.

    logs: log-probabilities by set, [S, B, K].
    """
    means = {name: log_mean(values) for name, values in logs.items()}
    labels, doubts = data.sets[DIGITS].y.numpy(), {name: entropy(mean) for name, mean in means.items()}
    found = {
        f"{DIGITS}/{NLL}": float(-means[DIGITS][np.arange(len(labels)), labels].mean()),
        f"{DIGITS}/{ACCURACY}": accuracy(np.exp(means[DIGITS]), labels),
    }
    return found | {f"{name}/{AUROC}": auroc(doubts[DIGITS], doubts[name]) for name in means if name != DIGITS}


def log_probabilities(posterior: Posterior, n_draws: int, split: Split) -> Floats:
    """Return the log-probabilities of a split's rows by draw, float64 [S, B, K]; n_draws 0: all that it keeps."""
    draws = draws_of(posterior, n_draws or posterior.n_draws or 1)
    return np.concatenate([block.double().numpy() for block in _blocks(posterior, draws, split)], axis=1)


def _blocks(posterior: Posterior, draws: range, split: Split) -> Iterator[Tensor]:
    for part in torch.split(torch.arange(len(split)), block_rows(posterior, len(draws))):
        yield categorical(posterior, split.x[part], draws, split.rows[part])
