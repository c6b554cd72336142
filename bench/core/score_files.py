"""Files of per-row scores: one for each record that a run writes, and one archive for each approach that is shipped.

Both are NPZ files. The arrays of an archive begin with the first letters of their record's key, such as
`671f403d/mnist/votes`. A record has a hash of its scores, which depends on the arrays alone, not on their file.
"""

from __future__ import annotations

import hashlib
import io
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bench.core.canonical import canonical
from bench.core.errors import DataCorrupt
from bench.core.files import opened_file
from bench.core.row_scores import Scores, check_scores

LARGEST_SCORES = 256 << 20  # bytes of one record's scores, unpacked; those of a full run have 1 MB
LARGEST_ARCHIVE = 1 << 30  # bytes of an archive
_MEMBER = ".npy"

# The errors of NumPy and the standard library on damaged archives; NumPy parses a member's header as Python text.
BROKEN = (
    *(OSError, ValueError, EOFError, LookupError, MemoryError, RuntimeError, TypeError, AttributeError),
    *(DataCorrupt, zipfile.BadZipFile, zlib.error, SyntaxError, tokenize.TokenError),
)


def scores_hash(scores: Scores) -> str:
    """Return the SHA-256 over names, types, shapes and bytes of the arrays."""
    described = [[name, scores[name].dtype.str, list(scores[name].shape)] for name in sorted(scores)]
    hasher = hashlib.sha256(canonical(described).encode())
    for name in sorted(scores):
        hasher.update(scores[name].tobytes())
    return hasher.hexdigest()


def packed(scores: Scores) -> bytes:
    """Return the content of an NPZ file: the same bytes for the same arrays."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(scores):
            member = io.BytesIO()
            np.save(member, scores[name], allow_pickle=False)
            info = zipfile.ZipInfo(f"{name}{_MEMBER}")  # without the time: the bytes depend on the arrays alone
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, member.getvalue())
    return buffer.getvalue()


def read_scores(path: Path, prefix: str, below: Path) -> Scores:
    """Return the arrays of a file whose names begin with `prefix`, without it; {} if there are none.

    Raises one of `BROKEN` if they cannot be read or do not have the form of `check_scores`.
    """
    found = read_arrays(path, prefix, below, LARGEST_SCORES)
    check_scores(found)
    return found


def read_arrays(path: Path, prefix: str, below: Path | None, most: int) -> Scores:
    """Return arrays as `read_scores` does, of any form, if they have at most `most` bytes unpacked."""
    found = {}
    with opened_file(path, below) as file:
        if file.seek(0, io.SEEK_END) > LARGEST_ARCHIVE:
            raise ValueError(f"it has more than {LARGEST_ARCHIVE:,} bytes")
        with zipfile.ZipFile(file) as archive:
            members = [one for one in archive.infolist() if one.filename.startswith(prefix)]
            size = sum(member.file_size for member in members)
            if size > most:
                raise ValueError(f"they have {size:,} bytes unpacked; at most {most:,} are read")
            for member in members:
                array: object = np.load(io.BytesIO(archive.read(member)), allow_pickle=False)
                if not isinstance(array, np.ndarray):  # a member may itself be an archive
                    raise ValueError(f"'{member.filename}' is not an array")
                found[member.filename.removeprefix(prefix).removesuffix(_MEMBER)] = array
    return found


def merged(by_prefix: Mapping[str, Scores]) -> bytes:
    """Return the content of an archive of the scores of several records, by prefix."""
    return packed({f"{prefix}{name}": one for prefix, scores in by_prefix.items() for name, one in scores.items()})
