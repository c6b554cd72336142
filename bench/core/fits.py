"""Stored posteriors, and the descriptions that are stored with the tensors of a posterior or a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from bench.core.reasons import Reason
from bench.core.records import (
    Epoch,
    EpochNumber,
    Fields,
    Key,
    NetworkSize,
    Provenance,
    StoredNumber,
    Timings,
    Versions,
    check_order,
)
from bench.core.store import Store

if TYPE_CHECKING:
    import torch

T = TypeVar("T", bound=msgspec.Struct)


class FitInfo(Fields, frozen=True, kw_only=True):
    """The description of a posterior: the fields of a record that do not depend on how the fit is measured."""

    fit_key: str
    epochs: list[Epoch]
    timings: Timings
    model: NetworkSize
    provenance: Provenance
    versions: Versions | None = None

    def __post_init__(self) -> None:
        check_order(self.epochs)


class OpenEpoch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An epoch in a checkpoint. `with_measuring_s` is its training time plus the time of measuring after it."""

    epoch: EpochNumber
    metrics: dict[Key, StoredNumber]
    seconds: float = 0.0
    with_measuring_s: float = 0.0

    def closed(self) -> Epoch:
        """Return the epoch in the form of a record."""
        return Epoch(epoch=self.epoch, seconds=self.seconds, metrics=self.metrics)


class SeedProgress(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The epochs of one seed in a checkpoint, and why it diverged, if it did."""

    epochs: list[OpenEpoch]
    diverged: Reason | None


class CheckpointInfo(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The description of a checkpoint: all its seeds are at the same epoch."""

    epoch: EpochNumber
    seeds: dict[str, SeedProgress]
    fit_keys: dict[str, str]
    versions: Versions | None = None


def described(info: object, kind: type[T]) -> T:
    """Return the description of a stored posterior or checkpoint; raises ValueError if this version cannot read it."""
    try:
        return msgspec.convert(info, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"its description does not have the fields of this version: {error}") from error


def read_posterior(
    store: Store, fit_key: str, path: Path | None = None
) -> tuple[dict[str, torch.Tensor], FitInfo] | None:
    """Return the tensors and the description of a fit's posterior. Every reader of posteriors calls this function.

    Args:
        store: the results folder.
        fit_key: the key of the fit.
        path: another place than `Store.fit_path` gives.

    Returns:
        None if there is no posterior, or if it is damaged or of another fit, which a warning says.

    Raises:
        StoreError: the machine is short of memory or of open files.
    """
    place = store.fit_path(fit_key, "posterior") if path is None else path
    found = store.read_tensors(place, lambda info: described(info, FitInfo).fit_key == fit_key)
    return None if found is None else (found[0], described(found[1], FitInfo))
