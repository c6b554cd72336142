"""The files of data sets: where they lie on this machine, and a reader of IDX files, the format of MNIST.

A file is looked for in a folder that the user gives, then in the repository's folder. The reader is strict and bounded.
An IDX file is two zero bytes, a byte for the type (8: unsigned byte), a byte for the number of dimensions, the
dimensions as big-endian 32-bit integers, and the content (Y. LeCun, "The MNIST database of handwritten digits").
Whether a file is compressed is read from its first bytes, never from its name.
"""

from __future__ import annotations

import hashlib
import math
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.core.errors import ConfigError, DataMissing
from bench.core.files import corrupt, is_there, read_file
from bench.core.project import TOP
from bench.data.manifest import TASKS, DataFile, DatasetManifest, datasets_folder
from bench.data.manifest import manifest as read

Bytes = npt.NDArray[np.uint8]

GZIP_MAGIC = b"\x1f\x8b"
UNSIGNED_BYTE = 8
MAX_DIMENSIONS = 3
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
    """Return the IDX file, compressed or not, in the first place that has it, or None; 7-zip writes ".idx"."""
    names = (file.gz, plain := file.gz.removesuffix(".gz"), plain.replace("-idx", ".idx"))
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


def read_idx(path: Path, shape: Sequence[int], sha256: str, remedy: str = "") -> Bytes:
    """Return the content of an IDX file of bytes, compressed or not, as a read-only array.

    Args:
        path: the file.
        shape: the known dimensions; they also limit how many bytes are read and decompressed.
        sha256: the known SHA-256 of the decompressed bytes, header included.
        remedy: what a user can do about a broken file; ends the error's line.

    Raises:
        DataCorrupt: the file cannot be read, or is not this IDX file.
    """
    return decode_idx(read_file(path, file_limit(shape), remedy), str(path), shape, sha256, remedy)


def decode_idx(data: bytes, where: str, shape: Sequence[int], sha256: str, remedy: str = "") -> Bytes:
    """Return the content of an IDX file given as bytes, as `read_idx` does; errors call the file `where`."""
    raw = _decompressed(data, where, _n_bytes(shape), remedy)
    array = _parse(raw, where, remedy)
    if array.shape != tuple(shape):
        raise corrupt(where, f"dimensions {list(array.shape)}", f"{list(shape)}", remedy)
    check_hash(raw, sha256, where, remedy)
    return array


def file_limit(shape: Sequence[int]) -> int:
    """Return the most bytes that a file of this content may have, compressed or not."""
    return 2 * _n_bytes(shape) + 65536  # gzip never doubles its input, except for tiny files


def check_hash(content: bytes, sha256: str, where: str, remedy: str = "") -> None:
    """Raise `DataCorrupt` unless the content's SHA-256 is the known one."""
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise corrupt(where, f"SHA-256 {found[:16]}... of its content", f"{sha256[:16]}...", remedy)


def _n_bytes(shape: Sequence[int]) -> int:
    return 4 + 4 * len(shape) + math.prod(shape)


def _decompressed(data: bytes, where: str, limit: int, remedy: str) -> bytes:
    """Return the IDX bytes; decompress at most `limit` + 1 bytes."""
    raw = data
    if data[:2] == GZIP_MAGIC:
        stream = zlib.decompressobj(wbits=31)  # 31: a gzip header and trailer, whose checksum is checked at the end
        try:
            raw = stream.decompress(data, limit + 1)
        except zlib.error as error:
            raise corrupt(where, f"broken gzip ({error})", "a whole gzip file", remedy) from error
        if len(raw) <= limit and not stream.eof:
            raise corrupt(where, f"gzip cut short after {len(raw):,} bytes of content", "a whole gzip file", remedy)
        if stream.unused_data:
            raise corrupt(where, f"{len(stream.unused_data):,} bytes after the gzip stream", "none", remedy)
    if len(raw) > limit:
        raise corrupt(where, f"more than {limit:,} bytes of content", f"at most {limit:,}", remedy)
    return raw


def _parse(raw: bytes, where: str, remedy: str) -> Bytes:
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] != UNSIGNED_BYTE or not 1 <= raw[3] <= MAX_DIMENSIONS:
        found = f"a file that starts with {raw[:4].hex(' ')}" if raw else "an empty file"
        raise corrupt(where, found, "an IDX file of bytes, which starts with 00 00 08 and 01 to 03", remedy)
    n_dimensions = raw[3]
    header = 4 + 4 * n_dimensions
    if len(raw) < header:
        raise corrupt(where, f"an IDX header of {len(raw)} bytes", f"{header} for {n_dimensions} dimensions", remedy)
    shape = struct.unpack_from(f">{n_dimensions}I", raw, 4)
    size = math.prod(shape)
    if size == 0 or len(raw) - header != size:
        found = f"dimensions {list(shape)} with {len(raw) - header:,} bytes of content"
        raise corrupt(where, found, f"{size:,} bytes" if size else "no empty dimension", remedy)
    return np.frombuffer(raw, np.uint8, offset=header).reshape(shape)
