"""Move a fit's files between the caller's store and a worker: only files with expected names and correct hashes."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.core.errors import StoreError
from bench.core.files import write_atomically
from bench.core.records import Record
from bench.core.store import Info, Store
from bench.plan.cells import Cell
from bench.plan.computations import checkpoint_key, fit_keys, is_checkpoint_of, is_posterior_of

if TYPE_CHECKING:
    import torch

_log = logging.getLogger("bench")


def outgoing(store: Store, cells: Sequence[Cell]) -> dict[str, bytes]:
    """Return the stored posteriors and the checkpoint of the cells' fit: {path below the store's root: content}.

    A file that cannot be trusted is set aside here, not on the worker: a worker's folder is deleted after the fit.
    """
    by_seed = {str(cell.seed): cell.fit_key for cell in cells}
    checks = [partial(is_posterior_of, fit_key=key) for key in fit_keys(cells)]
    checks.append(partial(is_checkpoint_of, fit_keys=by_seed, approach=cells[0].approach))
    return {
        path.relative_to(store.root).as_posix(): path.read_bytes()
        for path, is_ours in zip(_fit_paths(store, cells), checks, strict=True)
        if store.read_tensors(path, is_ours) is not None
    }


def deliver(store: Store, cells: Sequence[Cell], files: Mapping[str, bytes]) -> dict[str, Record]:
    """Write the files of a worker to the store, and return the records by the cells' keys.

    Files with unexpected names are ignored. A file with a wrong hash counts as absent. No file is written in part.

    Raises:
        StoreError: a record cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="bnn-bench-") as folder:
        arrived = Store(Path(folder))
        records = [arrived.record_path(cell.naming()) for cell in cells]
        for path in (*_fit_paths(arrived, cells), *records, *(record.with_suffix(".npz") for record in records)):
            name = path.relative_to(arrived.root).as_posix()
            if name in files:
                write_atomically(path, files[name])
        made = {cell.key: arrived.find(cell.naming()) for cell in cells}
        delivered = {key: record for key, record in made.items() if record is not None}
        for record in delivered.values():
            store.write(record, arrived.scores(record))
        for path in _fit_paths(arrived, cells):
            found = arrived.read_tensors(path)
            if found is not None:
                _keep(store, store.root / path.relative_to(arrived.root), found)
    if len(delivered) == len(cells):
        store.drop_checkpoint(checkpoint_key(cells))
    return delivered


def _keep(store: Store, path: Path, found: tuple[Mapping[str, torch.Tensor], Info]) -> None:
    """Write a posterior or a checkpoint. If the disk is full, only warn, because the records count without it."""
    try:
        store.write_tensors(path, *found)
    except StoreError as error:
        _log.warning("warning: the %s is not kept: %s", path.stem, error)


def _fit_paths(store: Store, cells: Sequence[Cell]) -> list[Path]:
    posteriors = [store.fit_path(key, "posterior") for key in fit_keys(cells)]
    return [*posteriors, store.fit_path(checkpoint_key(cells), "checkpoint")]
