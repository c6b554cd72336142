"""One hash for the rows of a split. A record keeps it, so that a gate notices when the training rows change."""

from __future__ import annotations

import hashlib

from torch import Tensor

from bench.interface import Split

PIXELS_EVERY = 64  # the pixels of every 64th row are hashed; the whole file has another hash


def split_hash(split: Split, places: Tensor | None = None) -> str:
    """Return the SHA-256 of rows, in order: their places in the file, their labels, and the pixels of every 64th.

    Args:
        split: the rows.
        places: int64 [N], positions in the split of the rows to hash, in this order; None for all rows.
    """
    rows, y, x = split.rows, split.y, split.x
    if places is not None:
        rows, y, x = rows[places], y[places], x[places[::PIXELS_EVERY]]
    else:
        x = x[::PIXELS_EVERY]
    found = hashlib.sha256()
    for part in (rows, y, x):
        found.update(part.cpu().contiguous().numpy().tobytes())
    return found.hexdigest()
