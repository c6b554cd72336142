"""How many times as fast as the documents' code ours was meant to be."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.core.errors import ConfigError
from bench.judge.claims import PUBLISHED

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TARGETS = PUBLISHED.parent / "speed_targets.toml"
CONDITIONS = ("cpu", "float32")  # device and precision that the targets are for


def load_targets(path: Path = TARGETS) -> dict[tuple[str, str], float]:
    """Return the target ratio by approach and what ("train", "predict"); raises ConfigError that names the file."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        return {(name, what): float(tables[what][name]) for what in ("train", "predict") for name in tables[what]}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{path} holds no targets ({error}); it has [train] and [predict], approach = ratio"
        ) from error
