"""One hash for the rows of a split, so that a record can say what was learnt from, and a gate see when that changes."""

from __future__ import annotations

import hashlib

from torch import Tensor

from bench.interface import Split

PIXELS_EVERY = 64  # rows between two whose pixels are hashed; the bytes of the file have a hash of their own


def split_hash(split: Split, places: Tensor | None = None) -> str:
    """Return the SHA-256 of the places of rows in their file, in order, their labels, and the pixels of some.

    Args:
        split: the rows.
        places: int64 [N], which of the split's rows are meant, in this order; None for all.
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
