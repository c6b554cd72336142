"""Score a model that is trained already: from a function that predicts, or from a file of its predictions.

The protocols of a run measure it, see `bench.measure.given`. Its records have the recipe `not-retrained`: they get rows
in tables, but nothing trains the model again, and no verdict counts it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bench.core import environment
from bench.core.canonical import digest, seal
from bench.core.errors import ConfigError, StoreError, check_known
from bench.core.files import names_in, reason, remove, write_atomically
from bench.core.folder import ARCHIVE
from bench.core.locks import Busy, lock
from bench.core.records import SCHEMA, Arrays, Record, Timings
from bench.core.row_scores import Scores
from bench.core.score_files import BROKEN, packed, read_arrays, scores_hash
from bench.core.store import Store
from bench.core.text import one_line
from bench.data.manifest import data_hashes
from bench.interface import Split
from bench.measure.given import Floats, as_array, images, images_hash, log_probabilities, measured, pixels
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
) -> Path:
    """See `bench.score`: `predict` gets MNIST's images; return the file of the records."""
    model = _prepared(name, Path(results), None if data_dir is None else Path(data_dir), profile)
    model.store.check_writable()  # before the model predicts
    load, seconds = environment.OtherLoad(torch.get_num_threads()), {}
    found = _Predictions()
    for each, split in model.images.items():
        start = time.perf_counter()
        given = as_array(each, predict(pixels(split).copy()))  # a model may change its input
        seconds[each] = time.perf_counter() - start
        found.add(each, given, len(split))
    test = pixels(model.images["mnist"])
    n_draws = len(found.log_probs["mnist"])
    costs = speed(lambda: as_array("mnist", predict(test[:1].copy())), seconds["mnist"], len(test), n_draws)
    why = load.reasons()
    return model.written(found, msgspec.convert({**costs, "valid": not why, "reasons": why}, Timings))


def export(folder: Path, data_dir: Path | None, profile: str) -> Path:
    """Write the images of every set, and their hash, as one .npz file into a folder; return its path."""
    found, path = _images(data_dir, profile), folder / EXPORTED
    arrays = {each: pixels(split) for each, split in found.items()}
    write_atomically(path, packed({HASH: np.array(images_hash(found)), **arrays}))
    return path


def score_file(path: Path, name: str, results: Path, data_dir: Path | None, profile: str) -> Path:
    """Measure the predictions of a file for the images of `export`; write, return and raise as `score` does."""
    model = _prepared(name, results, data_dir, profile)
    found = _Predictions()
    command = "data export" if profile == PROFILES[0] else f"data export --profile {profile}"
    given = stored_predictions(path, model.images, images_hash(model.images), command)
    for each, split in model.images.items():
        found.add(each, as_array(each, given[each]), len(split))
    model.store.check_writable()
    return model.written(found, Timings(valid=True))


def check_profile(profile: str) -> None:
    """Raise ConfigError for a profile that no score has."""
    check_known("profile of a score", PROFILES, profile)


def _images(data_dir: Path | None, profile: str) -> dict[str, Split]:
    check_profile(profile)
    return images(profile_of(profile), SEED, data_dir)


def check_name(name: str) -> None:
    """Raise ConfigError if tables cannot call a model so."""
    if not NAME.fullmatch(name) or name in manifests():
        allowed = "a name that no approach has, up to 100 letters, digits, '_', '-' and '.'"
        raise ConfigError(f"name '{one_line(name, 100)}' cannot be used; give {allowed}")


def _prepared(name: str, results: Path, data_dir: Path | None, profile: str) -> _Model:
    """Check name and profile."""
    check_name(name)
    return _Model(name, Store(results), profile, data_dir, _images(data_dir, profile))


def stored_predictions(path: Path, names: Collection[str], rows_hash: str, export: str) -> Scores:
    """Return the predictions of a file by name, which are of the rows with this hash; raises ConfigError.

    `export`: the command that writes these rows.
    """
    try:
        given = read_arrays(path, "", None, LARGEST_FILE)
    except BROKEN as error:
        why = f"cannot be read ({one_line(reason(error), 200)}); write it by numpy.savez(FILE, hash=..., NAME=...)"
        raise ConfigError(f"{path} {why}") from error
    if given.keys() != {HASH, *names}:
        found = ", ".join(sorted(given)) or "nothing"
        raise ConfigError(f"{path} has {found}; give '{HASH}' and one array for each of {', '.join(names)}, no other")
    if (hashed := one_line(str(given[HASH]), 64)) != rows_hash:
        raise ConfigError(
            f"{path} has hash {hashed}, not that of today's rows, {rows_hash}; run `{export}`, predict its rows in "
            f"their order, and store its array '{HASH}' with the predictions"
        )
    return {name: given[name] for name in names}


@dataclass
class _Predictions:
    """What a model answers to every set."""

    log_probs: dict[str, Tensor] = field(default_factory=dict)  # [S, n, K]
    hashes: dict[str, str] = field(default_factory=dict)  # SHA-256 of what was given, by set

    def add(self, name: str, given: Floats, n: int) -> None:
        """Check and keep the predictions for the n images of a set; raises ConfigError."""
        self.log_probs[name] = log_probabilities(name, given, n)
        self.hashes[name] = scores_hash({name: given})


@dataclass(frozen=True)
class _Model:
    """A model that gets records."""

    name: str
    store: Store
    profile: str
    data_dir: Path | None
    images: Mapping[str, Split]

    def written(self, found: _Predictions, timings: Timings) -> Path:
        """Measure predictions, and write a record for each protocol into one file; those of the same name are replaced.

        Raises StoreError: the folder cannot be written, or another process writes records of the same name.
        """
        data = {file: value for file, value in data_hashes().items() if "/train-" not in file}
        made = environment.describe(torch.get_num_threads())
        sha256 = digest(found.hashes)
        made = msgspec.structs.replace(made, data_sha256=data, predictions_sha256=sha256)
        times = msgspec.structs.replace(timings, predict_draws=len(found.log_probs["mnist"]))
        fit_key, records = digest({"not retrained": self.name, "predictions": sha256}), []
        for protocol, one in measured(found.log_probs, profile_of(self.profile), SEED, self.data_dir).items():
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
                scores_sha256=scores_hash(one.scores) if one.scores else None,
            )
            records.append((record, one.scores))
        try:
            with lock(self.store.root, digest({"not retrained": self.name})):
                return self._replace(records)
        except Busy:
            raise StoreError(f"another process writes records of {self.name} in {self.store.root}; try again") from None

    def _replace(self, records: Sequence[tuple[Record, Scores]]) -> Path:
        """Write records and their scores in the place of those of this name and profile; return the records' file.

        The scores have names of their own, so that the new file of records is the only step that a reader sees.
        """
        store, folder = self.store, self.store.folder
        archive = folder.root / f"{self.name}{ARCHIVE}"
        scores = {store.record_path(record).with_suffix(".npz"): packed(one) for record, one in records if one}
        for path, content in scores.items():
            write_atomically(path, content, store.root)
        is_ours = (NOT_RETRAINED, self.profile)
        others = [one for one in folder.archived(archive)[0].values() if (one.recipe, one.profile) != is_ours]
        lines = {folder.name_of(one): seal(one) for one in (*others, *(record for record, _ in records))}
        write_atomically(archive, b"".join(lines[name] for name in sorted(lines)), store.root)
        place = folder.root / self.name
        for name in names_in(place, store.root):  # scores of earlier records, and records in files of their own
            is_old = name.startswith(f"{NOT_RETRAINED}__") and f"__{self.profile}__" in name
            if is_old and place / name not in scores:
                remove(place / name, store.root)
        return archive
