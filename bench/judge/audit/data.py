"""The rules for the data sets: images that are in two sets, classes without rows, pixels of another range."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from bench.core.errors import DataMissing
from bench.data.manifest import OOD_NAMES
from bench.data.splits import load_ood, load_split
from bench.interface import Split
from bench.judge.audit.rules import Finding

SUBJECT = "data"
SEED = 0  # of the rows that are held out, and of the noise
NOISE = "noise_gaussian"  # made in the network's input space, with values outside the range of pixels on purpose


def audit_data(data_dir: Path | None = None) -> Iterator[Finding]:
    """Compare the training rows, the test rows and every out-of-distribution set that is present.

    Raises:
        DataMissing, DataCorrupt: MNIST is not there, or not intact.
    """
    names = ("train60k", "test10k", "train50k", "heldout10k-of-train")
    train, test, part, held_out = (load_split(name, SEED, data_dir) for name in names)
    shared = len(set(part.rows.tolist()) & set(held_out.rows.tolist()))
    detail = f"train50k and heldout10k-of-train share {shared} rows of the training file"
    yield Finding("test-looked-at", SUBJECT, "fails" if shared else "passes", detail, {"rows": shared})
    hashes = {split.name: image_keys(split.x) for split in (train, test)}
    yield shared_rows(hashes, "train60k", "test10k")
    for split in (train, test):
        yield classes(split)
    for name in OOD_NAMES:
        try:
            outside = load_ood(name, SEED, data_dir)
        except DataMissing as error:
            yield Finding("overlap", SUBJECT, "not measured", str(error))
            continue
        hashes[name] = image_keys(outside.x)
        for inside in ("train60k", "test10k"):
            yield shared_rows(hashes, inside, name)
        yield pixel_range(outside, train)


def image_keys(x: Tensor) -> set[bytes]:
    """Return one key for each image of [N, D]: its 8-bit pixels, or all its numbers if they are not 8-bit."""
    scaled = (x * 255).round()
    whole = bool(((scaled / 255 - x).abs() < 1e-6).all())
    rows = scaled.to(torch.uint8).numpy() if whole else x.numpy()
    return {row.tobytes() for row in rows}


def shared_rows(hashes: dict[str, set[bytes]], one: str, other: str) -> Finding:
    """Count the images that two sets share."""
    shared = len(hashes[one] & hashes[other])
    detail = f"{one} and {other} share {shared} images, byte for byte"
    return Finding("overlap", SUBJECT, "fails" if shared else "passes", detail, {"images": shared})


def classes(split: Split, n_classes: int = 10) -> Finding:
    """Look for classes without rows."""
    counts = torch.bincount(split.y, minlength=n_classes)
    empty = (counts == 0).nonzero().flatten().tolist()
    if empty:
        return Finding("dropped-class", SUBJECT, "fails", f"{split.name} has no row of classes {empty}")
    detail = f"{split.name} has {int(counts.min()):,} to {int(counts.max()):,} rows of each of {n_classes} classes"
    return Finding("dropped-class", SUBJECT, "passes", detail)


def pixel_range(outside: Split, inside: Split) -> Finding:
    """Compare the ranges of two sets' pixels. A range does not show whether images are rotated or transposed."""
    low, high = float(outside.x.min()), float(outside.x.max())
    detail = f"pixels of {outside.name} go from {low:.3g} to {high:.3g}"
    if low >= float(inside.x.min()) and high <= float(inside.x.max()):
        return Finding("ood-transform", SUBJECT, "passes", f"{detail}, within those of the digits")
    if outside.name == NOISE:
        return Finding("ood-transform", SUBJECT, "known", f"{detail}: noise in the input space, as feldman2018 made it")
    return Finding("ood-transform", SUBJECT, "fails", f"{detail}, the digits' from 0 to 1")
