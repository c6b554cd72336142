"""The state of a sampling on disk: what it goes on from after a kill, and the draws kept so far.

A write makes a file of the draws that are new, then replaces the state, which names the hashes of all files of draws.
So a kill at any moment leaves a state whose draws are all there; what came after it is drawn again, to the same bits.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from bench.core.errors import StoreError
from bench.core.files import is_there
from bench.core.folder import name_once
from bench.core.store import Store, tensor_hash

ANEW = "the sampling begins anew"


@dataclass(frozen=True)
class State:
    """What was read: the tensors of a walk, and parts [C, m, ...] of the kept draws."""

    tensors: dict[str, Tensor]
    draws: list[Tensor]


class States:
    """The state in one folder of one sampling."""

    def __init__(self, folder: Path, fingerprint: str, save_s: float) -> None:
        """Take the folder, a hash of all that determines the sampling, and the seconds between two writes."""
        self._store, self._folder, self._fingerprint = Store(folder), folder, fingerprint
        self._save_s, self._written_at = save_s, time.monotonic()
        self._hashes: list[str] = []

    def is_due(self, is_last: bool) -> bool:
        """Return whether the state is to be written after this iteration."""
        return is_last or time.monotonic() - self._written_at >= self._save_s

    def write(self, tensors: dict[str, Tensor], draws: Tensor | None) -> None:
        """Write the state, and the draws [C, m, ...] since the last write; raises StoreError."""
        if draws is not None:
            self._store.write_tensors(self._path(len(self._hashes)), {"draws": draws}, self._info())
            self._hashes.append(tensor_hash({"draws": draws}, ""))
        self._store.write_tensors(self._folder / "state.safetensors", tensors, {**self._info(), "draws": self._hashes})
        self._written_at = time.monotonic()

    def read(self) -> State | None:
        """Return the last state; None if there is none, or if a file is damaged or missing, which a warning names.

        Raises:
            StoreError: it is the state of another sampling.
        """
        found = self._store.read_tensors(self._folder / "state.safetensors", again=ANEW)
        if found is None:
            return None
        tensors, info = found
        if info.get("sampling") != self._fingerprint:
            raise StoreError(
                f"{self._folder} holds the draws of another sampling (task, seed, chains or warm-up); remove it or "
                "choose another folder"
            )
        hashes, parts = info["draws"], []
        assert isinstance(hashes, list)  # the file's own hash fits
        for number, expected in enumerate(hashes):
            path = self._path(number)
            part = self._store.read_tensors(path, again=ANEW)
            if part is None or tensor_hash(part[0], "") != expected:
                if part or not is_there(path):
                    name_once(f"{path} is missing, or is not the one that the state names; {ANEW}")
                return None
            parts.append(part[0]["draws"])
        self._hashes = hashes
        return State(tensors, parts)

    def _path(self, number: int) -> Path:
        return self._folder / f"draws-{number:04}.safetensors"

    def _info(self) -> dict[str, object]:
        return {"sampling": self._fingerprint}
