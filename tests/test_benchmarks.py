"""The stored baselines of our kernels: ratios, verdicts, and the file."""

import json

import pytest

from bench.throughput.yardsticks import names
from benchmarks import calibration


def test_ratio_is_the_median_of_the_rounds_own():
    # 2/1, 30/10, 4/1: a round in which everything took ten times as long weighs no more than the others
    assert calibration.ratio([2.0, 30.0, 4.0], [1.0, 10.0, 1.0]) == 3.0


@pytest.mark.parametrize(("found", "wrong"), [(0.1, False), (3.0, False), (4.0, False), (4.1, True)])
def test_only_more_than_twice_the_baseline_is_too_slow(found, wrong):
    problem = calibration.verdict("kernel", found, {"kernel": 2.0})
    assert bool(problem) == wrong
    assert not wrong or "took 2: more than 2 times" in problem


def test_a_kernel_without_baseline_says_how_to_make_one():
    assert "--renew-baselines" in calibration.verdict("new", 1.0, {})


def test_renewing_keeps_what_was_not_measured(tmp_path):
    path = tmp_path / "baselines.json"
    assert calibration.read_baselines(path) == {}
    calibration.write_baselines({"a": 1.23456, "b": 2.0}, path)
    calibration.write_baselines({"b": 3.0}, path)
    assert calibration.read_baselines(path) == {"a": 1.23, "b": 3.0}
    assert json.loads(path.read_text())["made"]["cpu"]


def test_calibration_remembers_its_seconds():
    work = calibration.Calibration()
    work()
    work()
    assert len(work.seconds) == 2
    assert min(work.seconds) > 0


def test_every_approach_with_a_yardstick_has_baselines():
    stored = calibration.read_baselines()
    assert {f"{name} {kind}" for name in names() for kind in ("training", "prediction")} <= set(stored)
