"""Targets among files of data and text: IDX files, archives, images, reported numbers, and manifests."""

from __future__ import annotations

import gzip
import hashlib
import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from bench.core.errors import ConfigError
from bench.data import notmnist
from bench.data.files import decode_idx
from bench.data.manifest import DataFile, DatasetManifest, datasets_folder, read_data_manifest
from bench.judge.claims import PUBLISHED, load_claims, measured_key, print_interval
from bench.plan.manifests import read_manifest
from bench.plan.registry import manifest_folder
from tests.stress.fuzz.engine import Target, damaged

SHAPE = (3, 28, 28)
N_LETTERS = len(notmnist.LETTERS)
IDX_WORDS = (b"\x1f\x8b\x08", struct.pack(">HBB", 0, 8, 3))


def data_targets(folder: Path) -> list[Target]:
    """Return the targets that read data sets."""
    return [
        Target("IDX files", damaged(_idx_files(), IDX_WORDS), _read_idx, share=12),
        Target("archives", damaged(_archives(), (b"PK\x03\x04", b"PK\x01\x02", b"../A/x.png")), _read_archive, 5),
        Target("images", damaged(_pngs(), (b"IHDR", b"IDAT", b"PLTE", b"tRNS", b"iCCP", b"IEND")), _read_png, 12),
        Target("manifests of data", damaged(_manifests(), (b"[files.x]\n", b'kind = "idx"\n')), _reader(folder), 4),
    ]


def _pixels() -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.random.default_rng(0).integers(0, 256, (N_LETTERS, 28, 28), dtype=np.uint8)


def _idx_files() -> list[bytes]:
    images = struct.pack(">HBB3I", 0, 8, 3, *SHAPE) + _pixels()[: SHAPE[0]].tobytes()
    labels = struct.pack(">HBBI", 0, 8, 1, 4) + bytes(4)
    return [images, gzip.compress(images, mtime=0), labels, gzip.compress(labels, mtime=0)]


IMAGES_SHA256 = hashlib.sha256(_idx_files()[0]).hexdigest()


def _read_idx(data: bytes) -> None:
    if decode_idx(data, "fuzzed", SHAPE, IMAGES_SHA256).tobytes() != _idx_files()[0][16:]:
        raise AssertionError("other bytes than the known ones were accepted")


def _pngs() -> list[bytes]:
    found = []
    for mode in ("L", "RGB", "P", "LA", "1"):
        file = io.BytesIO()
        Image.fromarray(_pixels()[0]).convert(mode).save(file, "PNG")
        found.append(file.getvalue())
    return found


def _read_png(data: bytes) -> None:
    if len(notmnist.pixels(data, "fuzzed", "HOW")) != 28 * 28:
        raise AssertionError("an image of another size was accepted")


def _archives() -> list[bytes]:
    letters = {}
    for letter, pixels in zip(notmnist.LETTERS, _pixels(), strict=True):
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG")
        letters[f"top/not-mnist/{letter}/x.png"] = file.getvalue()
    arrays = io.BytesIO()
    np.savez(arrays, images=_pixels(), labels=np.arange(N_LETTERS, dtype=np.uint8))
    return [_zip(letters, zipfile.ZIP_DEFLATED), _zip(letters, zipfile.ZIP_STORED), arrays.getvalue()]


def _zip(members: dict[str, bytes], compression: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as made:
        for name, content in members.items():
            made.writestr(zipfile.ZipInfo(name), content, compression)
    return file.getvalue()


def _letters() -> DatasetManifest:
    labels = bytes(range(N_LETTERS))
    return DatasetManifest(
        name="ten",
        title="ten",
        source="",
        licence="",
        optional=True,
        kind="png-archive",
        how="HOW",
        files={
            "images": DataFile((N_LETTERS, 28, 28), hashlib.sha256(_pixels().tobytes()).hexdigest()),
            "labels": DataFile((N_LETTERS,), hashlib.sha256(labels).hexdigest()),
        },
    )


LETTERS = _letters()


def _read_archive(data: bytes) -> None:
    images, _ = notmnist.load_archive(data, "fuzzed", LETTERS)
    if images.tobytes() != _pixels().tobytes():
        raise AssertionError("other pixels than the known ones were accepted")


def _manifests() -> list[bytes]:
    return [path.read_bytes() for path in sorted(datasets_folder().glob("*.toml"))]


def _reader(folder: Path) -> Callable[[bytes], None]:
    path = folder / "data.toml"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        read_data_manifest(path)

    return read


ROWS = 6  # of published.csv in one input; all of them are read the same way
CLAIM_WORDS = (b",", b'"', b"\n", b"epoch:1", b"step:5000", b"1e999", b"1e-999999999999999999999", b"nan", b"1_0")
MANIFEST_WORDS = (
    b"[recipes]\n",
    b"recipes = 3\n",
    b"corrections = [[]]\n",
    b"[corrections.x]\n",
    b"capabilities = [1]\n",
)


def text_targets(folder: Path) -> list[Target]:
    """Return the targets that read texts."""
    manifests = [path.read_bytes() for path in sorted(manifest_folder().glob("*.toml"))]
    return [
        Target("published.csv", damaged(_claims(), CLAIM_WORDS), _claims_reader(folder / "published.csv"), share=10),
        Target(
            "manifests of approaches", damaged(manifests, MANIFEST_WORDS), _manifest_reader(folder / "approach.toml"), 4
        ),
    ]


def _claims() -> list[bytes]:
    header, *rows = PUBLISHED.read_bytes().splitlines(keepends=True)
    return [b"".join([header, *rows[start : start + ROWS]]) for start in range(0, len(rows), 10 * ROWS)]


def _claims_reader(path: Path) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        path.write_bytes(data)
        for claim in load_claims(path):
            interval = print_interval(claim)
            if interval.low > interval.high:
                raise AssertionError("the numbers that print as reported are none")
            measured_key(claim)

    return read


def _manifest_reader(path: Path) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        path.write_bytes(data)
        found = read_manifest(path)
        if not found.recipes:
            raise ConfigError(f"manifest {path.name} has no recipe")

    return read
