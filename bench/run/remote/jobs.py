"""A job as JSON: which cells, how, and with which code and data, so that the numbers are the same."""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench.core.environment import harness_hash, source_hash
from bench.core.errors import ConfigError
from bench.data.inventory import list_datasets
from bench.data.manifest import data_hashes
from bench.plan.cells import Cell, Selection
from bench.plan.registry import source_files
from bench.plan.versions import PROTOCOL_VERSION
from bench.run.options import Options


def work_job(cells: Sequence[Cell], options: Options) -> dict[str, Any]:
    """Return the job of fitting and measuring the cells of one fit."""
    return {
        "kind": "work",
        "cells": plain_cells(cells),
        "options": dataclasses.asdict(options),
        "expected": here(cells[0].approach, data_folder(options)),
    }


def plan_job(selection: Selection) -> dict[str, Any]:
    """Return the job of planning: another interpreter knows the fields of an approach that cannot be imported here."""
    return {"kind": "plan", "selection": dataclasses.asdict(selection), "harness": harness_hash()}


def plain_cells(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return cells as JSON has them."""
    return [msgspec.to_builtins(cell) for cell in cells]


def cells_of(plain: Sequence[Mapping[str, Any]]) -> list[Cell]:
    """Return the cells of a job; raises msgspec.ValidationError for what is none."""
    return msgspec.convert(plain, list[Cell])


def selection_of(plain: Mapping[str, Any]) -> Selection:
    """Return the selection of a job."""
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()}
    return Selection(**fields)


def options_of(plain: Mapping[str, Any]) -> Options:
    """Return the options of a job; a data folder that is not on this machine is left to the places known here."""
    options = Options(**plain)
    return options if data_folder(options) else dataclasses.replace(options, data_dir=None)


def data_folder(options: Options) -> Path | None:
    """Return the data folder of the options, if this machine has it."""
    return Path(options.data_dir) if options.data_dir and Path(options.data_dir).is_dir() else None


def here(approach: str, data_dir: Path | None) -> dict[str, Any]:
    """Return what decides an approach's numbers, as it is here: code, protocols, data sets and which are there."""
    return {
        "harness": harness_hash(),
        "approach": source_hash(source_files(approach)),
        "protocols": PROTOCOL_VERSION,
        "data": data_hashes(),
        "there": [row.name for row in list_datasets(data_dir) if row.present],
    }


def check(expected: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Raise ConfigError where this machine would give other numbers than the one that asks.

    The bytes of a data set are compared with the known hashes when it is read.
    """
    host = socket.gethostname()
    for name, what in (("harness", "harness"), ("approach", "approach"), ("protocols", "protocols")):
        if expected[name] != found[name]:
            raise ConfigError(f"the code of the {what} on {host} is another; install the same version there")
    if expected["data"] != found["data"]:
        raise ConfigError(f"the manifests of the data sets on {host} are others; install the same version there")
    absent = [name for name in expected["there"] if name not in found["there"]]
    if absent:
        raise ConfigError(
            f"data set '{absent[0]}' is not on {host}; run there: python -m bench data fetch {absent[0]}, or set "
            "BNN_BENCH_DATA there"
        )
