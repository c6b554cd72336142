"""One hash for the rows of a split. A record has it, so that a gate notices when the training rows change."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from bench.interface import Split

PIXELS_EVERY = 64  # the pixels of every 64th row are enough: the hash of the whole file is checked when it is read


def split_hash(split: Split, places: Tensor | None = None) -> str:
    """Return the SHA-256 of rows, in order: their places in the file, their labels, and the pixels of every 64th.

    Args:
        split: the rows.
        places: int64 [N], positions in the split of the rows to hash, in this order; None for all rows.
    """
    if places is None:
        places = torch.arange(len(split))
    found = hashlib.sha256()
    for part in (split.rows[places], split.y[places], split.x[places[::PIXELS_EVERY]]):
        plain = part.float() if part.is_floating_point() else part  # the numbers of a float64 split are float32 ones
        found.update(plain.cpu().contiguous().numpy().tobytes())
    return found.hexdigest()
