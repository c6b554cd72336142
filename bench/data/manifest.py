"""Manifests: what each data set is, under which licence, and the SHA-256 of its content (datasets/NAME.toml)."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.core.errors import ConfigError, unknown_name
from bench.core.project import DATASETS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER_VARIABLE = "BNN_BENCH_DATA"

OOD_NAMES: tuple[str, ...] = ("noise_gaussian", "noise_uniform", "fashion_mnist", "letters", "notmnist459")
DATASET_NAMES: tuple[str, ...] = ("mnist", *OOD_NAMES)

KINDS = ("idx", "png-archive", "generated")


@dataclass(frozen=True)
class DataFile:
    """One array of bytes of a data set."""

    key: str  # e.g. "t10k-images"
    gz: str  # name of its compressed IDX file; "" for an array of an archive
    shape: tuple[int, ...]
    sha256: str  # of the decompressed IDX file, or of the array's bytes


@dataclass(frozen=True)
class Manifest:
    """What a data set is and where it comes from."""

    name: str
    title: str
    source: str
    licence: str
    optional: bool  # absent: a row that says how to get it, and no failure
    kind: str  # one of KINDS
    how: str  # how to get it, one line
    n_rows: int  # images, over all its files
    files: tuple[DataFile, ...]  # none if it is generated
    torchvision: str  # class of torchvision.datasets that knows its mirrors, or ""
    url: str  # address of its archive, or ""

    def file(self, key: str) -> DataFile:
        """Return the file of that key."""
        return next(file for file in self.files if file.key == key)


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


def manifest(name: str) -> Manifest:
    """Return the manifest of a data set.

    Raises:
        ConfigError: unknown name, or a manifest that cannot be used.
    """
    if name not in DATASET_NAMES:
        raise unknown_name("data set", name, DATASET_NAMES)
    return _read(datasets_folder() / f"{name}.toml")


def data_hashes() -> dict[str, str]:
    """Return the SHA-256 of every known file or array, by "data set/file"; read from the manifests only."""
    return {f"{name}/{file.key}": file.sha256 for name in DATASET_NAMES for file in manifest(name).files}


@functools.lru_cache(maxsize=32)
def _read(path: Path) -> Manifest:
    return read_manifest(path)


def read_manifest(path: Path) -> Manifest:
    """Read and check a manifest, which is named after its data set; raises ConfigError in one line."""
    try:
        return _parsed(path.stem, tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); restore it from the repository") from error
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise ConfigError(f"{path} is not a manifest of a data set: {what}; restore it from the repository") from error


def _parsed(name: str, table: Mapping[str, Any]) -> Manifest:
    files = tuple(
        DataFile(key, str(entry.get("gz", "")), tuple(map(int, entry["shape"])), str(entry["sha256"]))
        for key, entry in table.get("files", {}).items()
    )
    if table["kind"] not in KINDS:
        raise ValueError(f"kind '{table['kind']}' is none of {', '.join(KINDS)}")
    shapes = [file.shape for file in files] or [tuple(map(int, table["shape"]))]
    return Manifest(
        name=name,
        title=str(table["title"]),
        source=str(table["source"]),
        licence=str(table["licence"]),
        optional=bool(table["optional"]),
        kind=str(table["kind"]),
        how=str(table["how"]),
        n_rows=sum(shape[0] for shape in shapes if len(shape) > 1),
        files=files,
        torchvision=str(table.get("torchvision", "")),
        url=str(table.get("url", "")),
    )
