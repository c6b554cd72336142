"""Rows of data for the cases: NumPy arrays in batches, from a seed."""

import numpy as np


def labelled(sizes: list[int], features: int, classes: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return batches of inputs [B, features] (float32) and labels [B] (int64) that follow them."""
    rng = np.random.default_rng(seed)
    to_logits = rng.normal(size=(features, classes))
    batches = []
    for size in sizes:
        x = rng.normal(size=(size, features)).astype(np.float32)
        y = (x @ to_logits + rng.gumbel(size=(size, classes))).argmax(1)
        batches.append((x, y.astype(np.int64)))
    return batches


def measured(
    sizes: list[int], features: int, outputs: int, seed: int, noise: float = 0.1
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return batches of inputs [B, features] and targets [B, outputs], both float32, with Gaussian noise."""
    rng = np.random.default_rng(seed)
    slope = rng.normal(size=(features, outputs))
    batches = []
    for size in sizes:
        x = rng.normal(size=(size, features)).astype(np.float32)
        y = np.sin(x @ slope) + noise * rng.normal(size=(size, outputs))
        batches.append((x, y.astype(np.float32)))
    return batches
