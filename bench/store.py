"""Records, fitted posteriors and checkpoints on disk: written atomically, sealed by a hash, never pickled.

A file that cannot be trusted (truncated, edited, foreign) is named and set aside in `quarantine/`, never
deleted and never used.
"""

from __future__ import annotations

import glob
import hashlib
import io
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as safetensors_bytes

from bench.canonical import canonical, digest, plain
from bench.errors import StoreError

SCHEMA = 1
REQUIRED = ("schema", "key", "fit_key", "approach", "recipe", "protocol", "profile", "seed", "outcome", "reason")
CONDITIONS = ("device", "precision")  # naming fields that are no part of a file's name
OUTCOMES = ("done", "diverged", "failed", "out-of-time", "skipped")


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old content or the new, whatever happens; raises StoreError."""
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)
        raise StoreError(
            f"cannot write {path}: {error.strerror or error}; free space or choose another --results"
        ) from error


@dataclass(frozen=True)
class Problem:
    """A file of the store that cannot be trusted, and why."""

    path: Path
    reason: str


def seal(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record with its hash in field `sha256`."""
    body = {key: value for key, value in plain(record).items() if key != "sha256"}
    return {**body, "sha256": digest(body)}


def read_record(path: Path) -> dict[str, Any]:
    """Read and check one record; raises StoreError that names the file and what is wrong with it."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"record {path} cannot be read: {error}") from error
    if not isinstance(record, dict) or any(field not in record for field in REQUIRED):
        raise StoreError(f"record {path} is not a record of this suite")
    if record["schema"] != SCHEMA:
        raise StoreError(f"record {path} has schema {record['schema']}; this version reads {SCHEMA}")
    if record["outcome"] not in OUTCOMES:
        raise StoreError(f"record {path} has outcome '{record['outcome']}'; known: {', '.join(OUTCOMES)}")
    body = {key: value for key, value in record.items() if key != "sha256"}
    if record.get("sha256") != digest(body):
        raise StoreError(f"record {path} was changed after it was written (its hash does not fit)")
    return record


class Store:
    """One results folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.records = root / "records"

    def check_writable(self) -> None:
        """Raise StoreError if records cannot be written here."""
        probe = self.root / "fits" / ".writable"
        write_atomically(probe, b"")
        probe.unlink(missing_ok=True)

    def lock(self, fit_key: str) -> FileLock:
        """Return the lock of a fit; the system releases it when its process ends, however it ends."""
        path = self.root / "locks" / f"{fit_key[:16]}.lock"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot write {path.parent}: {error.strerror}; choose another --results") from error
        return FileLock(path)

    # records

    def record_path(self, spec: Mapping[str, Any]) -> Path:
        """Return where the record of a measurement lives; `spec` has the record's naming fields and its key."""
        name = f"{spec['recipe']}__{spec['protocol']}__{spec['profile']}__seed{spec['seed']}__{spec['key'][:8]}.json"
        return self.records / str(spec["approach"]) / name

    def write(self, record: Mapping[str, Any], scores: Mapping[str, NDArray[Any]] | None = None) -> Path:
        """Write a record and, beside it, its per-row scores (.npz)."""
        sealed = seal(record)
        path = self.record_path(sealed)
        if scores:
            buffer = io.BytesIO()
            np.savez_compressed(buffer, **dict(scores))
            write_atomically(path.with_suffix(".npz"), buffer.getvalue())
        write_atomically(path, (json.dumps(sealed, indent=1, sort_keys=True, allow_nan=False) + "\n").encode())
        self._drop_superseded(sealed, path)
        return path

    def find(self, spec: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the record of a measurement, or None; one that cannot be trusted is set aside."""
        record = self._read_or_set_aside(self.record_path(spec))
        if record is not None and record["key"] != spec["key"]:
            self.set_aside(self.record_path(spec))
            return None
        return record

    def scores(self, record: Mapping[str, Any]) -> Mapping[str, NDArray[Any]]:
        """Return the per-row scores beside a record; empty where there are none or they cannot be read."""
        try:
            content = io.BytesIO(self.record_path(record).with_suffix(".npz").read_bytes())
            with np.load(content, allow_pickle=False) as file:
                return dict(file)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error):
            return {}

    def find_done_elsewhere(self, spec: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return a finished record of the same name, made where the framework was there, or None."""
        for _, record in self._same_name(spec):
            if record["outcome"] == "done":
                return record
        return None

    def _same_name(self, spec: Mapping[str, Any]) -> list[tuple[Path, dict[str, Any]]]:
        """Return the records whose naming fields are those of `spec`, and their files; the keys may differ."""
        path = self.record_path(spec)
        found = []
        for other in sorted(path.parent.glob(f"{glob.escape(path.name.rsplit('__', 1)[0])}__*.json")):
            record = self._read_or_set_aside(other)
            if record is not None and all(record.get(name) == spec.get(name) for name in CONDITIONS):
                found.append((other, record))
        return found

    def _read_or_set_aside(self, path: Path) -> dict[str, Any] | None:
        if not path.exists():
            return None
        try:
            return read_record(path)
        except StoreError:
            self.set_aside(path)
            return None

    def _drop_superseded(self, record: Mapping[str, Any], written: Path) -> None:
        """Remove `skipped` records of the same cell: they only said that this one was missing."""
        for path, other in self._same_name(record):
            if path != written and other["outcome"] == "skipped":
                path.unlink()

    def all_records(self) -> tuple[list[dict[str, Any]], list[Problem]]:
        """Return all trustworthy records, and the files that are none."""
        records, problems = [], []
        for path in sorted(self.records.glob("*/*.json")):
            try:
                records.append(read_record(path))
            except StoreError as error:
                problems.append(Problem(path, str(error)))
        return records, problems

    def set_aside(self, path: Path) -> Path:
        """Move a file that cannot be trusted to `quarantine/`, keeping every earlier one."""
        folder = self.root / "quarantine"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            number = sum(1 for _ in folder.iterdir())
            target = folder / f"{number:04d}__{path.parent.name}__{path.name}"
            os.replace(path, target)
        except OSError as error:
            raise StoreError(f"cannot set aside {path}: {error.strerror}") from error
        return target

    # posteriors and checkpoints

    def fit_path(self, fit_key: str, kind: str) -> Path:
        """Return where a fit's `posterior` or `checkpoint` lives."""
        return self.root / "fits" / fit_key[:16] / f"{kind}.safetensors"

    def write_tensors(self, path: Path, tensors: Mapping[str, torch.Tensor], info: Mapping[str, Any]) -> None:
        """Write tensors with a JSON description, sealed by a hash over both."""
        ready = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        text = canonical(info)
        metadata = {"info": text, "sha256": _tensor_hash(ready, text)}
        write_atomically(path, safetensors_bytes(ready, metadata=metadata))

    def read_tensors(self, path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]] | None:
        """Return tensors and description, or None if there are none; what cannot be trusted is set aside."""
        if not path.exists():
            return None
        try:
            with safe_open(str(path), framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
            text = metadata.get("info", "")
            if metadata.get("sha256") != _tensor_hash(tensors, text):
                raise ValueError("hash does not fit")
            info: dict[str, Any] = json.loads(text)
        except (OSError, ValueError, SafetensorError):
            self.set_aside(path)
            return None
        return tensors, info

    def drop_checkpoint(self, fit_key: str) -> None:
        """Remove the checkpoint of a finished fit."""
        self.fit_path(fit_key, "checkpoint").unlink(missing_ok=True)


def _tensor_hash(tensors: Mapping[str, torch.Tensor], text: str) -> str:
    def parts() -> Iterator[Any]:
        for name in sorted(tensors):
            value = tensors[name]
            yield [name, str(value.dtype), list(value.shape)]

    hasher = hashlib.sha256(canonical([*parts(), text]).encode())
    for name in sorted(tensors):
        if tensors[name].numel():
            hasher.update(tensors[name].contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return hasher.hexdigest()
