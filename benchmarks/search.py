"""Hyper-parameters of a method, chosen on training images: python -m benchmarks.search NAME [--epochs N] [--write].

A manifest's [search] names fields and their values; every combination is tried. Each trial trains on `train50k`. The
best has the lowest negative log-likelihood of `heldout10k-of-train`, the other 10,000 images of the training file. No
test image is used. Finished trials are in benchmarks/searched/NAME.part.csv until the search ends: after a stop, the
same command goes on. `--write` keeps them in NAME.csv. tests/benchmarks/test_search.py checks that the defaults of the
approach are the best trial of that file.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import itertools
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
import torch

from bench.cli.main import Parser, guarded
from bench.cli.options import count
from bench.core.errors import ConfigError, Diverged
from bench.core.files import write_atomically
from bench.core.metric_table import N_CLASSES
from bench.data.splits import load_split
from bench.interface import Approach, Split, Task
from bench.measure.measuring import draws_of, predict_split
from bench.measure.metrics.classification import accuracy, nll
from bench.plan.manifests import ApproachManifest, ManifestValue
from bench.plan.recipes import build, profile, resolve
from bench.plan.registry import manifest
from bench.run.alone import FitAlone

FOLDER = Path(__file__).parent / "searched"
DRAWS = 30
NLL, ACCURACY, SECONDS = "held-out nll", "held-out accuracy", "seconds"


def combinations(entry: ApproachManifest) -> list[dict[str, ManifestValue]]:
    """Return every combination of the manifest's values; raises ConfigError if it names none."""
    if not entry.search:
        raise ConfigError(f"{entry.name}.toml has no [search]; name fields and the values to try there")
    return [dict(zip(entry.search, values, strict=True)) for values in itertools.product(*entry.search.values())]


def trial(
    approach: Approach, values: Mapping[str, ManifestValue], train: Split, held: Split, seed: int
) -> dict[str, ManifestValue]:
    """Fit with the values, predict the held-out rows, and return the row of the file; nll in nats an image."""
    task = Task("classification", n_outputs=N_CLASSES, n_train=len(train), n_inputs=train.x.shape[1])
    start = time.monotonic()
    measured: dict[str, ManifestValue] = {NLL: "diverged", ACCURACY: "diverged"}
    try:
        posterior = dataclasses.replace(approach, **values).fit(
            train, task, FitAlone(seed, torch.device("cpu"), None, None)
        )
    except Diverged:
        pass
    else:
        posterior = posterior.per_row()
        summary = predict_split(posterior, held, draws_of(posterior, DRAWS)).summary
        labels = held.y.numpy()
        measured[NLL] = round(nll(summary.log_mean_probs, labels), 5)
        measured[ACCURACY] = round(accuracy(summary.mean_probs, labels), 5)
    seconds = round(time.monotonic() - start)
    return {**values, "epochs": approach.epochs, "seed": seed, **measured, SECONDS: seconds}


def best(lines: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
    """Return the line of the lowest held-out negative log-likelihood; raises Diverged if there is none."""
    finished = [line for line in lines if line[NLL] != "diverged"]
    if not finished:
        raise Diverged("every trial diverged; try smaller learning rates")
    return min(finished, key=lambda line: float(line[NLL]))


def main(words: Sequence[str] | None = None) -> int:
    """Try every combination, print a line for each, and keep the lines if asked."""
    parser = Parser(prog="python -m benchmarks.search", description="choose hyper-parameters on training images")
    parser.add_argument("approach")
    parser.add_argument("--epochs", type=count, help="of every trial (default: the recipe's)")
    parser.add_argument("--seed", type=int, default=0, help="of every trial (default: 0)")
    parser.add_argument("--write", action="store_true", help="keep the trials in benchmarks/searched")
    parser.add_argument("--data-dir", type=Path)
    return guarded(lambda: _search(parser.parse_args(words)))


def _search(arguments: argparse.Namespace) -> int:
    entry = manifest(arguments.approach)
    approach = build(entry, resolve(entry, "published"), profile("full"))
    if arguments.epochs is not None:
        approach = dataclasses.replace(approach, epochs=arguments.epochs)
    parts = [load_split(name, arguments.seed, arguments.data_dir) for name in ("train50k", "heldout10k-of-train")]
    unfinished = FOLDER / f"{entry.name}.part.csv"
    earlier = _lines(unfinished)
    lines: list[Mapping[str, str]] = []
    for values in combinations(entry):
        wanted = _texts({**values, "epochs": approach.epochs, "seed": arguments.seed})
        same = [line for line in earlier if wanted.items() <= line.items()]
        lines.append(same[0] if same else _texts(trial(approach, values, parts[0], parts[1], arguments.seed)))
        print(*(f"{name} {value}" for name, value in lines[-1].items()), sep=", ", flush=True)
        write_atomically(unfinished, pd.DataFrame(lines).to_csv(index=False, lineterminator="\n").encode())
    if arguments.write:
        unfinished.replace(FOLDER / f"{entry.name}.csv")
    else:
        unfinished.unlink()
    print("best:", dict(best(lines)))
    return 0


def _texts(values: Mapping[str, ManifestValue]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items()}


def _lines(path: Path) -> list[dict[str, str]]:
    """Return the trials of a file, none if there is no file."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    raise SystemExit(main())
