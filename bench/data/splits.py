"""Load training, test and out-of-distribution rows by name, as tensors of pixels in [0, 1]."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bench.core.errors import check_known
from bench.core.streams import generator, normals
from bench.data.files import Bytes, find, find_copy, read_idx
from bench.data.manifest import TASKS, DataFile, DatasetManifest, manifest
from bench.interface import Split

SPLIT_NAMES: tuple[str, ...] = ("train60k", "test10k", "train50k", "heldout10k-of-train")
N_TRAIN50K = 50_000  # alsibahi2019: random_split(train, (50_000, 10_000))
NO_CLASS = -1
PIXELS_EVERY = 64  # rows; for `split_hash`: the hash of a whole file is checked when it is read


def load_split(name: str, seed: int, data_dir: Path | None = None, task: str = "mnist") -> Split:
    """Return rows of MNIST: x float32 [N, 784] (byte / 255), y int64 [N], rows int64 [N] (place in the file).

    For another `task`, the same names give rows of the data set that the task learns.

    `train60k` and `test10k` are the two files. alsibahi2019 splits the training file with `random_split` into the parts
    `train50k` and `heldout10k-of-train`. Here stream "split" of the run seed draws the permutation. The rows stay in
    the permutation's order, because alsibahi2019 trains in this order. The caller may change the tensors.

    Raises:
        ConfigError: unknown name.
        DataMissing, DataCorrupt: the data set is not there, or not intact.
    """
    check_known("split", SPLIT_NAMES, name)
    learnt = TASKS[task]
    where = (learnt.inside, "t10k") if name == "test10k" else (learnt.training, "train")
    images, labels = _idx_pair(*where, data_dir)
    rows = torch.arange(len(labels))
    if name in ("train50k", "heldout10k-of-train"):
        order = _random_split(len(labels), seed)
        rows = order[:N_TRAIN50K] if name == "train50k" else order[N_TRAIN50K:]
    return Split(name, _pixels(images[rows.numpy()]), torch.from_numpy(labels[rows.numpy()].astype(np.int64)), rows)


def load_shared(
    name: str, seeds: Sequence[int], data_dir: Path | None = None, task: str = "mnist"
) -> tuple[Split, Tensor]:
    """Return rows for several seeds, and places int64 [E, N]. Split `name` of seed e is `rows.select(places[e])`.

    So each row is in memory only once, even if the split depends on the seed.

    Raises:
        ConfigError, DataMissing, DataCorrupt: as `load_split`.
    """
    if name != "train50k":
        split = load_split(name, seeds[0], data_dir, task)
        return split, torch.arange(len(split)).expand(len(seeds), -1)
    whole = dataclasses.replace(load_split("train60k", seeds[0], data_dir, task), name=name)
    return whole, torch.stack([_random_split(len(whole), seed)[:N_TRAIN50K] for seed in seeds])


def _random_split(n_rows: int, seed: int) -> Tensor:
    return torch.randperm(n_rows, generator=generator(seed, "split"))


def load_ood(
    name: str, seed: int, data_dir: Path | None = None, task: str = "mnist", dtype: torch.dtype = torch.float32
) -> Split:
    """Return an out-of-distribution set: x [N, 784] of type `dtype`, y int64 [N] all -1 (no class), rows 0..N-1.

    For a task that learns another data set, MNIST is out of distribution; its test images are returned.

    The two noise sets are drawn from stream "ood" of the run seed (index 0 Gaussian, 1 uniform). Each seed has its own
    noise sets, because each document drew its own.

    Raises:
        ConfigError: unknown name.
        DataMissing, DataCorrupt: the set is not there, or not intact.
    """
    check_known("out-of-distribution set", TASKS[task].outside, name)
    known = manifest(name)
    if name == "noise_gaussian":
        x = normals(1000 * 784, generator(seed, "ood", 0), dtype).view(1000, 784)
    elif name == "noise_uniform":
        x = torch.rand(100, 28, 28, generator=generator(seed, "ood", 1)).flatten(1)
    elif known.kind == "png-archive":
        copy = find_copy(known, data_dir)
        from bench.data import notmnist  # not at the top: the set is optional

        x = _pixels(notmnist.load_from(copy, known)[0])
    else:
        x = _pixels(_idx_pair(name, "letters" if name == "letters" else "t10k", data_dir)[0])
    return Split(name, x.to(dtype), torch.full((len(x),), NO_CLASS), torch.arange(len(x)))


def toy_split() -> Split:
    """Return the six points of feldman2018's regression: x, y float32 [6, 1] with y = -x^4 + 3 x^2 + 1."""
    x = torch.tensor([-2, -1.8, -1, 1, 1.8, 2]).reshape(-1, 1)
    return Split("6 points", x, -(x**4) + 3 * x**2 + 1, torch.arange(len(x)))


def _pixels(images: Bytes) -> Tensor:
    """Return bytes [N, 28, 28] as float32 [N, 784] in [0, 1]."""
    # torch warns about read-only arrays
    source = images if images.flags.writeable else images.copy()
    return torch.from_numpy(source.reshape(len(source), -1)).to(torch.float32).div_(255)


def _idx_pair(dataset: str, part: str, data_dir: Path | None) -> tuple[Bytes, Bytes]:
    """Return images uint8 [N, 28, 28] and labels uint8 [N] of one part of an IDX data set, read-only."""
    known = manifest(dataset)
    images, labels = (_idx(known, known.file(f"{part}-{what}"), data_dir) for what in ("images", "labels"))
    return images, labels


def _idx(known: DatasetManifest, file: DataFile, data_dir: Path | None) -> Bytes:
    path = find(known, file, data_dir)
    try:
        status = path.stat()
    except OSError:  # read_idx raises an error that says what is wrong
        return read_idx(path, file.shape, file.sha256, known.how)
    return _decoded(path, (status.st_mtime_ns, status.st_size, status.st_ino), file, known.how)


@functools.lru_cache(maxsize=8)
def _decoded(path: Path, stamp: tuple[int, int, int], file: DataFile, remedy: str) -> Bytes:
    """Return the content, and keep it for the next trained runs; a changed file has another `stamp`."""
    del stamp
    return read_idx(path, file.shape, file.sha256, remedy)


def split_hash(split: Split, places: Tensor | None = None) -> str:
    """Return the SHA-256 of rows, in order: their places in the file, their labels, and the pixels of every 64th.

    Args:
        split: the rows.
        places: int64 [N], positions in the split of the rows to hash, in this order; None for all rows.
    """
    if places is None:
        places = torch.arange(len(split))
    found = hashlib.sha256()
    for part in (split.rows[places], split.y[places], split.x[places[::PIXELS_EVERY]]):
        plain = part.float() if part.is_floating_point() else part  # the numbers of a float64 split are float32 ones
        found.update(plain.cpu().contiguous().numpy().tobytes())
    return found.hexdigest()
