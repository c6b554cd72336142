"""Speeds beside other people's libraries: the order of measurements, and the table."""

import importlib.metadata

import pytest
import torch

from benchmarks.libraries.loops import LOOPS
from benchmarks.libraries.measure import Amounts, measured, turns
from benchmarks.libraries.table import LIBRARIES, Compared, library_speed_table

TINY = Amounts(rounds=3, block_s=1e-6, predict_rounds=2, draws=2, images=20)


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


def compared(side, own, theirs, what="step"):
    return Compared(what=what, library="torchbnn", side=side, seconds=own, library_seconds=theirs)


def test_the_table_has_ratios_of_the_rounds_own():
    found = [
        compared("adapter", [0.0306, 0.0306], [0.03, 0.03]),
        # the ratios are 2/1, 4/8 and 9/3: a round in which both sides were slow counts like any other
        compared("kernels", [1.0, 8.0, 3.0], [2.0, 4.0, 9.0]),
        compared("kernels", [8.0], [12.0], "predict"),
        compared("per_row", [3.0], [12.0], "predict"),
    ]
    table = library_speed_table(found, 100, 10_000, {"torchbnn": "1.2"}, ["other load"])
    assert table.texts() == [
        [
            *("torchbnn", "30.0 ms", "2.00 (0.500 - 3.00)", "12.0 s", "1.50 (1.50 - 1.50)", "4.00 (4.00 - 4.00)"),
            "1.02 (1.02 - 1.02)",
        ]
    ]
    assert table.notes[:2] == ("Times do not count: other load.", "torchbnn 1.2.")


def test_a_library_that_keeps_networks_has_only_its_adapter():
    (row,) = library_speed_table([compared("adapter", [0.03], [0.03])], 100, 10_000, {}).rows
    assert row[2:6] == [None] * 4
