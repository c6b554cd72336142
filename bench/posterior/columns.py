"""The methods of a task's column, and the file of those that are trained.

A trained method is one sealed line of RESULTS/posterior/TASK-methods.jsonl. Each is added as soon as it is there, under
a lock, beside those that other processes have added: a kill loses the training at work. A line of another definition of
task, reference or method stays, but counts nowhere; the method is trained again, and its new line replaces the old one.
A fit that diverged has a line too, which says why; what a missing package left out has none.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path

import msgspec
import torch

from bench.core import environment
from bench.core.canonical import digest, seal, unseal
from bench.core.errors import ConfigError, Diverged, StoreError
from bench.core.files import is_there, read_file, write_atomically
from bench.core.locks import Busy, lock
from bench.core.records import Provenance
from bench.core.toml import Text, TomlTable, read_toml
from bench.posterior.reference import FOLDER, Reference, find
from bench.posterior.tasks import Task, TaskData, all_tasks, load

FILE = Path(__file__).with_name("methods.toml")
SCHEMA = 1
LARGEST = 16 << 20  # bytes of a file of lines; a line has 5 kB
TRIES, WAIT = 1200, 0.05  # to lock the file, and seconds between two; it is held for milliseconds
MOST_ROUNDED = 0.01  # share by which whole rows may change the weight of a KL
NOT_RETRAINED = " (not retrained)"  # ends the name of a model that is trained already
HMC = "hmc"  # the line of the reference itself: how well it predicts
NLL, ACCURACY, AUROC, RMSE = "nll", "accuracy", "auroc predictive entropy", "rmse"

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

    def rows_for_kl(self, n_train: int) -> int:
        """Return the number of rows to tell an approach, which divides its KL by it, so that the KL counts `kl_weight`.

        Raises:
            ConfigError: rounding would change the weight by more than one percent.
        """
        rows = max(1, round(n_train / self.kl_weight))
        if abs(rows * self.kl_weight / n_train - 1) > MOST_ROUNDED:
            raise ConfigError(
                f"kl_weight = {self.kl_weight:g} of '{self.title}' is not near {n_train} rows / a whole number; "
                f"give {n_train / rows:g}"
            )
        return rows

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
    seconds: float  # of CPU
    why: str  # it diverged; "" if there are metrics
    made: Provenance


Lines = Mapping[tuple[str, int], Trained]
"""Lines by name and seed."""


def given_name(name: str) -> str:
    """Return the method's name of a model that is trained already: it is measured once, and no place ranks it."""
    return f"{name}{NOT_RETRAINED}"


def is_given(name: str) -> bool:
    """Return whether a method is a model that was trained already."""
    return name.endswith(NOT_RETRAINED)


def quality_of_hmc(column: Column) -> Mapping[str, float]:
    """Return how well the reference itself predicts, SET/METRIC; nothing if it was not measured."""
    found = column.stored(lambda _: None)
    return found[HMC, 0].metrics if (HMC, 0) in found else {}


def stored_columns(results: Path) -> list[Column]:
    """Return the columns of the tasks that have trained methods in a results folder."""
    found = []
    for name, task in all_tasks().items():
        if is_there(results / FOLDER / f"{name}-methods.jsonl"):
            found.append(Column.of(name, task, results, None))
    return found


@cache
def methods() -> Mapping[str, Mapping[str, Method]]:
    """Return the methods by name, of each kind of task; raises ConfigError if methods.toml cannot be used."""
    return read_toml(FILE, dict[str, dict[str, Method]], "methods of the columns", "restore it from the repository")


@dataclass(frozen=True)
class Column:
    """A task with its rows, its reference and the file of its trained methods."""

    name: str
    task: Task
    load: Callable[[], TaskData]  # a table of what is stored needs no rows
    reference: Reference
    path: Path
    prior_sd: float  # of every weight and bias; of a regression, whose methods learn whitened parameters, 1

    @cached_property
    def data(self) -> TaskData:
        """Return the rows; raises DataMissing, DataCorrupt and MissingFramework as `tasks.load`."""
        return self.load()

    @classmethod
    def of(cls, name: str, task: Task, results: Path, data_dir: Path | None) -> Column:
        """Return the column of a task.

        Raises:
            ConfigError: there is no reference, or a classification's prior is not the same for all weights.
            StoreError: see `reference.find`.
        """
        sds = {*task.weight_sds, *task.bias_sds} if task.kind == "classification" else {1.0}
        if len(sds) > 1:
            raise ConfigError(
                f"task '{name}' has no single prior for all weights and biases, which most methods need; "
                "take digits or mnist14-sd1"
            )
        reference = find(name, task, results)
        path = results / FOLDER / f"{name}-methods.jsonl"
        return cls(name, task, partial(load, task, data_dir), reference, path, sds.pop())

    @property
    def methods(self) -> Mapping[str, Method]:
        """Return the methods of tasks of this kind, by name."""
        return methods()[self.task.kind]

    def method(self, name: str) -> Method:
        """Return a method; for another name, the approach of this name as it is, with 100 draws."""
        return self.methods.get(name) or Method(title=name, approach=name, draws=100, values={}, choices={})

    def definition(self, method: Method | None = None) -> str:
        """Return a hash of all that decides a method's numbers, or the reference's, but code and seed."""
        untitled = HMC if method is None else msgspec.structs.replace(method, title="")
        return digest([self.task.definition, self.reference.about.arrays, untitled])

    def line(self, name: str, chosen: dict[str, Value], seed: int, measure: Callable[[], dict[str, float]]) -> Trained:
        """Return what `measure` finds, or why the training diverged, as a line of the file."""
        start = time.process_time()
        try:
            metrics, why = measure(), ""
        except Diverged as error:
            metrics, why = {}, str(error)
        seconds = time.process_time() - start
        made = msgspec.structs.replace(environment.describe(torch.get_num_threads()), measured=environment.now())
        definition = self.definition(None if name == HMC else self.method(name))
        return Trained(SCHEMA, definition, name, seed, chosen, metrics, seconds, why, made)

    def add(self, *lines: Trained) -> dict[tuple[str, int], Trained]:
        """Write lines into the file, in the place of those of the same name and seed; return all that `stored` does.

        Lines that other processes have added stay, and those of other definitions; damaged ones, which `stored` tells
        of, are left out.

        Raises:
            StoreError: the file cannot be written, or another process writes it for too long.
        """
        results = self.path.parent.parent
        for _ in range(TRIES):
            try:
                with lock(results, digest(["methods", self.name])):
                    kept = {(one.method, one.seed): line for line, one in self._read(lambda _: None)}
                    kept |= {(one.method, one.seed): seal(one).removesuffix(b"\n") for one in lines}
                    write_atomically(self.path, b"".join(line + b"\n" for line in kept.values()), self.path.parent)
                    return self.stored(lambda _: None)
            except Busy:
                time.sleep(WAIT)
        raise StoreError(f"another process has written {self.path} for {TRIES * WAIT:.0f} seconds; try again")

    def stored(self, warn: Tell) -> dict[tuple[str, int], Trained]:
        """Return the trained methods of today's definitions by name and seed; `warn` is told of all other lines."""
        found, others = {}, []
        definition = cache(lambda name: self.definition(None if name == HMC else self.method(name)))
        for _, one in self._read(warn):
            if one.definition == definition(one.method):
                found[one.method, one.seed] = one
            else:
                others.append(one.method)
        if others:
            warn(
                f"{len(others)} lines of {self.path} are of another definition of task, reference or method, and count "
                f"nowhere ({', '.join(dict.fromkeys(others))}); train or score these again"
            )
        return found

    def _read(self, warn: Tell) -> Iterator[tuple[bytes, Trained]]:
        """Give each intact line, and what it says; `warn` is told of each damaged one."""
        for line in read_file(self.path, LARGEST).splitlines() if is_there(self.path) else []:
            try:
                yield line, unseal(line, Trained, f"a line of {self.path}", SCHEMA, "train or score it again")
            except StoreError as error:
                warn(str(error))
