"""Where data are looked for: a folder that the user gives, then the repository's; nothing is ever downloaded here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from bench.core.errors import ConfigError, DataMissing
from bench.core.files import is_there
from bench.core.project import TOP
from bench.data.manifest import DataFile, DatasetManifest, datasets_folder


def folders(manifest: DatasetManifest, data_dir: Path | None) -> list[Path]:
    """Return the folders that may hold a data set, in the order of the search.

    `data_dir` may hold DATASET/ as the repository's `datasets` does, or be the root of torchvision's own copy.

    Raises:
        ConfigError: `data_dir` is given and is not a folder.
    """
    found: list[Path] = []
    if data_dir is not None:
        if not os.path.isdir(data_dir):  # unlike Path.is_dir, False for what may not be looked at
            raise ConfigError(f"the data folder {data_dir} is not a folder; give one that holds {manifest.name}/")
        found += layouts(data_dir, manifest)
    return [*found, datasets_folder() / manifest.name]


def layouts(root: Path, manifest: DatasetManifest) -> list[Path]:
    """Return where a data set lies below `root`: as in the repository, or as torchvision keeps it."""
    return [root / manifest.name] + ([root / manifest.torchvision / "raw"] if manifest.torchvision else [])


def find_in(places: Sequence[Path], file: DataFile) -> Path | None:
    """Return the first place's IDX file, compressed or not, or None."""
    names = (file.gz, file.gz.removesuffix(".gz"))
    return next((folder / name for folder in places for name in names if is_there(folder / name)), None)


def find(manifest: DatasetManifest, file: DataFile, data_dir: Path | None) -> Path:
    """Return the path of an IDX file.

    Raises:
        DataMissing: it is nowhere; the message says how to get it.
    """
    places = folders(manifest, data_dir)
    path = find_in(places, file)
    if path is None:
        raise missing(manifest, file.gz, places)
    return path


def missing(manifest: DatasetManifest, what: str, places: Sequence[Path]) -> DataMissing:
    """Make the error for a data set that is not there."""
    looked = " or ".join(_shown(place) for place in places)
    return DataMissing(f"data set '{manifest.name}' is not there: no {what} in {looked}; to get it: {manifest.how}")


def _shown(place: Path) -> str:
    """Return a place as it is told: of the repository from its top, since records keep these words."""
    return str(place.relative_to(TOP) if place.is_relative_to(TOP) else place)
