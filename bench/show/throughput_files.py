"""Measured speeds on disk: one sealed JSON file for each approach, what, device, precision and number of draws."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.core.errors import StoreError
from bench.core.sealed import has_seal, read_json, seal, write_atomically

SCHEMA = 1
NAMING = ("approach", "what", "device", "precision", "draws")
FIELDS = ("schema", *NAMING, "outcome", "reason", "rounds", "rows", "timings", "provenance")


def path_of(results: Path, record: Mapping[str, Any]) -> Path:
    """Return where a record lives; a new one of the same name replaces it."""
    name = "__".join(str(record[field]).replace(":", "") for field in NAMING)
    return results / "throughput" / f"{name}.json"


def write(results: Path, record: Mapping[str, Any]) -> Path:
    """Write a record, sealed by its hash, and return its path; raises StoreError."""
    path = path_of(results, record)
    text = json.dumps(seal(record), indent=1, sort_keys=True, allow_nan=False)
    write_atomically(path, f"{text}\n".encode())
    return path


def read(path: Path) -> dict[str, Any]:
    """Read and check one record; raises StoreError that names the file and what is wrong with it."""
    record: dict[str, Any] = read_json(path, "speeds")
    if not isinstance(record, dict) or any(field not in record for field in FIELDS) or record["schema"] != SCHEMA:
        raise StoreError(f"{path} holds no speeds of this version; python -m benchmarks.throughput measures them")
    if not has_seal(record):
        raise StoreError(f"speeds {path} were changed after they were written (the hash does not fit)")
    return record


def read_all(results: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Return all records that can be trusted, and what is wrong with the others."""
    records, problems = [], []
    for path in sorted((results / "throughput").glob("*.json")):
        try:
            records.append(read(path))
        except StoreError as error:
            problems.append(str(error))
    return records, problems
