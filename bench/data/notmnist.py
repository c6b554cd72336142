"""Read the 459 not-MNIST letters of chopra2018, and check the SHA-256 of their pixels.

Three forms are accepted: the arrays that `data fetch` stores (`notmnist459.npz`), a zip of PNG files (the public
repository's archive, or a part of it), and a folder of PNG files. In the last two, folders A to J have the images of
each letter. A zip is read in memory; nothing is unpacked to the disk.
"""

from __future__ import annotations

import io
import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.core.files import corrupt, read_file
from bench.data.files import check_hash, find_copy
from bench.data.manifest import DatasetManifest

Bytes = npt.NDArray[np.uint8]

LETTERS = "ABCDEFGHIJ"
SIDE = 28
MAX_ARCHIVE_BYTES = 32 << 20  # the repository's archive has about 5 MB, a notebook included
MAX_PNG_BYTES = 65536  # the largest has under 1 kB
MAX_NPY_HEADER = 4096
PNG_START = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"  # signature, then length and type of the first chunk
IMAGE_MEMBER = re.compile(rf"(?:.*/)?([{LETTERS}])/([^/.][^/]*\.png)")

# The errors of the standard library and Pillow on a damaged or hostile zip or PNG.
BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, RuntimeError, struct.error, LookupError)
BROKEN_PNG = (*BROKEN_ZIP, SyntaxError, TypeError)

_Reader = Callable[[], bytes]


def load(manifest: DatasetManifest, data_dir: Path | None = None) -> tuple[Bytes, Bytes]:
    """Return images uint8 [459, 28, 28], upright, and labels uint8 [459] (A = 0 ... J = 9).

    The search goes through `data_dir`, $BNN_BENCH_NOTMNIST and the repository's folder, in this order. The notebook of
    chopra2018 transposes the images; here only its protocol does.

    Raises:
        DataMissing: there is no copy; the message says how to get one.
        DataCorrupt: a copy holds other images.
    """
    return load_from(find_copy(manifest, data_dir), manifest)


def load_from(copy: Path, manifest: DatasetManifest) -> tuple[Bytes, Bytes]:
    """Return images and labels from a stored copy, a zip or the folder that holds A-J, as `load` does."""
    if os.path.isdir(copy):
        return _decoded(_folder_members(copy), str(copy), manifest)
    return load_archive(read_file(copy, MAX_ARCHIVE_BYTES, manifest.how), str(copy), manifest)


def load_archive(data: bytes, where: str, manifest: DatasetManifest) -> tuple[Bytes, Bytes]:
    """Return images and labels from the bytes of a zip or npz file, as `load` does; errors call the file `where`."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except BROKEN_ZIP as error:
        raise corrupt(where, f"not a zip file ({error})", "a zip or npz file", manifest.how) from error
    with archive:
        members = {member.filename: member for member in archive.infolist()}

        def reader(name: str, limit: int) -> _Reader:
            return lambda: _read_member(archive, members[name], limit, where, manifest.how)

        if "images.npy" in members and "labels.npy" in members:
            # A .npy file is a header and the array's bytes. Shape and hash of the bytes are known: skip the header.
            sizes = {key: math.prod(file.shape) for key, file in manifest.files.items()}
            images, labels = (reader(f"{key}.npy", size + MAX_NPY_HEADER)()[-size:] for key, size in sizes.items())
            return _checked(images, labels, where, manifest)
        pngs = {
            (match[1], match[2]): reader(name, MAX_PNG_BYTES)
            for name in members
            if (match := IMAGE_MEMBER.fullmatch(name))
        }
        return _decoded(pngs, where, manifest)


def stored(images: Bytes, labels: Bytes) -> bytes:
    """Return the bytes of the npz file that `data fetch` keeps."""
    file = io.BytesIO()
    np.savez_compressed(file, images=images, labels=labels)
    return file.getvalue()


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, limit: int, where: str, remedy: str) -> bytes:
    place = f"{where}/{member.filename}"
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise corrupt(place, f"compression {member.compress_type}", "none or deflate", remedy)
    try:
        with archive.open(member) as file:
            data = file.read(limit + 1)
    except BROKEN_ZIP as error:
        raise corrupt(place, f"it cannot be read ({error})", "a whole member", remedy) from error
    if len(data) > limit:
        raise corrupt(place, f"more than {limit:,} bytes", f"at most {limit:,}", remedy)
    return data


def _folder_members(folder: Path) -> dict[tuple[str, str], _Reader]:
    def reader(path: Path) -> _Reader:
        return lambda: read_file(path, MAX_PNG_BYTES)

    paths = [path for letter in LETTERS for path in folder.glob(f"{letter}/*.png") if not path.name.startswith(".")]
    return {(path.parent.name, path.name): reader(path) for path in paths}


def _decoded(pngs: dict[tuple[str, str], _Reader], where: str, manifest: DatasetManifest) -> tuple[Bytes, Bytes]:
    if len(pngs) != manifest.n_rows:
        raise corrupt(where, f"{len(pngs)} PNG files in folders A-J", f"{manifest.n_rows}", manifest.how)
    order = sorted(pngs)  # by letter, then by file name
    images = b"".join(pixels(pngs[key](), f"{where}/{'/'.join(key)}", manifest.how) for key in order)
    return _checked(images, bytes(LETTERS.index(letter) for letter, _ in order), where, manifest)


def pixels(png: bytes, where: str, remedy: str) -> bytes:
    """Return the 784 grey levels of a PNG file; check its size before decoding."""
    from PIL import Image  # here: the stored arrays do not need it

    if png[:16] != PNG_START or png[16:24] != struct.pack(">II", SIDE, SIDE):
        raise corrupt(where, "not a PNG of 28x28 pixels", "one", remedy)
    try:
        with Image.open(io.BytesIO(png), formats=["PNG"]) as image:
            return image.convert("L").tobytes()
    except BROKEN_PNG as error:
        raise corrupt(where, f"broken PNG ({error})", "a whole PNG", remedy) from error


def _checked(images: bytes, labels: bytes, where: str, manifest: DatasetManifest) -> tuple[Bytes, Bytes]:
    arrays = []
    for key, content in (("images", images), ("labels", labels)):
        file = manifest.file(key)
        check_hash(content, file.sha256, f"{where} ({key})", manifest.how)
        arrays.append(np.frombuffer(content, np.uint8).reshape(file.shape))
    return arrays[0], arrays[1]
