"""Canonical JSON and what is hashed: keys of fits and measurements, streams' names, and the seal of a record.

A sealed line is one line of JSON that begins with the SHA-256 of its content: the form of a record, alone in a file or
in an archive. It is `{"sha256":"HASH",...}`. HASH is that of the same line without this field, so that a reader hashes
the bytes as they are and decodes them once.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from bench.core.errors import DataCorrupt, StoreError
from bench.core.files import read_file
from bench.core.text import one_line

LARGEST_RECORD = 32 << 20  # bytes; the largest of a full run has 0.13 MB
LONGEST_QUOTE = 200  # characters that an error quotes
OLDER = "version 0.1 of this suite reads it (commit 6127c84f)"
_START, _END = b'{"sha256":"', b'",'
_HASH = slice(len(_START), len(_START) + 64)


class Sealed(Protocol):
    """What all sealed contents have: the version of their fields."""

    @property
    def schema(self) -> int:
        """Return the version of the fields."""


T = TypeVar("T", bound=Sealed)
OLD_METRIC = (b"/sure_promised@", b"/sure_expected@")  # a metric's name in older records, and its name today


class OlderForm(StoreError):
    """A file was written by an older version of this suite."""


class _Head(msgspec.Struct):
    schema: int


def plain(value: object) -> object:
    """Return the value in types of JSON: NaN and infinities as None, tuples and arrays as lists, structs as objects."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, msgspec.Struct):
        return plain(msgspec.to_builtins(value, enc_hook=plain))
    to_list = getattr(value, "tolist", None)  # arrays and NumPy's numbers have it
    if to_list is not None:
        return plain(to_list())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def canonical(value: object) -> str:
    """Return JSON text that is the same for equal values."""
    return _text(plain(value))


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: object) -> str:
    """Return the SHA-256 of the canonical JSON."""
    return digest_of_json(plain(value))


def digest_of_json(value: object) -> str:
    """Return `digest` of a value that was read from JSON, in half the time, because it has JSON's types already."""
    return hashlib.sha256(_text(value).encode()).hexdigest()


def stream_seed(seed: int, name: str, *index: int) -> int:
    """Return the 63-bit seed of stream `name` with integer indices, for run seed `seed`."""
    text = "/".join([str(seed), name, *map(str, index)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def seal(content: object) -> bytes:
    """Return a struct or mapping as a sealed line, with null for NaN and infinity; an old seal is replaced."""
    fields = plain(content)
    assert isinstance(fields, dict), "only what has fields can be sealed"
    body = canonical({key: value for key, value in fields.items() if key != "sha256"}).encode()
    return _START + hashlib.sha256(body).hexdigest().encode() + _END + body[1:] + b"\n"


def unseal(line: bytes, kind: type[T], what: str, schema: int, remedy: str) -> T:
    """Return the content of a sealed line.

    Args:
        line: the bytes, with or without the end of the line.
        kind: the type of the content; its fields bound every value.
        what: the file, for errors.
        schema: the only version of the fields that is read.
        remedy: what a user can do.

    Raises:
        OlderForm: an older version of this suite wrote it.
        StoreError: its hash does not fit, or its fields are not those of the type.
    """
    line = line.removesuffix(b"\n")
    body = b"{" + line[_HASH.stop + len(_END) :]
    is_sealed = line.startswith(_START) and hashlib.sha256(body).hexdigest().encode() == line[_HASH]
    try:
        if not is_sealed:
            raise StoreError(_unsealed(line, what, schema, remedy))
        found = msgspec.json.decode(line.replace(*OLD_METRIC), type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        if is_sealed and _schema(line) not in (None, schema):
            raise StoreError(f"{what} has schema {_schema(line)}; this version reads {schema}: {remedy}") from error
        raise StoreError(f"{what} does not have the fields of this version: {shorten(error)}; {remedy}") from error
    if found.schema != schema:
        raise StoreError(f"{what} has schema {found.schema}; this version reads {schema}: {remedy}")
    return found


def _unsealed(line: bytes, what: str, schema: int, remedy: str) -> str:
    """Return why a line without a fitting seal is refused; raises OlderForm for one of an older version."""
    found = _schema(line)
    if found is not None and found < schema:
        raise OlderForm(f"{what} has schema {found}; this version reads {schema}, {OLDER}: {remedy}")
    if not line.startswith(_START):
        return f"{what} is not a sealed line of this suite: {remedy}"
    return f"{what} was changed after it was written (its hash does not fit): {remedy}"


def _schema(line: bytes) -> int | None:
    try:
        return msgspec.json.decode(line, type=_Head).schema
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def read_sealed(path: Path, kind: type[T], what: str, schema: int, remedy: str, below: Path | None = None) -> T:
    """Read and check a file of one sealed line, wherever it lies; `below`: see `files.opened_folder`.

    Raises:
        StoreError: it cannot be read, or `unseal` refuses it.
    """
    try:
        line = read_file(path, LARGEST_RECORD, below=below)
    except DataCorrupt as error:
        raise StoreError(f"{what} {error}") from error
    return unseal(line, kind, f"{what} {path}", schema, remedy)


def shorten(value: object) -> str:
    """Return a value as one line of bounded length, for an error."""
    return one_line(str(value), LONGEST_QUOTE)
