"""How many times as fast as the documents' code ours was meant to be."""

from __future__ import annotations

from pathlib import Path

from bench.core.toml import TomlTable, read_toml
from bench.judge.claims import PUBLISHED

TARGETS = PUBLISHED.parent / "speed_targets.toml"
CONDITIONS = ("cpu", "float32")  # device and precision that the targets are for


class _Targets(TomlTable, frozen=True):
    train: dict[str, float]
    predict: dict[str, float]


def load_targets(path: Path = TARGETS) -> dict[tuple[str, str], float]:
    """Return the target ratio by approach and what ("train", "predict"); raises ConfigError that names the file."""
    found = read_toml(path, _Targets, "speed targets")
    tables = {"train": found.train, "predict": found.predict}
    return {(name, what): ratio for what, ratios in tables.items() for name, ratio in ratios.items()}
