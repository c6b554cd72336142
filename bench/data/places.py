"""Find data on this machine: in a folder that the user gives, then in the repository's folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from bench.core.errors import ConfigError, DataMissing
from bench.core.files import is_there
from bench.core.project import TOP
from bench.data.manifest import TASKS, DataFile, DatasetManifest, datasets_folder
from bench.data.manifest import manifest as read

COPY_VARIABLE = "BNN_BENCH_NOTMNIST"
STORED_NAME = "notmnist459.npz"


def folders(manifest: DatasetManifest, data_dir: Path | None) -> list[Path]:
    """Return the folders that may hold a data set, in the order of the search.

    In `data_dir`, the data set's files may lie in DATASET/, as in the repository, or as torchvision keeps them.

    Raises:
        ConfigError: `data_dir` is given and is not a folder.
    """
    found: list[Path] = []
    if data_dir is not None:
        if not os.path.isdir(data_dir):  # Path.is_dir raises for a path that may not be looked at
            raise ConfigError(f"the data folder {data_dir} is not a folder; give one that holds {manifest.name}/")
        found += layouts(data_dir, manifest)
    return [*found, datasets_folder() / manifest.name]


def layouts(root: Path, manifest: DatasetManifest) -> list[Path]:
    """Return the two folders below `root` in which a data set may lie: the repository's and torchvision's."""
    return [root / manifest.name] + ([root / manifest.torchvision / "raw"] if manifest.torchvision else [])


def find_in(places: Sequence[Path], file: DataFile) -> Path | None:
    """Return the IDX file, compressed or not, in the first place that has it, or None."""
    names = (file.gz, file.gz.removesuffix(".gz"))
    return next((folder / name for folder in places for name in names if is_there(folder / name)), None)


def find(manifest: DatasetManifest, file: DataFile, data_dir: Path | None) -> Path:
    """Return the path of an IDX file.

    Raises:
        DataMissing: no place has it; the message says how to get it.
    """
    places = folders(manifest, data_dir)
    path = find_in(places, file)
    if path is None:
        raise missing(manifest, file.gz, places)
    return path


def find_copy(manifest: DatasetManifest, data_dir: Path | None) -> Path:
    """Return the file or folder that holds the images of a set that is no IDX file (notMNIST); raises DataMissing."""
    *given, own = folders(manifest, data_dir)
    variable = os.environ.get(COPY_VARIABLE)
    if variable and not is_there(Path(variable)):
        raise DataMissing(f"data set '{manifest.name}': {COPY_VARIABLE}={variable} does not exist; set it to a copy")
    places = [*given, *([Path(variable)] if variable else []), own]
    for place in places:
        copy = copy_at(place)
        if copy is not None:
            return copy
    raise missing(manifest, "copy", places)


def copy_at(place: Path) -> Path | None:
    """Return the copy at a place, or None.

    A file is a copy itself. In a folder, the copy is its stored arrays, its first zip, or the folder that holds A to J.
    """
    if not is_there(place):
        return None
    if not os.path.isdir(place):
        return place
    files = [place / STORED_NAME, *sorted(place.glob("*.zip"))]
    for candidate in files:
        if is_there(candidate):
            return candidate
    inner = [place, place / "not-mnist", *sorted(place.glob("*/not-mnist"))]
    return next((folder for folder in inner if os.path.isdir(folder / "A")), None)


def check_task_data(task: str, data_dir: Path | None) -> None:
    """Raise DataMissing if the task is not `mnist` and its training files are not there."""
    if task != "mnist":
        known = read(TASKS[task].training)
        for file in known.files.values():
            find(known, file, data_dir)


def missing(manifest: DatasetManifest, what: str, places: Sequence[Path]) -> DataMissing:
    """Make the error for a data set that is not there."""
    looked = " or ".join(_shown(place) for place in places)
    return DataMissing(f"data set '{manifest.name}' is not there: no {what} in {looked}; to get it: {manifest.how}")


def _shown(place: Path) -> str:
    """Return a place for an error; relative if it lies in the repository, because records keep the error."""
    return str(place.relative_to(TOP) if place.is_relative_to(TOP) else place)
