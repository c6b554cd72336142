"""Targets among our own files, as someone may have changed them: records, scores, checkpoints, speeds, lock notes.

A seal is no proof of honesty: half of the inputs are changed first and sealed afterwards, as a forger would.
"""

from __future__ import annotations

import io
import json
import random
import shutil
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from safetensors.torch import save as safetensors_bytes

from bench.core import locks, quarantine
from bench.core.canonical import canonical, plain
from bench.core.errors import StoreError
from bench.core.reasons import OTHER_LOAD, Reason, told
from bench.core.records import Record
from bench.core.sealed import has_seal, seal
from bench.core.store import Store, tensor_hash
from bench.run.runner import is_final, is_stale
from bench.show import throughput_files as speeds
from bench.show.material import Material
from bench.show.tables.registry import all_tables
from bench.show.tables.render import markdown
from tests import synthetic
from tests.stress.fuzz.engine import Reader, Target
from tests.stress.fuzz.mutate import mutated_value

KEY = "a" * 64
INFO = {"epoch": 1, "seeds": {"0": {"epochs": [], "diverged": None}}, "fit_keys": {"0": KEY}}
EVERY = 200  # inputs between two looks at what tables make of a forged record, which takes a while


def stored_targets(folder: Path) -> list[Target]:
    """Return the targets that read a results folder."""
    store = Store(folder / "results")
    record, tensors = _record(), _checkpoint({"mu": torch.arange(6.0).reshape(2, 3), "step": torch.tensor(7)})
    speed = folder / "throughput" / "mlp__train__cpu__float32__1.json"
    return [
        Target(
            "records", [_text(seal(record))], _record_reader(store), (b'"metrics": {', b"NaN", b'"seed": '), share=3.0
        ),
        Target("scores", [_scores()], _scores_reader(store), (b"PK\x01\x02", b"\x93NUMPY", b"'descr': '|O'")),
        Target("checkpoints", [tensors], _checkpoint_reader(store), (b'"dtype":"F64"', b"__metadata__", b"[0,")),
        Target(
            "speeds",
            [_text(seal(_speed()))],
            _speed_reader(speed),
            (b'"rounds": ',),
            share=0.5,
        ),
        Target("lock notes", [b'{"pid": 1, "host": "here", "since": "now"}'], _note_reader(folder), share=0.5),
    ]


def _text(value: Any) -> bytes:
    return json.dumps(value, indent=1).encode()


def _record() -> Record:
    return synthetic.record(
        "mlp",
        "published",
        "common",
        key=KEY,
        fit_key="b" * 64,
        metrics={"mnist/test10k/accuracy": 0.98, "mnist/accuracy": 0.98, "letters/auroc": None},
        missing={"notmnist459": told("no-data", "it is not there")},
        arrays={"noise": {"mnist": "weights"}},
        epochs=[{"epoch": 1, "mnist/train60k/train_loss": 0.25, "seconds": 1.5}],
        timings={"valid": False, "reasons": [Reason(OTHER_LOAD)], "fit_s": 1.5, "epoch_s_median": 1.5},
        model={"n_weights": 10},
        recipe_values={"epochs": 1},
    )


def _record_reader(store: Store) -> Reader:
    good = _record()
    path = store.record_path(good)
    path.parent.mkdir(parents=True, exist_ok=True)

    def read(data: bytes, rng: random.Random) -> None:
        forged = rng.random() < 0.5
        path.write_bytes(_forged(plain(good), rng) if forged else data)
        record = store.find(good)  # sets aside what cannot be trusted
        _forget_quarantine(store)
        if record is None:
            raise StoreError("set aside")
        if not forged and msgspec.structs.replace(record, sha256="") != good:
            raise AssertionError("a changed record was trusted")
        is_final(record)
        is_stale(record)
        if rng.randrange(EVERY) == 0:
            for table in all_tables(Material(store.root)).values():
                markdown(table)

    return read


def _forged(good: Any, rng: random.Random) -> bytes:
    changed = mutated_value(good, rng)
    try:
        return _text(seal(changed) if isinstance(changed, dict) else changed)
    except RecursionError:
        return b"{}"


def _scores() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **{"mnist/label": np.arange(20), "mnist/confidence": np.linspace(0, 1, 20)})
    return file.getvalue()


def _scores_reader(store: Store) -> Reader:
    old = _record()  # of before the hash was kept
    new = msgspec.structs.replace(old, scores_sha256="0" * 64)
    path = store.record_path(old).with_suffix(".npz")
    path.parent.mkdir(parents=True, exist_ok=True)

    def read(data: bytes, rng: random.Random) -> None:
        path.write_bytes(data)
        hashed = rng.random() < 0.2
        found = store.scores(new if hashed else old)
        _forget_quarantine(store)
        if not found:
            raise StoreError("set aside")
        if hashed:
            raise AssertionError("scores were trusted that are not those of the record")
        for value in found.values():
            if value.dtype.hasobject:
                raise AssertionError("scores hold Python objects")

    return read


def _checkpoint(tensors: dict[str, torch.Tensor]) -> bytes:
    text = canonical(INFO)
    content: bytes = safetensors_bytes(tensors, metadata={"info": text, "sha256": tensor_hash(tensors, text)})
    return content


def _checkpoint_reader(store: Store) -> Reader:
    path = store.fit_path(KEY, "checkpoint")
    path.parent.mkdir(parents=True, exist_ok=True)
    good = {"mu": torch.arange(6.0).reshape(2, 3), "step": torch.tensor(7)}

    def belongs(info: dict[str, Any]) -> bool:
        return bool(info["fit_keys"]["0"] == KEY and info["seeds"].keys() == info["fit_keys"].keys())

    def read(data: bytes, rng: random.Random) -> None:
        forged = rng.random() < 0.2
        path.write_bytes(_forged_tensors(good, rng) if forged else data)
        found = store.read_tensors(path, belongs)
        _forget_quarantine(store)
        if found is None:
            raise StoreError("set aside")
        same = found[0].keys() == good.keys() and all(torch.equal(found[0][name], good[name]) for name in good)
        if not forged and not (same and found[1] == INFO):
            raise AssertionError("a changed checkpoint was trusted")

    return read


def _forged_tensors(good: dict[str, torch.Tensor], rng: random.Random) -> bytes:
    try:
        text = json.dumps(mutated_value(INFO, rng))
        content: bytes = safetensors_bytes(good, metadata={"info": text, "sha256": tensor_hash(good, text)})
    except RecursionError:
        return b""
    return content


def _speed() -> dict[str, Any]:
    naming = {"approach": "mlp", "what": "train", "device": "cpu", "precision": "float32", "draws": 1}
    block = {"seconds": [1.0, 1.25], "work": 3.0}
    row = {"title": "a step", "ours": block, "document": block, "product": block, "product_size": 512}
    row |= {"flops_per_unit": 1e6, "measured": {"ours": "3 steps", "document": "3 steps"}, "overhead_s": 0.5}
    rest = {"outcome": "done", "reason": "", "rounds": 2, "rows": [row], "timings": {"valid": True, "reason": ""}}
    return {"schema": speeds.SCHEMA, **naming, **rest, "provenance": {"cpu": "made-up CPU"}}


def _speed_reader(path: Path) -> Reader:
    good = _speed()
    path.parent.mkdir(parents=True, exist_ok=True)

    def read(data: bytes, rng: random.Random) -> None:
        forged = rng.random() < 0.5
        path.write_bytes(_forged(good, rng) if forged else data)
        speeds.folder(path.parents[1]).read(path)
        if not has_seal(json.loads(path.read_bytes())):
            raise AssertionError("a changed file was trusted")

    return read


def _note_reader(folder: Path) -> Reader:
    path = folder / locks.FOLDER / f"{KEY[:16]}.json"
    path.parent.mkdir(parents=True, exist_ok=True)

    def read(data: bytes, rng: random.Random) -> None:
        del rng
        path.write_bytes(data)
        if locks.holder(folder, KEY) is None:
            raise StoreError("not known")

    return read


def _forget_quarantine(store: Store) -> None:
    """Remove what fuzzing has set aside: a hundred thousand files help nobody."""
    shutil.rmtree(store.root / quarantine.FOLDER, ignore_errors=True)
