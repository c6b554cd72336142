"""Records sealed by their hash, which tells whether they can be trusted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from bench.core.canonical import digest, plain
from bench.core.errors import DataCorrupt, StoreError
from bench.core.files import read_file

SCHEMA = 1
NAMING = ("key", "fit_key", "approach", "recipe", "protocol", "profile", "device", "precision")
TYPES = {
    **dict.fromkeys((*NAMING, "outcome", "reason"), str),
    "seed": int,
    **dict.fromkeys(("metrics", "missing", "timings", "provenance"), dict),
    "epochs": list,
}
"""What every record holds, and of which type: a seal is no proof of form, since anyone can compute one."""
OUTCOMES = ("done", "diverged", "failed", "out-of-time", "skipped")
LARGEST_RECORD = 32 << 20  # bytes; the largest of a full run has 0.13 MB


def seal(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record with its hash in field `sha256`."""
    body = {key: value for key, value in plain(record).items() if key != "sha256"}
    return {**body, "sha256": digest(body)}


def read_json(path: Path, what: str) -> Any:
    """Return the content of a JSON file of bounded size; raises StoreError, which calls the file `what`."""
    try:
        return json.loads(read_file(path, LARGEST_RECORD).decode("utf-8"), parse_constant=_refuse)
    except (DataCorrupt, ValueError, RecursionError) as error:
        raise StoreError(f"{what} {path} cannot be read: {_short(error)}") from error


def _refuse(word: str) -> NoReturn:
    """Refuse NaN and Infinity, which JSON has not and this suite never writes: the hash takes them for null."""
    raise ValueError(f"'{word}' is no number of JSON")


def has_seal(record: Mapping[str, Any]) -> bool:
    """Return whether the record's hash is that of its content."""
    try:
        return record.get("sha256") == digest({key: value for key, value in record.items() if key != "sha256"})
    except RecursionError:  # nested more deeply than anything that this suite writes
        return False


def read_record(path: Path) -> dict[str, Any]:
    """Read and check one record; raises StoreError that names the file and what is wrong with it."""
    record = read_json(path, "record")
    if not isinstance(record, dict) or not {"schema", *TYPES} <= record.keys():
        raise StoreError(f"record {path} is not a record of this suite")
    if record["schema"] != SCHEMA:
        raise StoreError(f"record {path} has schema {_short(record['schema'])}; this version reads {SCHEMA}")
    if record["outcome"] not in OUTCOMES:
        raise StoreError(f"record {path} has outcome '{_short(record['outcome'])}'; known: {', '.join(OUTCOMES)}")
    if not has_seal(record):
        raise StoreError(f"record {path} was changed after it was written (its hash does not fit)")
    bad = [field for field, kind in TYPES.items() if not _is(record[field], kind)] or _misformed(record)
    if bad:
        raise StoreError(f"record {path}: field '{bad[0]}' has not the form that this suite writes")
    return record


def _misformed(record: Mapping[str, Any]) -> list[str]:
    """Return the sections that do not hold what is asked of them."""
    return [
        *(["metrics"] if not all(map(_is_number, record["metrics"].values())) else []),
        *(["missing"] if not all(isinstance(reason, str) for reason in record["missing"].values()) else []),
        *(["epochs"] if not all(map(_is_epoch, record["epochs"])) else []),
        *(["timings"] if not all(_is_timing(*item) for item in record["timings"].items()) else []),
        *(["provenance"] if not isinstance(record["provenance"].get("versions", {}), dict) else []),
    ]


def _is(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    """Return whether it is a number that a float can hold, a truth value, or nothing."""
    return value is None or isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**63)


def _is_timing(name: str, value: object) -> bool:
    return isinstance(value, str) if name == "reason" else _is_number(value)


def _is_epoch(entry: object) -> bool:
    return isinstance(entry, dict) and _is(entry.get("epoch"), int) and all(map(_is_number, entry.values()))


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 200 else f"{text[:200]}..."
