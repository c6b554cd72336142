"""The options of a run that all its child processes get."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from bench.plan import plugins


@dataclass(frozen=True)
class Options:
    """The options that every child process of a run gets."""

    root: str  # results folder
    data_dir: str | None = None
    threads: int | None = None
    retain: bool = True  # store the fitted posterior, for more protocols and for `predict`
    approaches: str = field(
        default_factory=plugins.path
    )  # $BNN_BENCH_APPROACHES: folders or files NAME.py, with os.pathsep between them
    checkpoint_every_s: float | None = None  # least time between checkpoints; None: the default of `contexts`
    memory_mib: float | None = None  # most address space of a child process
    at_once: int = 1  # fits at a time on this machine

    def data_path(self) -> Path | None:
        """Return the user's folder of data sets, which is searched first; None if there is none."""
        return Path(self.data_dir) if self.data_dir else None
