"""List the data sets: which are present, where, and whether they are intact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.core.errors import DataCorrupt, DataMissing
from bench.data import notmnist
from bench.data.files import find, find_copy, read_idx
from bench.data.manifest import ALL_NAMES, DataFile, DatasetManifest, manifest


@dataclass(frozen=True)
class DatasetRow:
    """One data set in a list; `present` says that its files were found, not that they are intact."""

    name: str
    title: str
    present: bool
    optional: bool
    n_images: int
    size_bytes: int  # on disk; 0 if absent or generated
    licence: str
    source: str
    where: str  # the file or folder found; "" if absent or generated
    how: str  # how to get it


@dataclass(frozen=True)
class DatasetCheck:
    """The result of verifying one file of a data set."""

    name: str  # data set
    file: str  # its key in the manifest; "" for a generated set
    problem: str = ""  # one line; "" if the file is intact
    missing: bool = False  # the file does not exist; False for a broken file
    optional: bool = False  # the data set is optional, so that a missing file is not a failure

    @property
    def ok(self) -> bool:
        """Return whether the file is intact."""
        return not self.problem


def list_datasets(data_dir: Path | None = None) -> list[DatasetRow]:
    """Return one row per data set, without reading its bytes."""
    return [_row(manifest(name), data_dir) for name in ALL_NAMES]


def verify(names: Sequence[str] | None = None, data_dir: Path | None = None) -> list[DatasetCheck]:
    """Read every byte of the named data sets (all, if None) and compare with the known hashes.

    Raises:
        ConfigError: unknown name, or `data_dir` is not a folder.
    """
    return [check for name in (names or ALL_NAMES) for check in _checks(manifest(name), data_dir)]


def _row(known: DatasetManifest, data_dir: Path | None) -> DatasetRow:
    try:
        paths = _paths(known, data_dir)
        present = True
    except DataMissing:
        paths, present = [], False
    where = (paths[0].parent if len(paths) > 1 else paths[0]) if paths else ""
    return DatasetRow(
        name=known.name,
        title=known.title,
        present=present,
        optional=known.optional,
        n_images=known.n_rows,
        size_bytes=sum(map(_size, paths)),
        licence=known.licence,
        source=known.source,
        where=str(where),
        how=known.how,
    )


def _paths(known: DatasetManifest, data_dir: Path | None) -> list[Path]:
    if known.kind == "png-archive":
        return [find_copy(known, data_dir)]
    return [find(known, file, data_dir) for file in known.files.values()]


def _size(path: Path) -> int:
    try:
        files = path.rglob("*.png") if path.is_dir() else [path]
        return sum(file.stat().st_size for file in files)
    except OSError:  # `verify` reports files that cannot be read
        return 0


def _checks(known: DatasetManifest, data_dir: Path | None) -> list[DatasetCheck]:
    if known.kind == "generated":
        return [DatasetCheck(known.name, "")]
    if known.kind == "png-archive":
        return [_check(known, "images and labels", lambda: notmnist.load(known, data_dir))]

    def reader(file: DataFile) -> Callable[[], object]:
        return lambda: read_idx(find(known, file, data_dir), file.shape, file.sha256, known.how)

    return [_check(known, key, reader(file)) for key, file in known.files.items()]


def _check(known: DatasetManifest, file: str, read: Callable[[], object]) -> DatasetCheck:
    try:
        read()
    except (DataMissing, DataCorrupt) as error:
        return DatasetCheck(known.name, file, str(error), isinstance(error, DataMissing), known.optional)
    return DatasetCheck(known.name, file, optional=known.optional)
