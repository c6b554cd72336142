"""Train each setting of a grid for a few epochs and print its error on the held-out images.

    python -m benchmarks.blundell_grid                # writes benchmarks/blundell_grid.json after every setting

The settings are in blundell_grid.toml. A setting that is in the JSON file already is not trained again.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import msgspec
import torch

from bench.cli.notebook import FitAlone
from bench.core.canonical import digest
from bench.data.splits import load_split
from bench.interface import Approach, Split, Task
from bench.measure.blundell2015 import HELD_OUT
from bench.measure.measuring import N_CLASSES, predict_split
from bench.plan.registry import load_class

GRID = Path(__file__).with_suffix(".toml")
FOUND = Path(__file__).with_suffix(".json")


def held_out_error(approach: Approach, train: Split, held_out: Split, seed: int) -> float:
    """Return the share of the held-out images that the mean network of a fit gets wrong."""
    task = Task("classification", N_CLASSES, len(train), train.x.shape[1])
    posterior = approach.fit(train, task, FitAlone(seed, torch.device("cpu"), None, None))
    found = predict_split(posterior.mean_network(), held_out, range(1), N_CLASSES)
    return 1 - int(found.hits[0]) / len(held_out)


def main() -> None:
    """Train what is missing; print and write the errors."""
    grid = msgspec.toml.decode(GRID.read_bytes())
    epochs, seed, units = grid.pop("epochs"), grid.pop("seed"), grid.pop("units")
    found = json.loads(FOUND.read_text(encoding="utf-8")) if FOUND.is_file() else {}
    train, held_out = load_split("train50k", seed), load_split(HELD_OUT, seed)
    for name, settings in grid.items():
        for setting, fields in settings.items():
            approach = load_class(name)(**{"epochs": epochs, "hidden_units": units, **fields})
            key = digest({"approach": name, "values": dataclasses.asdict(approach), "seed": seed})
            if found.get(f"{name} {setting}", {}).get("key") != key:
                error = held_out_error(approach, train, held_out, seed)
                found[f"{name} {setting}"] = {"held_out_error": round(error, 4), "key": key}
                FOUND.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            print(f"{name} {setting}: {found[f'{name} {setting}']['held_out_error']:.4f}", flush=True)


if __name__ == "__main__":
    main()
