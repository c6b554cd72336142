"""List the data sets: which are present, where, and whether they are intact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.core.errors import ConfigError, DataCorrupt, DataMissing
from bench.data import notmnist
from bench.data.files import copy_at, find, find_copy, find_in, layouts, missing, read_idx
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
    path: str = ""  # the file or folder that was read; "" if there is none

    @property
    def ok(self) -> bool:
        """Return whether the file is intact."""
        return not self.problem


def list_datasets(data_dir: Path | None = None) -> list[DatasetRow]:
    """Return one row per data set, without reading its bytes."""
    return [_row(manifest(name), data_dir) for name in ALL_NAMES]


def verify(names: Sequence[str] | None = None, data_dir: Path | None = None) -> list[DatasetCheck]:
    """Read every byte of the named data sets and compare with the known hashes.

    Args:
        names: of data sets; None for all, or with `data_dir` for all that have files there.
        data_dir: check the files below this folder alone, and not those of the repository.

    Raises:
        ConfigError: unknown name, `data_dir` is not a folder, or it has no file of any data set.
    """
    chosen = [manifest(name) for name in names or ALL_NAMES]
    if data_dir is not None and not names:
        chosen = [known for known in chosen if known.kind != "generated" and _has_files(known, data_dir)]
        if not chosen:
            raise ConfigError(f"--data-dir {data_dir} has no file of any data set; give the folder that holds mnist/")
    return [check for known in chosen for check in _checks(known, data_dir)]


def _has_files(known: DatasetManifest, data_dir: Path) -> bool:
    """Return whether any file of a data set lies below a folder."""
    places = layouts(data_dir, known)
    if known.kind == "png-archive":
        return any(map(copy_at, places))
    return any(find_in(places, file) for file in known.files.values())


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
        read = partial(notmnist.load_from, manifest=known)
        return [_check(known, "images and labels", partial(find_copy, known, data_dir), read, data_dir)]

    def reader(file: DataFile) -> Callable[[Path], object]:
        return lambda path: read_idx(path, file.shape, file.sha256, known.how)

    return [
        _check(known, key, partial(find, known, file, data_dir), reader(file), data_dir)
        for key, file in known.files.items()
    ]


def _check(
    known: DatasetManifest,
    file: str,
    finder: Callable[[], Path],
    read: Callable[[Path], object],
    data_dir: Path | None,
) -> DatasetCheck:
    """Read what is found, which counts as missing if it is not below the folder that was given."""
    path = ""
    try:
        found = finder()
        if data_dir is not None and not found.is_relative_to(data_dir):
            raise missing(known, file, layouts(data_dir, known))
        path = str(found)
        read(found)
    except (DataMissing, DataCorrupt) as error:
        return DatasetCheck(known.name, file, str(error), isinstance(error, DataMissing), known.optional, path)
    return DatasetCheck(known.name, file, optional=known.optional, path=path)
