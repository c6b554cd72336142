"""Speeds beside other people's libraries: the order of measurements, intervals computed by hand, and the table."""

import importlib.metadata
from dataclasses import replace

import pytest
import torch

from bench.core.records import Provenance
from benchmarks.libraries.loops import LOOPS
from benchmarks.libraries.measure import Amounts, measured, turns
from benchmarks.libraries.table import (
    COLUMNS,
    LIBRARIES,
    Compared,
    LibrarySpeeds,
    library_speed_table,
    median_interval,
    ratio,
)

TINY = Amounts(rounds=3, block_s=1e-6, predict_rounds=2, draws=2, images=20)


@pytest.mark.parametrize(
    ("n", "k"),
    [
        # the largest k with P(Binomial(n, 1/2) <= k - 1) <= .025, at least 1
        (3, 1),  # P(0) = 1/8
        (6, 1),  # P(0) = 1/64 = .016; P(1 or less) = 7/64
        (11, 2),  # P(1 or less) = 12/2048 = .006; P(2 or less) = 67/2048 = .033
        (21, 6),  # P(5 or less) = 27896/2^21 = .0133; P(6 or less) = 82160/2^21 = .039
    ],
)
def test_an_interval_of_a_median_is_two_of_the_ordered_values(n, k):
    assert median_interval([float(value) for value in reversed(range(n))]) == (k - 1, n - k)


def test_a_ratio_is_the_median_of_the_rounds_own():
    """The ratios are 2/1, 4/8 and 9/3: a round in which both sides were slow counts like any other."""
    assert ratio([2.0, 4.0, 9.0], [1.0, 8.0, 3.0]) == (2.0, 0.5, 3.0)


@pytest.mark.parametrize("rounds", [1, 2, 5, 21])
def test_the_order_of_a_round_alternates(rounds):
    """Even rounds have the order adapter, library, kernels; odd rounds have the opposite order."""
    order, after = [], turns(rounds, ["library", "kernels"])
    assert next(after) == []  # the warm-up
    for blocks in after:
        order += ["adapter", *blocks]
    found = [order[start : start + 3] for start in range(0, len(order), 3)]
    assert found == [["adapter", "library", "kernels"], ["kernels", "library", "adapter"]] * (rounds // 2) + (
        [["adapter", "library", "kernels"]] if rounds % 2 else []
    )


@pytest.mark.parametrize("library", list(LIBRARIES))
def test_each_library_is_measured_beside_ours(library):
    package = LOOPS[library][0]
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed (extra 'libraries')")
    before = torch.get_num_threads()
    try:
        found, _ = measured(library, TINY, threads=1)
    finally:
        torch.set_num_threads(before)
    sides = {("step", "adapter"): 3}
    if library != "posteriors sghmc":
        sides |= {("step", "kernels"): 3, ("predict", "kernels"): 2, ("predict", "per_row"): 2}
    assert {(one.what, one.side): len(one.seconds) for one in found} == sides
    for one in found:
        assert len(one.library_seconds) == len(one.seconds)
        assert all(value > 0 for value in [*one.seconds, *one.library_seconds])


def speeds(**changes):
    """torchbnn takes 3 times as long as our kernels for a step, 1.5 times for answers; the adapter's ratio is 1.02."""
    compared = [
        Compared(what=what, library="torchbnn", side=side, seconds=[own] * 21, library_seconds=[theirs] * 21)
        for what, side, own, theirs in (
            ("step", "adapter", 0.0306, 0.03),
            ("step", "kernels", 0.01, 0.03),
            ("predict", "kernels", 8.0, 12.0),
            ("predict", "per_row", 3.0, 12.0),
        )
    ]
    made = LibrarySpeeds(
        batch_size=128,
        draws=100,
        images=10_000,
        versions={"torchbnn": "1.2"},
        load="",
        compared=compared,
        provenance=Provenance(cpu="made-up CPU", threads=2),
    )
    return replace(made, **changes)


def test_the_table_has_ratios_and_says_which_targets_are_reached():
    table = library_speed_table(speeds())
    assert list(table.texts()[0]) == [
        "torchbnn",
        "30.0 ms",
        "3.00 [3.00, 3.00]",
        "12.0 s",
        "1.50 [1.50, 1.50]",
        "4.00 [4.00, 4.00]",
        "1.02 [1.02, 1.02]",
    ]
    notes = " ".join(table.own_notes)
    assert "Target, training step: 2 times as fast as the fastest library, torchbnn: reached." in notes
    assert "Target, answers with whole networks: 2 times as fast as the fastest library, torchbnn: missed." in notes
    assert "Target, adapters: at most 1.05 times the library alone: reached." in notes
    # 2 x 100 draws x 10,000 images x (784 x 400 + 400 x 400 + 400 x 10 = 477,600 weights) = 955.2e9, in 8 s 119.4e9
    assert "955 billion operations in matrix products; ours does 119 billion a second" in notes
    assert "Times do not count" not in notes


def test_the_table_says_what_spoils_it_and_what_is_missing():
    slow = Compared(what="step", library="torchbnn", side="adapter", seconds=[0.04], library_seconds=[0.03])
    notes = " ".join(library_speed_table(speeds(load="other load", compared=[slow])).own_notes)
    assert "Times do not count: other load." in notes
    assert "missed by torchbnn_mlp (1.33)" in notes
    for row in library_speed_table(speeds(compared=[])).texts():
        assert len(row) == len(COLUMNS)
        assert row[1].startswith("not measured")
