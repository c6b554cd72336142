"""Pruning: which weights are removed, and the size of the network after it."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.core.errors import ConfigError
from bench.interface import Marginal
from bench.measure.metrics.pruning import prune, pruning_row, pruning_scores, score_name, sparse_bytes


def marginal(mean: list[float], std: list[float] | None, used: list[bool] | None = None) -> Marginal:
    return Marginal(
        torch.tensor(mean), None if std is None else torch.tensor(std), torch.tensor(used or [True] * len(mean))
    )


NETWORK = {
    "w1": marginal([1.0, -4.0, 3.0, 0.0], [1.0, 2.0, 1.0, 0.5]),  # ratios 1, 2, 3, 0
    "w2": marginal([8.0, 0.5], [2.0, 1.0], [False, False]),  # ratios 4, .5; the prediction ignores them
}


def kept(keep: dict[str, torch.Tensor]) -> dict[str, list[bool]]:
    return {name: mask.tolist() for name, mask in keep.items()}


def test_scores() -> None:
    assert score_name(NETWORK) == "|mu|/sigma"
    scores = pruning_scores(NETWORK)
    assert scores["w1"].tolist() == [1, 2, 3, 0]
    assert scores["w2"].tolist() == [4, 0.5]


def test_if_one_tensor_has_no_sigma_all_are_pruned_by_magnitude() -> None:
    network = {"w1": NETWORK["w1"], "w3": marginal([-2.0], None)}
    assert score_name(network) == "|w|"
    assert pruning_scores(network)["w1"].tolist() == [1, 4, 3, 0]
    assert kept(prune(network, 0.4)) == {"w1": [False, True, True, False], "w3": [True]}


def test_weights_without_noise() -> None:
    scores = pruning_scores({"w": marginal([0.0, -1.0], [0.0, 0.0])})
    assert scores["w"].tolist() == [0.0, math.inf]


def test_prune_takes_the_lowest_of_all_tensors() -> None:
    # int(6 * .5) = 3 lowest ratios: 0 and 1 of w1, .5 of w2
    assert kept(prune(NETWORK, 0.5)) == {"w1": [False, True, True, False], "w2": [True, False]}
    # int(6 * .49) = 2
    assert kept(prune(NETWORK, 0.49)) == {"w1": [True, True, True, False], "w2": [True, False]}


def test_equal_scores_are_removed_in_order() -> None:
    network = {"a": marginal([1.0] * 3, None), "b": marginal([-1.0] * 3, None)}
    assert kept(prune(network, 0.7)) == {"a": [False] * 3, "b": [False, True, True]}
    # many weights: short arrays are sorted stably by any method
    many = prune({"w": Marginal(torch.arange(4000.0) % 2, None, torch.ones(4000, dtype=torch.bool))}, 0.25)["w"]
    assert (~many).nonzero().reshape(-1).tolist() == list(range(0, 2000, 2))


def test_row_of_the_pruning_table() -> None:
    row = pruning_row(NETWORK, prune(NETWORK, 0.5))
    # 2 of 4 used weights are gone; kept 2 + 1; w1 sparse: 2 * (4 + 4 + 4) = 24 against dense 4 * 8 = 32; w2 unused: 0
    assert row == {"pruned_of_used": 0.5, "kept": 3, "bytes": 24, "layers": {"w1": 0.5, "w2": 0.5}}
    # without sigma: sparse 2 * (4 + 4) = 16 against dense 4 * 4 = 16
    assert pruning_row(NETWORK, prune(NETWORK, 0.5), with_sigma=False)["bytes"] == 16


def test_bytes() -> None:
    # nothing pruned: dense, 4 weights of value and sigma, no positions
    assert sparse_bytes(NETWORK, prune(NETWORK, 0.0)) == 32
    assert sparse_bytes(NETWORK, prune(NETWORK, 1.0)) == 0
    plain = {"w": marginal([1.0, 2.0, 3.0, 4.0], None)}
    assert sparse_bytes(plain, prune(plain, 0.0)) == 16
    assert sparse_bytes(plain, prune(plain, 0.75)) == 8


@pytest.mark.parametrize(
    ("network", "fraction", "words"),
    [
        (NETWORK, 95.0, "from 0 to 1"),
        (NETWORK, math.nan, "from 0 to 1"),
        ({}, 0.5, "without weights"),
        ({"w": marginal([math.nan], [1.0])}, 0.5, "diverged"),
    ],
)
def test_faults(network: dict[str, Marginal], fraction: float, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        prune(network, fraction)


@st.composite
def networks(draw: st.DrawFn) -> dict[str, Marginal]:
    source = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    shapes = draw(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=4))
    with_sigma = draw(st.booleans())
    return {
        f"layer{i}": Marginal(
            torch.randn(shape, generator=source).round(decimals=1),  # ties
            torch.rand(shape, generator=source) + 0.1 if with_sigma else None,
            torch.rand(shape, generator=source) < 0.7,
        )
        for i, shape in enumerate(shapes)
    }


@given(networks(), st.floats(0, 1), st.booleans())
def test_exactly_the_lowest_scores_are_removed(network: dict[str, Marginal], fraction: float, used_only: bool) -> None:
    keep = prune(network, fraction, used_only)
    scores = pruning_scores(network)
    gone, left, n = [], [], 0
    for name, m in network.items():
        assert keep[name].shape == m.mean.shape
        counted = m.used if used_only else torch.ones_like(m.used)
        assert keep[name][~counted].all()
        n += int(counted.sum())
        values = torch.from_numpy(scores[name])
        gone += values[~keep[name]].tolist()
        left += values[keep[name] & counted].tolist()
    assert len(gone) == int(n * fraction)
    assert max(gone, default=0) <= min(left, default=math.inf)
