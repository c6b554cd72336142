"""JSON that contains the hash of its content. The hash shows whether the file was changed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from bench.core.canonical import digest_of_json, plain
from bench.core.errors import DataCorrupt, StoreError
from bench.core.files import read_file
from bench.core.text import one_line

LARGEST_RECORD = 32 << 20  # bytes; the largest of a full run has 0.13 MB
LARGEST_INTEGER = 2**63  # this integer and larger ones are refused
LONGEST_INTEGER = 21  # characters; a text of this length or longer is refused before it is converted
LONGEST_QUOTE = 200  # characters that an error quotes


def seal(content: object) -> dict[str, object]:
    """Return a struct or mapping in types of JSON, with its hash in field `sha256`."""
    fields = plain(content)
    assert isinstance(fields, dict), "only what has fields can be sealed"
    body = {key: value for key, value in fields.items() if key != "sha256"}
    return {**body, "sha256": digest_of_json(body)}


def has_seal(content: Mapping[str, object]) -> bool:
    """Return whether field `sha256` of a JSON object has the hash of the other fields."""
    try:
        return content.get("sha256") == digest_of_json({name: one for name, one in content.items() if name != "sha256"})
    except RecursionError:  # nested more deeply than anything that this suite writes
        return False


def read_json(path: Path, what: str, below: Path | None = None) -> object:
    """Return the content of a JSON file of bounded size; raises StoreError, which calls the file `what`."""
    try:
        text = read_file(path, LARGEST_RECORD, below=below).decode("utf-8")
        found: object = json.loads(text, parse_constant=_refuse, parse_float=_finite, parse_int=_bounded)
    except (DataCorrupt, ValueError, RecursionError) as error:
        raise StoreError(f"{what} {path} cannot be read: {shorten(error)}") from error
    return found


def _refuse(word: str) -> NoReturn:
    """Refuse NaN and Infinity: JSON does not have them, and they have the same hash as null."""
    raise ValueError(f"'{word}' is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text:.50} is too large")
    return value


def _bounded(text: str) -> int:
    value = int(text) if len(text) < LONGEST_INTEGER else LARGEST_INTEGER
    if abs(value) >= LARGEST_INTEGER:
        raise ValueError(f"the number {text:.50} is too large")
    return value


def shorten(value: object) -> str:
    """Return a value as one line of bounded length, for an error."""
    return one_line(str(value), LONGEST_QUOTE)
