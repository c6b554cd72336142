"""Speeds beside stored baselines and beside other people's libraries; seeds together; one-line errors of programs."""

import importlib.metadata
import json
import sys

import pytest
import torch

from bench.cli import USAGE
from bench.interface import Split, Task
from bench.plan.registry import load_class
from benchmarks import calibration, elbo_intervals, many_seeds, memory, power, trial, verdicts
from benchmarks.libraries.loops import LOOPS
from benchmarks.libraries.measure import LIBRARIES, Amounts, Compared, library_speed_table, measured, turns
from benchmarks.throughput.documents import names
from benchmarks.throughput.training import Subject


def test_ratio_is_the_median_of_the_rounds_own():
    # 2/1, 30/10, 4/1: a round in which everything took ten times as long counts like any other
    assert calibration.ratio([2.0, 30.0, 4.0], [1.0, 10.0, 1.0]) == 3.0


def test_only_more_than_twice_the_baseline_is_too_slow():
    assert [calibration.verdict("kernel", found, {"kernel": 2.0}) for found in (0.1, 4.0)] == ["", ""]
    assert "took 2: more than 2 times" in calibration.verdict("kernel", 4.1, {"kernel": 2.0})
    assert "--renew-baselines" in calibration.verdict("new", 1.0, {})


def test_renewing_keeps_what_was_not_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)  # as the session has them again when it ends
    path = tmp_path / "baselines.json"
    assert calibration.read_baselines(path) == {}
    calibration.write_baselines({"a": 1.23456, "b": 2.0}, path)
    calibration.write_baselines({"b": 3.0}, path)
    assert calibration.read_baselines(path) == {"a": 1.23, "b": 3.0}
    made = json.loads(path.read_text())["made"]
    assert made["cpu"]
    assert made["threads"] == calibration.THREADS == 1


def test_every_approach_of_a_document_has_baselines():
    stored = calibration.read_baselines()
    assert {f"{name} {kind}" for name in names() for kind in ("training", "prediction")} <= set(stored)


def test_seeds_together_are_counted_in_fits_alone(monkeypatch):
    # eight seeds together take 10 s; alone each takes 2 s, so that 10 s are as long as 5 fits; then 12 s and 6
    times = iter([10.0, *[2.0] * 8, 12.0, *[2.0] * 8])
    asked = []
    monkeypatch.setattr(many_seeds, "seconds", lambda subject, seeds, steps: asked.append(list(seeds)) or next(times))
    name, n_seeds, together, _, alone, _, fits, span = many_seeds.line(None, "mlp", 8, rounds=2)
    assert (name, n_seeds, together.value, alone.value, fits.value) == ("mlp", "8", 11.0, 16.0, 5.5)
    assert span == "5.00 - 6.00"
    assert asked == [list(range(8)), *([seed] for seed in range(8))] * 2


@pytest.mark.parametrize("n_seeds", [1, 3])
def test_seconds_of_seeds_are_those_of_the_last_epoch_of_all_of_them(n_seeds, monkeypatch):
    source = torch.Generator().manual_seed(0)
    train = Split("train60k", torch.rand(64, 6, generator=source), torch.arange(64) % 10, torch.arange(64))
    approach = load_class("mlp")(width=12, batch_size=8)
    subject = Subject(approach, Task("classification", 10, 64, 6), train, train, 0, torch.device("cpu"))
    ticks = []
    monkeypatch.setattr(many_seeds.Stopwatch, "start", lambda self: None)
    monkeypatch.setattr(many_seeds.Stopwatch, "stop", lambda self: ticks.append(0) or float(len(ticks)))
    # the clock of the first seed is read first in each epoch: as reading n_seeds + 1 in the second
    assert many_seeds.seconds(subject, range(n_seeds), steps=2) == n_seeds + 1
    assert len(ticks) == 2 * n_seeds


@pytest.mark.parametrize(
    ("module", "arguments", "message"),
    [
        (memory, ["nowhere"], "no"),
        (memory, ["nowhere", "--draws", "0"], "not a count"),
        (many_seeds, ["nope"], "unknown approach 'nope'"),
        (power, ["kl"], "unknown fault 'kl'"),
        (power, [], "FAULT"),
        (trial, ["nowhere", "elsewhere"], "elsewhere"),
        (verdicts, ["--times", "3"], "give 100 or more"),
        (verdicts, ["--times", "few"], "'few' is not a count"),
        (elbo_intervals, ["--models", "0"], "'0' is not a count"),
    ],
)
def test_nonsense_ends_the_benchmarks_with_a_line(module, arguments, message, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["benchmark", *arguments])
    assert module.main() == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not list(tmp_path.iterdir())


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
