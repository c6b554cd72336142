"""Figures of fault tests on disk: RESULTS/faults/NAME.json, sealed by their hash; the report reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.core import environment
from bench.core.errors import StoreError
from bench.core.files import write_atomically
from bench.core.sealed import has_seal, read_json, seal

SCHEMA = 1
NAMES = ("kills", "planted", "together", "fuzz", "soak")


def write(results: Path, name: str, figures: Mapping[str, Any], seed: int, threads: int) -> Path:
    """Write the figures of one kind of test in the place of older ones; raises StoreError."""
    made = {
        "schema": SCHEMA,
        "name": name,
        "seed": seed,
        "figures": dict(figures),
        "provenance": {"made": environment.now(), **environment.describe(threads)},
    }
    path = results / "faults" / f"{name}.json"
    write_atomically(path, (json.dumps(seal(made), indent=1, sort_keys=True, allow_nan=False) + "\n").encode())
    return path


def read(path: Path) -> dict[str, Any]:
    """Read and check the figures of one kind; raises StoreError that names the file."""
    found = read_json(path, "figures")
    if not isinstance(found, dict) or found.get("schema") != SCHEMA or not isinstance(found.get("figures"), dict):
        raise StoreError(f"{path} holds no figures of this version; make them again with python -m bench faults")
    if not has_seal(found):
        raise StoreError(f"figures {path} were changed after they were written (the hash does not fit)")
    return found


def read_all(results: Path) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return the files that can be trusted by name (see NAMES), and what is wrong with the others."""
    found, problems = {}, []
    for name in NAMES:
        path = results / "faults" / f"{name}.json"
        if path.exists():
            try:
                found[name] = read(path)
            except StoreError as error:
                problems.append(str(error))
    return found, problems
