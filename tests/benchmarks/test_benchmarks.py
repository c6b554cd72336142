"""The stored baselines of our kernels, seeds that train together, a step's parts, tables of memory and whole runs."""

import json
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from bench.cli import USAGE
from bench.cli.main import main
from bench.core.errors import BenchError, ConfigError
from bench.interface import Split, Task
from bench.plan.registry import load_class
from benchmarks import (
    blundell_steps,
    calibration,
    cluster,
    elbo_intervals,
    many_seeds,
    memory,
    search,
    shares,
    verdicts,
    whole,
)
from benchmarks.outsider import __main__ as outsider
from benchmarks.throughput.blocks import MatrixProduct
from benchmarks.throughput.training import Subject
from benchmarks.throughput.yardsticks import YARDSTICKS, names


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


def test_every_approach_with_a_yardstick_has_baselines():
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
    ("called", "kind"),
    [
        (["aten::mm", "aten::matmul", "aten::linear"], shares.PRODUCTS),
        (["aten::addmm_"], shares.PRODUCTS),
        (["aten::normal_", "aten::randn"], shares.RANDOM),
        (["aten::mul"], shares.REST),
        (["aten::mul", "autograd::engine::evaluate_function: MulBackward0"], shares.REST),
        (["aten::addcdiv_", "Optimizer.step#Adam.step"], shares.OPTIMISER),
        (["compiled::fill_normals"], shares.RANDOM),
        (["compiled::draw_weights"], shares.PASSES),
        (["aten::empty", "compiled::draw_weights"], shares.REST),
        (["Optimizer.step#Adam.step"], None),  # Python's own work, as is autograd's
        (["autograd::engine::evaluate_function: MulBackward0"], None),
    ],
)
def test_every_operator_is_of_one_kind(called, kind):
    assert shares.kind_of(called) == kind


def test_a_kinds_seconds_are_its_events_own():
    adam = SimpleNamespace(name="Optimizer.step#Adam.step", self_cpu_time_total=100.0, cpu_parent=None)  # microseconds
    addcdiv = SimpleNamespace(name="aten::addcdiv_", self_cpu_time_total=30.0, cpu_parent=adam)
    products = [SimpleNamespace(name="aten::mm", self_cpu_time_total=t, cpu_parent=None) for t in (500.0, 250.0)]
    assert shares.seconds_of_kinds([adam, addcdiv, *products]) == {shares.OPTIMISER: 30e-6, shares.PRODUCTS: 750e-6}


def test_shares_are_of_the_blocks_own_time():
    side = shares.Profiled(plain=[0.009, 0.010, 0.014])
    side.add(2.0, {shares.PRODUCTS: 1.2}, n_steps=100)
    side.add(8.0, {shares.PRODUCTS: 5.6, shares.REST: 1.6}, n_steps=100)  # a slow block, its parts as slow
    _, _, plain, profiled, *parts, rate = side.line("mlp", "ours", "")
    # products (.6 + .7) / 2, other operators (0 + .2) / 2, none of them (.4 + .1) / 2
    assert [part.value for part in parts] == pytest.approx([0.65, 0.0, 0.0, 0.0, 0.1, 0.25])
    assert (plain.value, profiled.value, rate) == (pytest.approx(10.0), pytest.approx(50.0), "")  # ms: (20 + 80) / 2


def test_the_rate_of_products_is_of_the_same_minute():
    side = shares.Profiled()
    side.add(1.0, {shares.PRODUCTS: 0.5}, n_steps=1)
    side.add(4.0, {shares.PRODUCTS: 2.0}, n_steps=1)
    # 10 operations in .5 s beside 100 in 2.5 s: 20 / 40 a second; in 2 s beside 100 in 10 s: 5 / 10
    assert shares.products_rate(side, [2.5, 10.0], 10.0, 100.0) == 0.5


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("mlp", {shares.PRODUCTS, shares.RANDOM, shares.OPTIMISER, shares.REST}),
        ("linear_bbb", {shares.PRODUCTS, shares.RANDOM, shares.PASSES, shares.REST}),
    ],
)
def test_both_sides_steps_are_profiled(name, kinds):
    from bench.core import compiled

    loop = compiled.fill_normals
    source = torch.Generator().manual_seed(0)
    train = Split("rows", torch.rand(64, 784, generator=source), torch.arange(64) % 10, torch.arange(64))
    yardstick = YARDSTICKS[name](train, 0, sizes=(784, 12, 12, 10))
    approach = load_class(name)(batch_size=8, **yardstick.smallest)
    subject = Subject(approach, Task("classification", 10, 64, 784), train, train, 0, torch.device("cpu"))
    ours, document, products = shares.compare(subject, yardstick, MatrixProduct(torch.device("cpu"), size=64), 2, 0.01)
    assert compiled.fill_normals is loop
    assert len(products) == 2
    for side in (ours, document):
        assert (len(side.plain), len(side.whole), len(side.parts)) == (2, 2, 2)
        assert min(side.plain) > 0
        for seconds, parts in zip(side.whole, side.parts, strict=True):
            assert 0 < parts[shares.PRODUCTS] < sum(parts.values()) < seconds
    assert set(ours.parts[0]) == kinds


AT_THE_LIMITS = {  # 75 min, which were planned to take 30 % more, and 2 GiB
    "part": "all",
    "cells": 24,
    "workers": 2,
    "elapsed_s": 4500.0,
    "planned_s": 5850.0,
    "memory_mib": 2048.0,
    "others_cores": 0.04,
    "matmul_rate": 125e9,
    "provenance": [],
}
needs_proc = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux's /proc")


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, "none"),
        ({"elapsed_s": 4501.0}, "time"),
        ({"memory_mib": 2049.0}, "memory"),
        ({"planned_s": 5851.0}, "plan"),
        ({"planned_s": 3149.0}, "plan"),
        ({"elapsed_s": 9000.0, "memory_mib": 4096.0}, "time, memory, plan"),
        ({"part": "published", "elapsed_s": 1500.0, "planned_s": 1500.0}, "none"),
        ({"part": "published", "elapsed_s": 1501.0, "planned_s": 1500.0}, "time"),
    ],
)
def test_a_whole_run_says_which_limits_it_is_beyond(changed, expected):
    assert whole.beyond({**AT_THE_LIMITS, **changed}) == expected


def test_the_table_of_whole_runs_in_its_units():
    # 4500 s are 75 min, 5850 s 97.5 min, 2048 MiB 2 GiB, 125e9 operations a second 125 Gflop/s
    table = whole.table([AT_THE_LIMITS, {**AT_THE_LIMITS, "part": "published", "others_cores": 0.3}])
    line = [cell if isinstance(cell, str) else cell.value for cell in table.rows[0]]
    assert line == ["every cell", 24, 2, 75.0, 75, 97.5, 2.0, 2.0, 0.04, 125.0, "none"]
    assert [note for note in table.notes if "does not count" in note] == [
        "The time of the published column alone, 2 at a time, does not count: other work beside it."
    ]


PARENT_AND_CHILD = """
import subprocess, sys, time
held = bytearray(b"x") * (200 << 20)
child = "import time; held = bytearray(b'x') * (100 << 20)\\nwhile time.process_time() < 1: pass"
subprocess.run([sys.executable, "-c", child])
time.sleep(0.5)
"""


def cpu_seconds():
    """Return the processor seconds of this process and of the children that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


@needs_proc
def test_memory_and_work_are_those_of_all_processes_of_a_run():
    """A process has 200 MiB and its child 100 MiB at the same time; neither has 300 MiB alone.

    The child works for a second and ends before its parent, and must be counted once. The work of this process (reading
    the memory and adding it up) counts too; beside other load it has been half a second.
    """
    before = cpu_seconds()
    with subprocess.Popen([sys.executable, "-c", PARENT_AND_CHILD]) as process:
        memory_mib, seconds = whole.watch(process, every_s=0.02)  # 25 times after the child's end
    assert 300 < memory_mib < 400
    assert 1 < seconds < cpu_seconds() - before + 0.5  # counted twice, the child's second would be too much


@needs_proc
def test_a_whole_run_of_a_toy(tmp_path, monkeypatch, capsys):
    """The rate and the run are processes of their own, as for a user; the plan is made in this process."""
    output = whole._output

    def planned_here(arguments):
        if "plan" not in arguments:
            return output(arguments)
        assert main(arguments[2:]) == 0
        return capsys.readouterr().out

    monkeypatch.setattr(whole, "_output", planned_here)
    monkeypatch.setattr(whole, "PARTS", {"toy": whole.Part("a toy", ("uniform",), 5)})
    found = whole.measure("toy", tmp_path, 1)
    assert len(list(tmp_path.glob("records/*/*.json"))) == found["cells"] == len(found["provenance"]) == 1
    assert 0 < found["memory_mib"] < 4096
    assert 0 < found["planned_s"] < 3600
    assert 0 < found["elapsed_s"] < 3600
    assert found["matmul_rate"] > 1e8


@needs_proc
def test_parts_are_measured_once_and_kept(tmp_path, monkeypatch, capsys):
    measured = []

    def measure(name, folder, workers):
        measured.append((name, folder.name, workers))
        (folder / "records").mkdir()
        return {**AT_THE_LIMITS, "part": name, "workers": workers}

    def ask(*arguments):
        monkeypatch.setattr(sys, "argv", ["whole", str(new), *arguments, "--results", str(tmp_path / "results")])
        if code := whole.main():
            return code
        return [line for line in capsys.readouterr().out.splitlines() if "every cell" in line or "alone" in line]

    monkeypatch.setattr(whole, "measure", measure)
    new = tmp_path / "new"
    assert len(ask("published")) == 1
    (new / "all-2").mkdir()  # empty
    assert len(ask()) == 2
    assert len(ask()) == 2
    assert len(ask("all", "--workers", "1")) == 3
    assert measured == [("published", "published-2", 2), ("all", "all-2", 2), ("all", "all-1", 1)]
    assert (tmp_path / "results" / "tables" / "whole.md").read_text().count("every cell") == 2
    (new / "all-1.json").unlink()
    assert ask("all", "--workers", "1") == USAGE
    assert "all-1 is not empty" in capsys.readouterr().err.splitlines()[-1]
    (new / "all-1.json").write_text("{")
    assert ask() == USAGE
    assert "cannot be read" in capsys.readouterr().err.splitlines()[-1]


@needs_proc
def test_a_run_that_fails_is_not_measured(tmp_path, monkeypatch):
    with pytest.raises(BenchError, match=r"python -c .* ended with exit code 2"):
        whole._output(["-c", "raise SystemExit(2)"])
    monkeypatch.setitem(whole.PARTS, "all", whole.Part("every cell", ("no-such-approach",), 5))
    planned = {"cells": [], "cells_of_unknown_length": 0, "expected_s": 1.0}
    monkeypatch.setattr(whole, "_output", lambda arguments: json.dumps(planned) if "plan" in arguments else "1e9")
    with pytest.raises(BenchError, match=r"the run in .* ended with exit code 2"):
        whole.measure("all", tmp_path, 1)


@needs_proc
def test_a_cell_that_cannot_run_is_told_before_the_run(tmp_path, monkeypatch):
    planned = {"cells": [{"cell": "mxnet_bbb published", "state": "cannot run here"}], "cells_of_unknown_length": 0}
    monkeypatch.setattr(whole, "_output", lambda arguments: json.dumps(planned))
    with pytest.raises(ConfigError, match="mxnet_bbb published would not be measured"):
        whole.measure("all", tmp_path, 2)


def test_a_part_of_a_table_does_not_replace_the_whole(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(blundell_steps, "line", lambda units: [str(units), *["1"] * (len(blundell_steps.COLUMNS) - 1)])
    for arguments, kept in (["400"], 0), ([], 1), (["400", "--results", "own"], 2):
        monkeypatch.setattr(sys, "argv", ["benchmark", *arguments])
        assert blundell_steps.main() == 0
        assert len(list(tmp_path.iterdir())) == kept
    assert "1200" in (tmp_path / "results" / "tables" / "blundell_steps.md").read_text().split("\n| 400 ")[1]
    assert "\n| 1200 " not in (tmp_path / "own" / "tables" / "blundell_steps.md").read_text()


@pytest.mark.parametrize(
    ("module", "arguments", "message"),
    [
        (memory, ["nowhere"], "no"),
        (memory, ["nowhere", "--draws", "0"], "not a count"),
        (many_seeds, ["nope"], "unknown approach 'nope'"),
        (blundell_steps, ["abc"], "'abc' is not a count"),
        (outsider, ["nope"], "unknown style 'nope'"),
        (outsider, ["--every"], "--every"),
        (verdicts, ["--times", "3"], "give 100 or more"),
        (verdicts, ["--times", "few"], "'few' is not a count"),
        (shares, ["nope"], "unknown approach 'nope'"),
        (shares, ["mxnet_bbb"], "mxnet_bbb runs on MXNet, whose operators PyTorch's profiler does not see"),
        (whole, ["new", "everything"], "unknown part 'everything'"),
        (elbo_intervals, ["--models", "0"], "'0' is not a count"),
        (search, ["swag", "--epochs", "-1"], "'-1' is not a count"),
        (cluster, ["now"], "now"),
    ],
)
def test_nonsense_ends_the_benchmarks_with_a_line(module, arguments, message, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["benchmark", *arguments])
    assert module.main() == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not list(tmp_path.iterdir())
