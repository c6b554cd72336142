"""Score a model that is trained already: from a function that predicts, or from a file of its predictions.

The protocols of a run measure it, see `bench.measure.given`. Its records have the recipe `not-retrained`: they get rows
in tables, but nothing trains the model again, and no verdict counts it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bench.core import environment
from bench.core.canonical import digest
from bench.core.errors import ConfigError, check_known
from bench.core.files import write_atomically
from bench.core.records import SCHEMA, Arrays, Record, Timings
from bench.core.score_files import BROKEN, packed, read_arrays
from bench.core.store import Store
from bench.core.text import one_line
from bench.data.manifest import data_hashes
from bench.interface import Split
from bench.measure.given import as_array, images, images_hash, log_probabilities, measured, pixels
from bench.measure.protocols import speed
from bench.plan.freshness import NOT_RETRAINED, versions_today
from bench.plan.recipes import profile as profile_of
from bench.plan.registry import manifests

Predict = Callable[[NDArray[np.float32]], object]
SEED = 0  # of the noise images
PROFILES = ("full", "smoke")
EXPORTED = "images.npz"
LARGEST_FILE = 4 << 30  # bytes unpacked; 100 draws of every image have 240 MB in float32
HASH = "hash"  # in a file, the name of the array that says which images it is about
NAME = re.compile(r"\w[\w.-]{0,99}")


def score(
    predict: Predict,
    name: str = "mine",
    results: str | Path = "my-results",
    data_dir: str | Path | None = None,
    *,
    profile: str = "full",
) -> list[Path]:
    """Measure a trained model as a run measures its own, and write two records, for rows in tables; return their paths.

    `predict` gets all images of a set at once: MNIST's test digits, letters, clothes, noise, and digits turned and
    moved. Of S draws, draw s must be one network for all images of a set.

    Args:
        predict: takes images, float32 [n, 28, 28] in [0, 1] (Gaussian noise: also outside); returns the probabilities
            of the digits 0 to 9, [n, 10] of one draw or [S, n, 10] of S draws, as an array of NumPy, PyTorch or any
            library whose arrays NumPy reads; better their logs, which do not round to 0.
        name: what tables call the model, no approach's name. A name that is scored again replaces its records.
        results: folder for the records; `python -m bench table choice --results FOLDER` has a row.
        data_dir: folder with the data sets, looked at first.
        profile: full, or smoke for the first 128 images of each set.

    Raises:
        ConfigError: a name, profile or predictions that cannot be used; the error says what is allowed.
        StoreError: the folder cannot be written.
    """
    model = _prepared(name, Path(results), None if data_dir is None else Path(data_dir), profile)
    model.store.check_writable()  # before the model predicts
    load, seconds = environment.OtherLoad(torch.get_num_threads()), {}
    log_probs: dict[str, Tensor] = {}
    for each, split in model.images.items():
        start = time.perf_counter()
        given = as_array(each, predict(pixels(split).copy()))  # a model may change its input
        seconds[each] = time.perf_counter() - start
        log_probs[each] = log_probabilities(each, given, len(split))
    test = pixels(model.images["mnist"])
    n_draws = len(log_probs["mnist"])
    costs = speed(lambda: as_array("mnist", predict(test[:1].copy())), seconds["mnist"], len(test), n_draws)
    why = load.reasons()
    return model.written(log_probs, msgspec.convert({**costs, "valid": not why, "reasons": why}, Timings))


def export(folder: Path, data_dir: Path | None, profile: str) -> Path:
    """Write the images of every set, and their hash, as one .npz file into a folder; return its path."""
    found, path = _images(data_dir, profile), folder / EXPORTED
    arrays = {each: pixels(split) for each, split in found.items()}
    write_atomically(path, packed({HASH: np.array(images_hash(found)), **arrays}))
    return path


def score_file(path: Path, name: str, results: Path, data_dir: Path | None, profile: str) -> list[Path]:
    """Measure the predictions of a file for the images of `export`; write, return and raise as `score` does."""
    model = _prepared(name, results, data_dir, profile)
    log_probs = _read(path, model.images)
    model.store.check_writable()
    return model.written(log_probs, Timings(valid=True))


def _images(data_dir: Path | None, profile: str) -> dict[str, Split]:
    check_known("profile of a score", PROFILES, profile)
    return images(profile_of(profile), SEED, data_dir)


def _prepared(name: str, results: Path, data_dir: Path | None, profile: str) -> _Model:
    """Check name and profile."""
    if not NAME.fullmatch(name) or name in manifests():
        allowed = "a name that no approach has, up to 100 letters, digits, '_', '-' and '.'"
        raise ConfigError(f"name '{one_line(name, 100)}' cannot be used; give {allowed}")
    return _Model(name, Store(results), profile, data_dir, _images(data_dir, profile))


def _read(path: Path, found: Mapping[str, Split]) -> dict[str, Tensor]:
    """Return the log-probabilities of a file by set; raises ConfigError."""
    try:
        given = read_arrays(path, "", None, LARGEST_FILE)
    except BROKEN as error:
        why = f"cannot be read ({one_line(str(error), 200)}); write it by numpy.savez(FILE, hash=..., mnist=...)"
        raise ConfigError(f"{path} {why}") from error
    if given.keys() != {HASH, *found}:
        names = ", ".join(sorted(given)) or "nothing"
        raise ConfigError(f"{path} has {names}; give '{HASH}' and one array for each of {', '.join(found)}, no other")
    hashed, wanted = one_line(str(given[HASH]), 64), images_hash(found)
    if hashed != wanted:
        raise ConfigError(
            f"{path} has hash {hashed}, not that of today's images, {wanted}; run `data export`, predict its images in "
            f"their order, and store its array '{HASH}' with the predictions"
        )
    return {each: log_probabilities(each, as_array(each, given[each]), len(split)) for each, split in found.items()}


@dataclass(frozen=True)
class _Model:
    """A model that gets records."""

    name: str
    store: Store
    profile: str
    data_dir: Path | None
    images: Mapping[str, Split]

    def written(self, log_probs: Mapping[str, Tensor], timings: Timings) -> list[Path]:
        """Measure predictions, and write a record for each protocol; one of the same name is replaced."""
        data = {file: value for file, value in data_hashes().items() if "/train-" not in file}
        made = msgspec.structs.replace(environment.describe(torch.get_num_threads()), data_sha256=data)
        times = msgspec.structs.replace(timings, predict_draws=len(log_probs["mnist"]))
        fit_key, paths = digest({"not retrained": self.name, "seed": SEED}), []
        for protocol, one in measured(log_probs, profile_of(self.profile), SEED, self.data_dir).items():
            record = Record(
                schema=SCHEMA,
                approach=self.name,
                recipe=NOT_RETRAINED,
                protocol=protocol,
                profile=self.profile,
                seed=SEED,
                device="cpu",
                precision="float32",
                fit_key=fit_key,
                key=digest({"fit": fit_key, "protocol": protocol, "profile": self.profile, "data": data}),
                outcome="done",
                reason=None,
                metrics=one.metrics,
                missing=one.missing,
                arrays=msgspec.convert(one.arrays, Arrays),
                epochs=[],
                timings=times if protocol == "common" else Timings(valid=True),
                versions=versions_today(self.name, NOT_RETRAINED, protocol),
                provenance=msgspec.structs.replace(made, measured=environment.now()),
            )
            paths.append(self.store.write(record, one.scores))
        return paths
