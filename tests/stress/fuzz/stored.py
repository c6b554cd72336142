"""Targets among our own files, as someone may have changed them: records, scores, checkpoints, speeds, lock notes.

A seal is no proof of honesty: half of the inputs are changed first and sealed afterwards, as a forger would.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import torch
from hypothesis import strategies as st
from safetensors.torch import save as safetensors_bytes

from bench.core import locks
from bench.core.canonical import canonical
from bench.core.errors import StoreError
from bench.core.fits import CheckpointInfo, described
from bench.core.records import Record
from bench.core.sealed import seal
from bench.core.store import Store, tensor_hash
from bench.measure.stored import computed_again
from bench.plan.freshness import is_stale
from bench.run.existing import is_final
from bench.show.inputs import Inputs
from bench.show.tables.registry import all_tables
from bench.show.tables.render import markdown
from tests.stress.fuzz.damage import Json, damaged, damaged_value
from tests.stress.fuzz.engine import Target
from tests.stress.fuzz.scores import forged_scores, sound_scores
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
    "source_sha256": KEY,
}
EVERY = 200  # inputs between two looks at what tables make of a forged record, which takes a while

Written = tuple[bool, bytes]  # whether the content was changed before it was sealed, and the file


def stored_targets(folder: Path) -> list[Target]:
    """Return the targets that read a results folder."""
    store = Store(folder / "results")
    good = _record()
    note = b'{"pid": 1, "host": "here", "since": "now"}'
    resealed = forged_scores().map(lambda data: (data, True))
    return [
        Target("records", _sealed(good, RECORD_WORDS), _record_reader(store, good), share=10),
        Target("scores", st.tuples(damaged([_scores()], SCORE_WORDS), st.booleans()), _scores_reader(store, good), 4),
        Target("forged scores", resealed, _scores_reader(store, good), share=6),
        Target("checkpoints", _checkpoints(), _checkpoint_reader(store), share=4),
        Target("lock notes", damaged([note]), _note_reader(folder), share=2),
    ]


def _sealed(good: msgspec.Struct, words: Sequence[bytes]) -> st.SearchStrategy[Written]:
    value: dict[str, Json] = json.loads(seal(good))
    del value["sha256"]
    damage, forgery = damaged([seal(good)], words), damaged_value(value).map(_forged)
    return st.one_of(st.tuples(st.just(False), damage), st.tuples(st.just(True), forgery))


def _forged(changed: Json) -> bytes:
    try:
        return seal(changed) if isinstance(changed, dict) else json.dumps(changed).encode()
    except RecursionError:
        return b"{}"


def _record() -> Record:
    return record(
        "mlp",
        "published",
        "common",
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


def _record_reader(store: Store, good: Record) -> Callable[[Written], None]:
    path = store.record_path(good)
    path.parent.mkdir(parents=True, exist_ok=True)
    number = itertools.count()

    def read(given: Written) -> None:
        forged, data = given
        path.write_bytes(data)
        found = store.find(good)
        if found is None:
            raise StoreError("left out")
        if not forged and msgspec.structs.replace(found, sha256="") != good:
            raise AssertionError("a changed record was trusted")
        is_final(found)
        is_stale(found)
        if next(number) % EVERY == 0:
            for table in all_tables(Inputs(store.root)).values():
                markdown(table)

    return read


def _scores() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **sound_scores())
    return file.getvalue()


def _scores_reader(store: Store, good: Record) -> Callable[[tuple[bytes, bool]], None]:
    path = store.record_path(good).with_suffix(".npz")
    path.parent.mkdir(parents=True, exist_ok=True)

    def read(given: tuple[bytes, bool]) -> None:
        data, forged = given
        path.write_bytes(data)
        own = hashlib.sha256(data).hexdigest() if forged else "0" * 64
        found = store.scores(msgspec.structs.replace(good, scores_sha256=own))
        if not found:
            raise StoreError("left out")
        if not forged:
            raise AssertionError("scores were trusted that are not those of the record")
        computed_again(found)
        for value in found.values():
            if value.dtype.hasobject:
                raise AssertionError("scores hold Python objects")

    return read


def _checkpoints() -> st.SearchStrategy[Written]:
    damage = damaged([_checkpoint(INFO)], TENSOR_WORDS)
    forgery = damaged_value(INFO).map(_checkpoint)
    return st.one_of(*[st.tuples(st.just(False), damage)] * 4, st.tuples(st.just(True), forgery))


def _checkpoint(info: Json) -> bytes:
    return tensor_bytes(TENSORS, info)


def tensor_bytes(tensors: Mapping[str, torch.Tensor], info: Json) -> bytes:
    """Return the bytes of tensors and their description with a hash that fits, as a forger would write them."""
    try:
        text = canonical(info)
        content: bytes = safetensors_bytes(tensors, metadata={"info": text, "sha256": tensor_hash(tensors, text)})
    except (RecursionError, UnicodeEncodeError):  # more than a forger could write
        return b""
    return content


def _checkpoint_reader(store: Store) -> Callable[[Written], None]:
    path = store.fit_path(KEY, "checkpoint")
    path.parent.mkdir(parents=True, exist_ok=True)

    def belongs(info: dict[str, object]) -> bool:
        found = described(info, CheckpointInfo)
        return found.fit_keys.get("0") == KEY and found.seeds.keys() == found.fit_keys.keys()

    def read(given: Written) -> None:
        forged, data = given
        path.write_bytes(data)
        found = store.read_tensors(path, belongs)
        if found is None:
            raise StoreError("left out")
        same = found[0].keys() == TENSORS.keys() and all(torch.equal(found[0][k], v) for k, v in TENSORS.items())
        if not forged and not (same and found[1] == INFO):
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
