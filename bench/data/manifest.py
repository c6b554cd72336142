"""Manifests: what each data set is, under which licence, and the SHA-256 of its content (datasets/NAME.toml)."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args

import msgspec

from bench.core.errors import ConfigError, check_known
from bench.core.project import DATASETS
from bench.core.toml import Sha256, TomlTable, read_toml

FOLDER_VARIABLE = "BNN_BENCH_DATA"

OutsideSet = Literal["noise_gaussian", "noise_uniform", "fashion_mnist", "letters", "notmnist459"]
OOD_NAMES: tuple[str, ...] = get_args(OutsideSet)
OOD_LABELS = {
    "letters": "letters",
    "notmnist459": "not-MNIST",
    "fashion_mnist": "clothes",
    "noise_gaussian": "Gaussian noise",
    "noise_uniform": "uniform noise",
}
"""The names of the out-of-distribution sets in tables and figures, in the order in which they are shown."""
MEASURED_NAMES: tuple[str, ...] = ("mnist", *OOD_NAMES)
"""The data sets on which a fit is measured. They are the same for every task of `TASKS`."""


class TaskData(NamedTuple):
    """The data sets of a learning task."""

    training: str  # has the training files
    inside: str  # has the test files
    outside: tuple[str, ...]  # out of distribution


FASHION = "fashion"
TASKS = {
    "mnist": TaskData("mnist", "mnist", OOD_NAMES),
    FASHION: TaskData(
        "fashion_train",
        "fashion_mnist",
        ("noise_gaussian", "noise_uniform", "mnist", "letters", "notmnist459"),
    ),
}
ALL_NAMES = tuple(dict.fromkeys((*MEASURED_NAMES, *(task.training for task in TASKS.values()))))
"""All data sets, also those that are only learnt from."""

Shape = tuple[Annotated[int, msgspec.Meta(ge=1)], ...]


class DataFile(TomlTable, frozen=True):
    """One array of bytes of a data set."""

    shape: Shape
    sha256: Sha256  # of the decompressed IDX file, or of the bytes of an archive's array
    gz: str = ""  # name of its compressed IDX file; "" for an array of an archive


class DatasetManifest(TomlTable, frozen=True, kw_only=True):
    """What a data set is and where it comes from."""

    name: str  # of the file
    title: str
    source: str
    licence: str
    optional: bool  # if it is missing, nothing fails, and `data list` says how to get it
    kind: Literal["idx", "png-archive", "generated"]
    how: str  # how to get it, one line
    files: dict[str, DataFile] = msgspec.field(default_factory=dict)  # by key such as t10k-images; none if generated
    shape: Shape = ()  # of a generated set
    torchvision: str = ""  # class of torchvision.datasets that knows its mirrors
    url: str = ""  # address of its archive
    fonts: dict[str, str] = msgspec.field(default_factory=dict)  # fonts of drawn images, with their licences

    def __post_init__(self) -> None:
        """Raise ValueError if a generated set has no shape or has files, or if another set has no files."""
        is_whole = self.shape and not self.files if self.kind == "generated" else self.files
        if not is_whole:
            raise ValueError("a generated set has a shape and no files, any other has files")

    def file(self, key: str) -> DataFile:
        """Return a file by its key; raises ConfigError."""
        check_known(f"file in the manifest of {self.name}:", self.files, key)
        return self.files[key]

    @property
    def n_rows(self) -> int:
        """Return the number of images, over all files."""
        return self._n_images(self.files)

    @property
    def n_measured(self) -> int:
        """Return the number of images that fits are measured on, so without those of training files."""
        return self._n_images(key for key in self.files if not key.startswith("train"))

    def _n_images(self, keys: Iterable[str]) -> int:
        shapes = [self.files[key].shape for key in keys] or [self.shape]
        return sum(shape[0] for shape in shapes if len(shape) > 1)  # labels have one dimension


def datasets_folder() -> Path:
    """Return the folder of manifests and data: $BNN_BENCH_DATA, or `datasets` beside the package.

    Raises:
        ConfigError: it holds no manifests.
    """
    given = os.environ.get(FOLDER_VARIABLE)
    folder = Path(given).absolute() if given else DATASETS
    if not os.path.isfile(folder / "mnist.toml"):
        origin = f"{FOLDER_VARIABLE}={given}" if given else f"{folder}"
        raise ConfigError(f"{origin} has no mnist.toml; set {FOLDER_VARIABLE} to the repository's folder 'datasets'")
    return folder


def manifest(name: str) -> DatasetManifest:
    """Return the manifest of a data set.

    Raises:
        ConfigError: unknown name, or a manifest that cannot be used.
    """
    check_known("data set", ALL_NAMES, name)
    return _read(datasets_folder() / f"{name}.toml")


def data_hashes(task: str = "mnist") -> dict[str, str]:
    """Return the SHA-256 of every file or array that a task needs, by "data set/file", as the manifests give it."""
    names = dict.fromkeys((*MEASURED_NAMES, TASKS[task].training))
    return {f"{name}/{key}": file.sha256 for name in names for key, file in manifest(name).files.items()}


def read_data_manifest(path: Path) -> DatasetManifest:
    """Read and check a manifest, whose file is named after its data set; raises ConfigError."""
    return read_toml(path, DatasetManifest, "manifest of a data set", "restore it from the repository", name=path.stem)


_read = functools.lru_cache(maxsize=32)(read_data_manifest)
