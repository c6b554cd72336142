"""The options of a child process, which do not depend on its cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.plan import plugins


@dataclass(frozen=True)
class Options:
    """The same for every child process of a run."""

    root: str
    data_dir: str | None = None
    threads: int | None = None
    retain: bool = True  # store the fitted posterior for further protocols and for predict
    approaches: str = field(default_factory=plugins.path)  # path of approaches from outside
    interpreters: Mapping[str, str] = field(default_factory=dict)  # by approach, if it has one of its own
    checkpoint_every_s: float | None = None  # epochs shorter than this share a checkpoint; None: contexts' default
    memory_mib: float | None = None  # most address space of a child process
    at_once: int = 1  # fits at a time on this machine, this one included

    def data_path(self) -> Path | None:
        """Return the folder with the data sets that is looked at first, if one was given."""
        return Path(self.data_dir) if self.data_dir else None
