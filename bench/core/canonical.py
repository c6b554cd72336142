"""Canonical JSON and its hash: the keys of fits and measurements, and the seal of a record."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping

import msgspec


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
