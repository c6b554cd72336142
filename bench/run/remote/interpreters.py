"""Approaches with their own Python interpreter (`--interpreter NAME=PATH`, or a variable), and their cells."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from bench.core.errors import BenchError, ConfigError
from bench.plan.cells import Cell, Selection
from bench.plan.registry import manifest
from bench.run.events import Planned
from bench.run.jobs import plan_job
from bench.run.supervisor import supervise

VARIABLE = "BNN_BENCH_INTERPRETERS"  # NAME=PATH; a colon (os.pathsep) between several
PLAN_S = 120.0


def interpreters(given: Iterable[str]) -> dict[str, str]:
    """Return the interpreter of every approach that has its own; `given` overrides the variable.

    Raises:
        ConfigError: a text that is not NAME=PATH, an unknown approach, or a path that is not a program.
    """
    found: dict[str, str] = {}
    for text in (*filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)), *given):
        name, separator, path = text.partition("=")
        if not separator or not path:
            raise ConfigError(f"interpreter '{text}' has no approach and path; give one as NAME=/path/to/python")
        program = shutil.which(os.path.expanduser(path))
        if program is None:
            raise ConfigError(f"interpreter '{path}' of {name} is not a program; give the path of a Python")
        # abspath, not resolve: a virtual environment's Python is a link, and the path of the link names the environment
        found[manifest(name).name] = os.path.abspath(program)
    return found


def with_their_cells(chosen: Sequence[Cell], selection: Selection, own: Mapping[str, str]) -> list[Cell]:
    """Return the chosen cells; those of an approach with its own interpreter are planned by that interpreter.

    Only that interpreter knows whether the framework is installed, and the fields of the approach, which enter the key.
    """
    found: list[Cell] = []
    for name, members in groupby(chosen, lambda cell: cell.approach):
        found += _planned(name, selection, own[name]) if name in own else members
    return found


def _planned(name: str, selection: Selection, python: str) -> list[Cell]:
    job = plan_job(replace(selection, approaches=(name,)))
    try:
        events = [event for event in supervise(job, python, PLAN_S) if isinstance(event, Planned)]
    except BenchError as error:
        raise ConfigError(f"interpreter {python} of {name}: {error}") from error
    return events[0].cells
