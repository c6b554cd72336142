"""The streams of random numbers and the rows they choose: integers exactly, numbers in float64."""

import torch

from bench.core.noise import fill_normals, fill_words
from bench.core.streams import generator, normals, stream_seed, uniforms
from bench.data.splits import load_ood, load_shared, load_split, toy_split
from tests.golden.numbers import Trace, digest_of

NAMES = ("init", "shuffle", "noise", "draw", "shared-draw", "split", "ood", "test-order")


def streams_trace():
    """Return seeds of streams, words, normals, permutations and splits."""
    found = Trace()
    for name in NAMES:
        for index in ((), (1,), (2, 3)):
            found.exact[f"stream_seed/{name}/{index}"] = str(stream_seed(7, name, *index))
    rows = torch.tensor([0, 3, 70_000, 2**40])
    words = fill_words(torch.empty(4, 700, dtype=torch.int64), stream_seed(0, "words"), rows)
    found.exact["words"] = digest_of(words.numpy())
    found.array("normals", fill_normals(torch.empty(4, 700, dtype=torch.float64), stream_seed(0, "normals"), rows))
    for n in (15, 32, 700):
        found.array(f"generator/normals/{n}", normals(n, generator(3, "init"), torch.float64))
    found.array("generator/uniforms", uniforms(700, 0.05, generator(3, "init"), torch.float64))
    found.exact["randperm"] = digest_of(torch.randperm(5000, generator=generator(3, "shuffle", 1)).numpy())
    return found


def data_trace():
    """Return which rows each split has, and sums of their pixels."""
    found = Trace()
    for name in ("train60k", "test10k", "train50k", "heldout10k-of-train"):
        split = load_split(name, 1)
        found.exact[f"{name}/rows"] = digest_of(split.rows.numpy())
        found.exact[f"{name}/labels"] = digest_of(split.y.numpy())
        _pixels(found, name, split)
    shared, places = load_shared("train50k", [1, 2])
    found.exact["train50k/shared"] = digest_of(shared.rows[places].numpy())
    for name in ("noise_gaussian", "noise_uniform", "fashion_mnist", "letters"):
        split = load_ood(name, 1, dtype=torch.float64)
        found.exact[f"{name}/length"] = len(split)
        _pixels(found, name, split)
    points = toy_split()
    found.number("toy/x", (points.x.double().flatten() @ torch.arange(6.0, dtype=torch.float64)).item())
    found.number("toy/y", (points.y.double().flatten() @ torch.arange(6.0, dtype=torch.float64)).item())
    return found


def _pixels(found, name, split):
    found.array(f"{name}/pixels", split.x[:200])
