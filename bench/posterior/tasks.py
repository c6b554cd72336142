"""The tasks of the reference posteriors: networks, priors and rows, as tasks.toml fixes them.

A regression is split 0 of a set of `bench.uci`, standardised by its training rows. Images stay whole numbers until they
are hashed, so that a hash is the same on every machine. Images of 28 x 28 become smaller by sums over blocks: 14 x 14
by blocks of 2 x 2; 8 x 8, the size of scikit-learn's digits, by blocks of 3 x 3 of the 24 x 24 pixels in the middle,
which a digit of MNIST (at most 20 x 20) fills about as those digits fill theirs.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from bench.core.canonical import digest
from bench.core.errors import DataCorrupt, MissingFramework, check_known
from bench.core.metric_table import N_CLASSES
from bench.core.project import install
from bench.core.streams import generator
from bench.core.toml import Text, TomlTable, read_toml
from bench.data.splits import load_ood, load_split
from bench.interface import Split
from bench.measure.shifted import rotated
from bench.posterior.network import Network
from bench.uci.data import load as regression
from bench.uci.data import standardise

FILE = Path(__file__).with_name("tasks.toml")
TRAIN = "train"
DIGITS, TEST = "digits", "test"  # the test rows of a classification, and of a regression
SETS = (DIGITS, "letters", "clothes", "noise", "turned")
BYTE, COUNT = 255, 16  # the largest value of a pixel: of MNIST's images, and of scikit-learn's
MIDDLE = 24  # pixels
DEGREES = 60.0  # of the set `turned`, to the left
D_AND_I, PER_LETTER = (3, 8), 100  # D looks like 0 and I like 1; the letters A to J lie in order

Whole = NDArray[np.int64]
Floats = NDArray[np.float64]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Scale = Annotated[float, msgspec.Meta(ge=0)]


class RowSet(TomlTable, frozen=True):
    """A fixed set of rows, and the hash of `rows_hash`."""

    rows: Positive
    sha256: str


class Task(TomlTable, frozen=True, kw_only=True):
    """A task of tasks.toml, which says what the fields mean."""

    title: Text
    data: Literal["mnist", "digits", "bostonHousing", "concrete"]
    side: int = 0
    n_hidden: Positive
    activation: Literal["relu", "tanh"]
    weight_sds: tuple[Scale, Scale]
    bias_sds: tuple[Scale, Scale]
    log_noise_mean: float = 0.0
    log_noise_sd: Scale = 1.0
    draws: Positive
    warmup: Positive
    minutes: Scale
    sets: dict[str, RowSet]

    def __post_init__(self) -> None:
        """Raise ValueError if the sets are not those of the data."""
        if self.kind == "regression" and self.sets.keys() != {TRAIN, TEST}:
            raise ValueError(f"the sets of a regression are {TRAIN} and {TEST}")
        if self.kind == "classification" and not {TRAIN, DIGITS} <= self.sets.keys() <= {TRAIN, *SETS}:
            raise ValueError(f"sets must have {TRAIN} and {DIGITS}, and may have {', '.join(SETS[1:])}")

    @property
    def kind(self) -> Literal["classification", "regression"]:
        """Return what is learnt."""
        return "classification" if self.data in ("mnist", "digits") else "regression"

    @property
    def definition(self) -> str:
        """Return a hash of all that a reference depends on: rows, network, prior and budget."""
        return digest(msgspec.structs.replace(self, title="-", minutes=0.0))

    def network(self, n_inputs: int) -> Network:
        """Return the network for rows of a length."""
        fan_in = (n_inputs**-0.5, self.n_hidden**-0.5)
        first, second = (given or scaled for given, scaled in zip(self.weight_sds, fan_in, strict=True))
        return Network(
            n_inputs=n_inputs,
            n_hidden=self.n_hidden,
            n_outputs=N_CLASSES if self.kind == "classification" else 1,
            activation=self.activation,
            weight_sds=(first, second),
            bias_sds=self.bias_sds,
            kind=self.kind,
            log_noise_mean=self.log_noise_mean,
            log_noise_sd=self.log_noise_sd,
        )


@dataclass(frozen=True)
class TaskData:
    """The rows of a task.

    Classification: x float32 [N, n] in [0, 1], y int64 [N] (-1: no class). Regression: features and targets float32,
    standardised by the training rows; a target is `centre` + `unit` * y in its own unit.
    """

    train: Split
    sets: Mapping[str, Split]
    centre: float = 0.0
    unit: float = 1.0

    def targets(self) -> Floats:
        """Return the test targets of a regression in their own unit, [N]."""
        return self.in_own_unit(self.sets[TEST])

    def in_own_unit(self, split: Split) -> Floats:
        """Return the targets of a regression's rows in their own unit, [N]."""
        return self.centre + self.unit * split.y.double().numpy()


def all_tasks() -> dict[str, Task]:
    """Return the tasks by name; raises ConfigError if tasks.toml cannot be used."""
    return read_toml(FILE, dict[str, Task], "tasks of the reference posteriors", "restore it from the repository")


def task_named(name: str) -> Task:
    """Return a task; raises ConfigError if none has the name."""
    known = all_tasks()
    check_known("task", known, name)
    return known[name]


def load(task: Task, data_dir: Path | None = None) -> TaskData:
    """Return the rows of a task.

    Raises:
        DataMissing, DataCorrupt: a data set is not there, or its rows are not those that tasks.toml fixes.
        MissingFramework: the digits come with scikit-learn, which is not installed.
    """
    if task.kind == "regression":
        return _regression(task, data_dir)
    found = {}
    for name, rows in rows_of(task, data_dir).items():
        _check(task, name, rows.images, rows.labels, rows.one)
        x = (rows.images.reshape(len(rows.images), -1) / rows.one).astype(np.float32)
        found[name] = Split(name, *map(torch.from_numpy, (x, rows.labels, rows.places)))
    return TaskData(found.pop(TRAIN), found)


def _regression(task: Task, data_dir: Path | None) -> TaskData:
    whole = regression(task.data, data_dir)
    split = whole.splits[0]
    for name, rows in ((TRAIN, split.train), (TEST, split.test)):
        _check(task, name, whole.x[rows], whole.y[rows])
    x, y = (standardise(part[split.train], part[split.test]) for part in (whole.x, whole.y))
    train, test = (
        Split(name, *map(torch.tensor, (features.astype(np.float32), targets.astype(np.float32), rows)))
        for name, features, targets, rows in zip((TRAIN, TEST), x[:2], y[:2], split, strict=True)
    )
    return TaskData(train, {TEST: test}, float(y.mean), float(y.sd))


def _check(task: Task, name: str, x: Whole | Floats, y: Whole | Floats, one: int = 1) -> None:
    """Raise DataCorrupt if a set's rows are not those of tasks.toml."""
    is_now, fixed = rows_hash(x, y, one), task.sets[name].sha256
    if is_now != fixed:
        raise DataCorrupt(
            f"the rows of set '{name}' ({task.title}) have SHA-256 {is_now[:16]}...; expected {fixed[:16]}... as "
            f"{FILE.name} has it; `python -m bench data verify` checks the data, git restores the file"
        )


def rows_hash(x: Whole | Floats, y: Whole | Floats, one: int) -> str:
    """Return the SHA-256 of images in units of 1 / `one`, or of features, and of labels or targets."""
    found = hashlib.sha256(f"{one} {x.shape}".encode())
    for part in (x, y):
        found.update(part.astype(part.dtype.newbyteorder("<")).tobytes())
    return found.hexdigest()


@dataclass(frozen=True)
class Rows:
    """Images as whole numbers."""

    images: Whole  # [N, h, w]
    one: int  # the number that stands for 1
    labels: Whole  # [N]; -1: no class
    places: Whole  # [N], in the data set

    def at(self, index: Whole) -> Rows:
        """Return the rows at some positions."""
        return dataclasses.replace(
            self, images=self.images[index], labels=self.labels[index], places=self.places[index]
        )

    def spread(self, most: int) -> Rows:
        """Return every k-th row from the first on, as many as `most`, with the largest k that allows it."""
        return self.at(np.arange(most) * (len(self.images) // most))

    def turned(self) -> Rows:
        """Return the images turned by `DEGREES`, with values rounded to whole numbers."""
        images = np.rint(rotated(self.images.astype(np.float32), DEGREES)).astype(np.int64)
        return dataclasses.replace(self, images=images)

    def small(self, side: int) -> Rows:
        """Return images of `side` x `side`, as the head of this file says."""
        images = self.images
        if side == images.shape[1]:
            return self
        if MIDDLE % side == 0:
            margin = (images.shape[1] - MIDDLE) // 2
            images = images[:, margin : margin + MIDDLE, margin : margin + MIDDLE]
        block = images.shape[1] // side
        sums = images.reshape(len(images), side, block, side, block).sum((2, 4))
        return dataclasses.replace(self, images=sums, one=self.one * block**2)


def rows_of(task: Task, data_dir: Path | None = None) -> dict[str, Rows]:
    """Return the rows of a classification's sets, whose hashes are not checked."""
    learn, test = _mnist(data_dir) if task.data == "mnist" else _sklearn(task.sets[TRAIN].rows)
    sources: dict[str, Callable[[int], Rows]] = {
        TRAIN: lambda most: learn.at(np.arange(most)),
        DIGITS: test.spread,
        "turned": lambda most: test.spread(most).turned(),
        "letters": lambda most: _letters(data_dir).spread(most),
        "clothes": lambda most: _whole(load_ood("fashion_mnist", 0, data_dir)).spread(most),
        "noise": lambda most: _noise(most, task.side, learn.one),
    }
    return {name: sources[name](one.rows).small(task.side) for name, one in task.sets.items()}


def _whole(split: Split) -> Rows:
    images = np.rint(split.x.numpy().reshape(-1, 28, 28) * BYTE).astype(np.int64)
    return Rows(images, BYTE, split.y.numpy(), split.rows.numpy())


def _mnist(data_dir: Path | None) -> tuple[Rows, Rows]:
    return _whole(load_split("train60k", 0, data_dir)), _whole(load_split("test10k", 0, data_dir))


def _sklearn(n_train: int) -> tuple[Rows, Rows]:
    """Return scikit-learn's first rows, and all others: 8 x 8 counts of up to 16 black pixels."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise MissingFramework(f"the digits of this task come with scikit-learn; {install('libraries')}") from error
    images, labels = load_digits(return_X_y=True)
    whole = images.reshape(-1, 8, 8).astype(np.int64)
    rows = Rows(whole, COUNT, labels.astype(np.int64), np.arange(len(labels)))
    return rows.at(rows.places[:n_train]), rows.at(rows.places[n_train:])


def _letters(data_dir: Path | None) -> Rows:
    letters = _whole(load_ood("letters", 0, data_dir))
    return letters.at(np.flatnonzero(~np.isin(letters.places // PER_LETTER, D_AND_I)))


def _noise(n: int, side: int, one: int) -> Rows:
    """Return images of the task's own size with uniform pixels, independent of each other."""
    images = torch.randint(one + 1, (n, side, side), generator=generator(0, "ood", 1))
    return Rows(images.numpy(), one, np.full(n, -1), np.arange(n))
