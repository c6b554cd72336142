"""Targets among our own files, as a bad disk or a bad copy changes them: records, scores, checkpoints, lock notes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import torch
from hypothesis import strategies as st
from safetensors.torch import save as safetensors_bytes

from bench.core import locks
from bench.core.canonical import canonical, seal
from bench.core.errors import StoreError
from bench.core.fits import CheckpointInfo, described
from bench.core.records import Record
from bench.core.score_files import packed, scores_hash
from bench.core.store import Store, tensor_hash
from tests.stress.fuzz.damage import Json, damaged
from tests.stress.fuzz.engine import Target
from tests.stress.fuzz.scores import odd_scores, sound_scores
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
