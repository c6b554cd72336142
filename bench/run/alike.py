"""Whether two machines give the same numbers: what of code and data they have."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

from bench.core.canonical import digest
from bench.core.environment import harness_hash, source_hash
from bench.core.errors import ConfigError
from bench.data.inventory import list_datasets
from bench.data.manifest import data_hashes
from bench.plan.registry import manifests
from bench.plan.source_code import source_files


def code_and_data(approach: str, data_dir: Path | None) -> dict[str, str]:
    """Return what affects an approach's numbers on this machine: a hash of each, by a name for people.

    Only the known hashes of data files are in it. Whoever reads a file compares its bytes with its hash.
    """
    files = source_files(approach) if approach in manifests() else []
    return {
        "code of the suite": harness_hash(),
        f"code of {approach}": source_hash(files),
        "list of data files": digest(data_hashes()),
        **{f"data set '{row.name}'": "present" for row in list_datasets(data_dir) if row.present},
    }


def check_same(expected: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Raise ConfigError if this machine (`found`) would give other numbers than that of the run (`expected`)."""
    for name, value in expected.items():
        if found.get(name) != value:
            raise ConfigError(f"{socket.gethostname()} lacks the {name} of the run, or has another; put the same there")
