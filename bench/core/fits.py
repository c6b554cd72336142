"""What is kept beside the tensors of a fitted posterior and of a checkpoint."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from bench.core.reasons import Reason
from bench.core.records import Epoch, Fields, NetworkSize, Number, Provenance, Timings, Versions

T = TypeVar("T", bound=msgspec.Struct)


class FitInfo(Fields, frozen=True, kw_only=True):
    """What is said of a fit: the fields of a record that do not depend on how the fit is measured."""

    fit_key: str
    epochs: list[Epoch]
    timings: Timings
    model: NetworkSize
    provenance: Provenance
    versions: Versions | None = None


class OpenEpoch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An epoch of a fit that goes on, with the time that includes the measuring after it."""

    epoch: int
    metrics: dict[str, Number]
    seconds: float = 0.0
    with_measuring_s: float = 0.0

    def closed(self) -> Epoch:
        """Return the epoch as a record has it."""
        return Epoch(epoch=self.epoch, seconds=self.seconds, metrics=self.metrics)


class SeedProgress(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How far one seed of a checkpoint is."""

    epochs: list[OpenEpoch]
    diverged: Reason | None


class CheckpointInfo(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a checkpoint holds: seeds that are all at the same epoch."""

    epoch: int
    seeds: dict[str, SeedProgress]
    fit_keys: dict[str, str]
    source_sha256: str


def fit_info(info: object) -> FitInfo:
    """Return what is said of a kept posterior; raises ValueError where it has not the form of today."""
    return _converted(info, FitInfo)


def checkpoint_info(info: object) -> CheckpointInfo:
    """Return what is said of a checkpoint; raises ValueError where it has not the form of today."""
    return _converted(info, CheckpointInfo)


def _converted(info: object, kind: type[T]) -> T:
    try:
        return msgspec.convert(info, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"its description has not the form of this version: {error}") from error
