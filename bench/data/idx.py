"""Reader of IDX files, the format of MNIST: strict, bounded, gzip or plain.

An IDX file is two zero bytes, a byte for the type (8: unsigned byte), a byte for the number of dimensions, the
dimensions as big-endian 32-bit integers, and the content (Y. LeCun, "The MNIST database of handwritten digits").
Whether a file is compressed is read from its first bytes, never from its name.
"""

from __future__ import annotations

import hashlib
import math
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.core.files import corrupt, read_file

Bytes = npt.NDArray[np.uint8]

GZIP_MAGIC = b"\x1f\x8b"
UNSIGNED_BYTE = 8
MAX_DIMENSIONS = 3


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
