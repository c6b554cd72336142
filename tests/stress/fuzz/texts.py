"""Targets among the texts of the repository: the reported numbers, and the manifests of approaches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bench.core.errors import ConfigError
from bench.judge.claims import PUBLISHED, load_claims, measured_key, print_interval
from bench.plan.manifests import read_manifest
from bench.plan.registry import manifest_folder
from tests.stress.fuzz.damage import damaged
from tests.stress.fuzz.engine import Target

ROWS = 6  # of published.csv in one input; all of them are read the same way
CLAIM_WORDS = (b",", b'"', b"\n", b"epoch:1", b"step:5000", b"1e999", b"1e-999999999999999999999", b"nan", b"1_0")
MANIFEST_WORDS = (
    b"[recipes]\n",
    b"recipes = 3\n",
    b"corrections = [[]]\n",
    b"[corrections.x]\n",
    b"capabilities = [1]\n",
)


def text_targets(folder: Path) -> list[Target]:
    """Return the targets that read texts."""
    manifests = [path.read_bytes() for path in sorted(manifest_folder().glob("*.toml"))]
    return [
        Target("published.csv", damaged(_claims(), CLAIM_WORDS), _claims_reader(folder / "published.csv"), share=10),
        Target(
            "manifests of approaches", damaged(manifests, MANIFEST_WORDS), _manifest_reader(folder / "approach.toml"), 4
        ),
    ]


def _claims() -> list[bytes]:
    header, *rows = PUBLISHED.read_bytes().splitlines(keepends=True)
    return [b"".join([header, *rows[start : start + ROWS]]) for start in range(0, len(rows), 10 * ROWS)]


def _claims_reader(path: Path) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        path.write_bytes(data)
        for claim in load_claims(path):
            interval = print_interval(claim)
            if interval.low > interval.high:
                raise AssertionError("the numbers that print as reported are none")
            measured_key(claim)

    return read


def _manifest_reader(path: Path) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        path.write_bytes(data)
        found = read_manifest(path)
        if not found.recipes:
            raise ConfigError(f"manifest {path.name} has no recipe")

    return read
