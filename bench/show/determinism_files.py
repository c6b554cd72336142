"""What was found repeatable, on disk: one sealed JSON file for each approach."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.core.errors import StoreError
from bench.core.files import write_atomically
from bench.core.sealed import has_seal, read_json

SCHEMA = 1
FIELDS = ("schema", "approach", "outcome", "reason", "conditions", "provenance")


def write(results: Path, record: Mapping[str, Any]) -> Path:
    """Write a record and return its path; a new one of the same approach replaces it."""
    path = results / "determinism" / f"{record['approach']}.json"
    write_atomically(path, (json.dumps(record, indent=1, sort_keys=True, allow_nan=False) + "\n").encode())
    return path


def read_all(results: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Return all records that can be trusted, and what is wrong with the others."""
    records, problems = [], []
    for path in sorted((results / "determinism").glob("*.json")):
        try:
            records.append(_read(path))
        except StoreError as error:
            problems.append(str(error))
    return records, problems


def _read(path: Path) -> dict[str, Any]:
    record = read_json(path, "report")
    if not isinstance(record, dict) or any(field not in record for field in FIELDS) or record["schema"] != SCHEMA:
        raise StoreError(f"{path} is no report of this version; make it again with python -m bench determinism --write")
    if not has_seal(record):
        raise StoreError(f"{path} was changed after it was written (its hash does not fit)")
    return record
