"""How a worker runs, whatever the cells that it works on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.plan import plugins


@dataclass(frozen=True)
class Options:
    """The same for every worker of a run."""

    root: str
    data_dir: str | None = None
    threads: int | None = None
    retain: bool = True  # keep the fitted posterior for further protocols and for predict
    approaches: str = field(default_factory=plugins.path)  # where those from outside are found
    interpreters: Mapping[str, str] = field(default_factory=dict)  # by approach, where it is not this one
    checkpoint_every_s: float | None = None  # epochs shorter than this share a checkpoint; None: contexts' default
    renew: bool = False  # train again what older code trained
    memory_mib: float | None = None  # most address space of a worker
    at_once: int = 1  # fits on this machine, this one and those beside it
