"""Targets among our own files, as a bad disk or a bad copy changes them: records, scores, checkpoints, lock notes.

Files of per-row scores may also hold what is no score: pickles, bombs, odd headers and names, sizes that lie.
"""

from __future__ import annotations

import functools
import io
import pickle
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.torch import save as safetensors_bytes

from bench.core import locks
from bench.core.canonical import canonical, seal
from bench.core.errors import StoreError
from bench.core.fits import CheckpointInfo, described
from bench.core.records import Record
from bench.core.score_files import packed, scores_hash
from bench.core.store import Store, tensor_hash
from tests.stress.fuzz.engine import Json, Target, damaged
from tests.synthetic import record

KEY = "a" * 64
RECORD_WORDS = (b'"metrics":{', b"NaN", b'"seed":')
SCORE_WORDS = (b"PK\x01\x02", b"\x93NUMPY", b"'descr': '|O'")
TENSOR_WORDS = (b'"dtype":"F64"', b"__metadata__", b"[0,")
TENSORS = {"mu": torch.arange(6.0).reshape(2, 3), "step": torch.tensor(7)}
INFO: dict[str, Json] = {
    "epoch": 1,
    "seeds": {"0": {"epochs": [], "diverged": None}},
    "fit_keys": {"0": KEY},
}


def stored_targets(folder: Path) -> list[Target]:
    """Return the targets that read a results folder."""
    store = Store(folder / "results")
    good = _record(0)
    archived = [seal(good), seal(_record(1))]
    scores = st.one_of(damaged([packed(sound_scores())], SCORE_WORDS), odd_scores())
    note = b'{"pid": 1, "host": "here", "since": "now"}'
    return [
        Target("records", damaged([seal(good)], RECORD_WORDS), _record_reader(store, good), share=10),
        Target("archives", damaged([b"".join(archived)], RECORD_WORDS), _archive_reader(folder, archived), share=4),
        Target("scores", scores, _scores_reader(store, good), share=8),
        Target("checkpoints", damaged([_checkpoint()], TENSOR_WORDS), _checkpoint_reader(store), share=4),
        Target("lock notes", damaged([note]), _note_reader(folder), share=2),
    ]


def _record(seed: int) -> Record:
    return record(
        "mlp",
        "published",
        "common",
        seed=seed,
        key=KEY,
        fit_key="b" * 64,
        metrics={"mnist/test10k/accuracy": 0.98, "mnist/accuracy": 0.98, "letters/auroc": None},
        missing={"notmnist459": "it is not there"},
        arrays={"noise": {"mnist": "weights"}},
        epochs=[{"epoch": 1, "mnist/train60k/train_loss": 0.25, "seconds": 1.5}],
        timings={"valid": True, "fit_s": 1.5, "epoch_s_median": 1.5},
        model={"n_weights": 10},
        recipe_values={"epochs": 1},
        corrections=[],
    )


def _record_reader(store: Store, good: Record) -> Callable[[bytes], None]:
    path = store.record_path(good)
    path.parent.mkdir(parents=True, exist_ok=True)

    def read(data: bytes) -> None:
        path.write_bytes(data)
        found = store.find(good)
        if found is None:
            raise StoreError("left out")
        if msgspec.structs.replace(found, sha256="") != good:
            raise AssertionError("a changed record was trusted")

    return read


def _archive_reader(folder: Path, lines: list[bytes]) -> Callable[[bytes], None]:
    root = folder / "archived"
    path = root / "records" / "mlp.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)

    def read(data: bytes) -> None:
        path.write_bytes(data)
        found, problems = Store(root).all_records()  # a new one, because a store reads an archive once
        if not all(seal(one) in lines for one in found):
            raise AssertionError("a changed line was trusted")
        if problems:
            raise StoreError(problems[0].reason)

    return read


def _scores_reader(store: Store, good: Record) -> Callable[[bytes], None]:
    scored = msgspec.structs.replace(good, scores_sha256=scores_hash(sound_scores()))
    path = store.record_path(scored).with_suffix(".npz")
    path.parent.mkdir(parents=True, exist_ok=True)

    def read(data: bytes) -> None:
        path.write_bytes(data)
        found = store.scores(scored)
        if not found:
            raise StoreError("left out")
        if packed(found) != packed(sound_scores()):
            raise AssertionError("scores were trusted that are not those of the record")

    return read


def _checkpoint() -> bytes:
    text = canonical(INFO)
    content: bytes = safetensors_bytes(TENSORS, metadata={"info": text, "sha256": tensor_hash(TENSORS, text)})
    return content


def _checkpoint_reader(store: Store) -> Callable[[bytes], None]:
    path = store.fit_path(KEY, "checkpoint")
    path.parent.mkdir(parents=True, exist_ok=True)

    def belongs(info: dict[str, object]) -> bool:
        found = described(info, CheckpointInfo)
        return found.fit_keys.get("0") == KEY and found.seeds.keys() == found.fit_keys.keys()

    def read(data: bytes) -> None:
        path.write_bytes(data)
        found = store.read_tensors(path, belongs)
        if found is None:
            raise StoreError("left out")
        same = found[0].keys() == TENSORS.keys() and all(torch.equal(found[0][k], v) for k, v in TENSORS.items())
        if not (same and found[1] == INFO):
            raise AssertionError("a changed checkpoint was trusted")

    return read


def _note_reader(folder: Path) -> Callable[[bytes], None]:
    path = folder / locks.FOLDER / f"{KEY[:16]}.json"
    path.parent.mkdir(parents=True, exist_ok=True)

    def read(data: bytes) -> None:
        path.write_bytes(data)
        if locks.holder(folder, KEY) is None:
            raise StoreError("not known")

    return read


Arrays = dict[str, NDArray[Any]]
Member = tuple[str, bytes]  # of a zip: name and content

ROWS, KEPT, DRAWS, CLASSES = 12, 3, 2, 10
SETS = ("mnist", "letters", "fashion_mnist", "noise_gaussian")
BOMB_MIB = 300  # more than is read
NAMES = (
    *("/etc/passwd", "../../elsewhere", "mnist/", "/label", "mnist/weights", "mnist/label.npy", "", ".", "a\\b"),
    *(
        "\x1b[2J/label",
        "\u202e/label",
        "x" * 300,
        "mnist/../letters/label",
        "letters/nll",
        "mnist//draws",
        "mnist/label",
    ),
)


def sound_scores() -> Arrays:
    """Return scores as the common protocol writes them: every answer is 3 and right, with a probability of 1."""
    found: Arrays = {}
    for name in SETS:
        one = {
            "label": np.full(ROWS, 3 if name == "mnist" else -1, np.int8),
            "predicted": np.full(ROWS, 3, np.int8),
            "max_probability": np.ones(ROWS, np.float16),
            "predictive_entropy": np.linspace(0, 2, ROWS).astype(np.float16),
            "expected_entropy": np.zeros(ROWS, np.float16),
            "votes": np.zeros((ROWS, CLASSES), np.uint8),
            "draws": np.full((DRAWS, KEPT, CLASSES), -2.3, np.float16),
        }
        found |= {f"{name}/{kind}": values for kind, values in one.items()}
    more = {"mnist/nll": np.zeros(ROWS, np.float32), "mnist/brier": np.zeros(ROWS, np.float16)}
    return found | more


def odd_scores() -> st.SearchStrategy[bytes]:
    """Return the bytes of npz files, each with a member that is no score, or with a size that is not true."""
    odd = st.tuples(st.sampled_from(ODD), st.sampled_from(NAMES))
    return st.tuples(odd, st.sampled_from(("stored", "deflated", "bomb", "lying"))).map(_zipped)


@functools.cache
def _members() -> list[Member]:
    return [(f"{name}.npy", _npy(values)) for name, values in sound_scores().items()]


def _npy(values: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, values)
    return file.getvalue()


def _header(text: str, version: bytes = b"\x01\x00") -> bytes:
    return b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text.encode()


class _Touch:
    """A pickle of it writes a file, if somebody reads it."""

    def __reduce__(self) -> tuple[Callable[[str, str], object], tuple[str, str]]:
        return open, ("pickle-was-read", "w")


ODD: tuple[bytes, ...] = (
    _header("{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,), }\n"),
    _header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }\n"),
    _header("{'descr': '|V0', 'fortran_order': False, 'shape': (1099511627776,), }\n"),
    _header("{'descr': '|S2147483647', 'fortran_order': True, 'shape': (5, 5), }\n") + b"x" * 99,
    _header("{'descr': __import__('os'), 'fortran_order': False, 'shape': ()}\n"),
    _header("{'descr': '|O', 'fortran_order': False, 'shape': (), }\n") + pickle.dumps(_Touch()),
    _header("(" * 5_000),
    _header("{'descr': '<f8'}\n", b"\x09\x00"),
    pickle.dumps(_Touch()),
    b"",
    b"\x93NUMPY",
)


def _zipped(given: tuple[tuple[bytes, str], str]) -> bytes:
    (content, named), how = given
    file = io.BytesIO()
    compression = zipfile.ZIP_STORED if how == "stored" else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(file, "w", compression) as made, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two members of one name are meant
        for name, values in [*_members(), (f"{named}.npy", content)]:
            made.writestr(zipfile.ZipInfo(name), values, compression)
    data = file.getvalue()
    if how == "bomb":
        return bomb() if len(data) % 4 == 0 else data
    if how == "lying" and (start := data.rfind(b"PK\x01\x02")) >= 0:  # of the last member: its size when unpacked
        return data[: start + 24] + struct.pack("<I", len(data) % 5 * 1000) + data[start + 28 :]
    return data


@functools.cache
def bomb() -> bytes:
    """Return a zip of 300 kB whose one member has `BOMB_MIB` when it is unpacked."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made, made.open("mnist/label.npy", "w") as member:
        member.write(_header("{'descr': '|i1', 'fortran_order': False, 'shape': (314572800,), }\n"))
        for _ in range(BOMB_MIB):
            member.write(bytes(1 << 20))
    return file.getvalue()
