"""Train each setting of a grid for a few epochs and print its error on the held-out images.

    python -m benchmarks.blundell_grid                # writes benchmarks/blundell_grid.json after every setting
    python -m benchmarks.blundell_grid --page         # trains nothing; writes the table of docs/blundell2015.md

The settings are in blundell_grid.toml. A setting that is in the JSON file already is not trained again.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tabulate import tabulate

from bench.cli.main import Parser, guarded
from bench.core.canonical import digest
from bench.core.errors import Diverged
from bench.core.files import with_block, write_atomically
from bench.core.metric_table import N_CLASSES
from bench.core.project import TOP
from bench.core.toml import TomlTable, read_toml
from bench.data.splits import load_split
from bench.interface import Approach, Split, Task
from bench.measure.measuring import predict_split
from bench.measure.metrics.epochs import HELD_OUT
from bench.plan.registry import load_class
from bench.run.alone import FitAlone

GRID = Path(__file__).with_suffix(".toml")
FOUND = Path(__file__).with_suffix(".json")
PAGE = TOP / "docs" / "blundell2015.md"
MARKS = ("<!-- grid -->\n\n", "\n\n<!-- end of grid -->")
COLUMNS = ("approach", "setting", "epochs", "held-out images wrong")
Settings = dict[str, dict[str, int | float | str]]
"""By name of a setting: the fields of the approach that it changes, with their values."""


class Grid(TomlTable, frozen=True):
    """The contents of blundell_grid.toml."""

    epochs: int
    seed: int
    units: int
    blundell_sgd: Settings
    blundell_dropout: Settings
    blundell_bbb: Settings

    def by_approach(self) -> dict[str, Settings]:
        """Return the settings of each approach, by its name."""
        return {name: getattr(self, name) for name in ("blundell_sgd", "blundell_dropout", "blundell_bbb")}


def read_grid() -> Grid:
    """Read the settings; raises ConfigError."""
    return read_toml(GRID, Grid, "grid")


def held_out_error(approach: Approach, train: Split, held_out: Split, seed: int) -> float:
    """Train, and return the share of held-out images that the mean network gets wrong; 1 if the fit diverges."""
    task = Task("classification", N_CLASSES, len(train), train.x.shape[1])
    try:
        posterior = approach.fit(train, task, FitAlone(seed, torch.device("cpu"), None, None))
    except Diverged:
        return 1.0  # no answer is right
    found = predict_split(posterior.mean_network(), held_out, range(1))
    return 1 - int(found.hits[0]) / len(held_out)


def _approach(grid: Grid, name: str, fields: Mapping[str, object]) -> Approach:
    made: Approach = load_class(name)(**{"epochs": grid.epochs, "hidden_units": grid.units, **fields})
    return made


def key_of(grid: Grid, name: str, fields: Mapping[str, object]) -> str:
    """Return the key of a setting's stored error. If a value of the setting changes, the key changes."""
    return digest({"approach": name, "values": vars(_approach(grid, name, fields)), "seed": grid.seed})


def block(grid: Grid, found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the table of docs/blundell2015.md: the settings with most epochs first, then by error."""
    rows = []
    for name, settings in grid.by_approach().items():
        for setting, fields in settings.items():
            stored = found.get(f"{name} {setting}", {})
            error = stored["held_out_error"] if stored.get("key") == key_of(grid, name, fields) else math.inf
            shown = "not run" if error == math.inf else "diverged" if error == 1 else f"{100 * error:.2f} %"
            rows.append((-fields.get("epochs", grid.epochs), error, name, setting, shown))
    lines = [(name, setting, str(-epochs), shown) for epochs, _, name, setting, shown in sorted(rows)]
    return tabulate(lines, headers=COLUMNS, tablefmt="github", disable_numparse=True)


def write_page() -> int:
    """Write the stored errors as a table into docs/blundell2015.md."""
    table = block(read_grid(), json.loads(FOUND.read_text(encoding="utf-8")))
    write_atomically(PAGE, with_block(PAGE, *MARKS, table))
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Train the missing settings, or write the page; return the exit code."""
    parser = Parser(prog="python -m benchmarks.blundell_grid", description="The grid of Blundell et al. 2015.")
    parser.add_argument("--page", action="store_true", help="train nothing; write the table of docs/blundell2015.md")
    return guarded(lambda: write_page() if parser.parse_args(argv).page else train_missing())


def train_missing() -> int:
    """Train the missing settings; print and write the errors."""
    grid = read_grid()
    found = json.loads(FOUND.read_text(encoding="utf-8")) if FOUND.is_file() else {}
    train, held_out = load_split("train50k", grid.seed), load_split(HELD_OUT, grid.seed)
    for name, settings in grid.by_approach().items():
        for setting, fields in settings.items():
            key = key_of(grid, name, fields)
            if found.get(f"{name} {setting}", {}).get("key") != key:
                error = held_out_error(_approach(grid, name, fields), train, held_out, grid.seed)
                found[f"{name} {setting}"] = {"held_out_error": round(error, 4), "key": key}
                write_atomically(FOUND, (json.dumps(found, indent=1) + "\n").encode())
            print(f"{name} {setting}: {found[f'{name} {setting}']['held_out_error']:.4f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
