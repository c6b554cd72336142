"""`python -m pytest benchmarks` compares our kernels with the baselines; --renew-baselines stores new ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from benchmarks.calibration import THREADS, Calibration, ratio, read_baselines, verdict, write_baselines

ROUNDS, WARM_UP = 15, 2

Compare = Callable[[str, Callable[[], object]], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that stores instead of comparing."""
    parser.addoption("--renew-baselines", action="store_true", help="store the ratios as benchmarks/baselines.json")


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """Let PyTorch use as many threads as when the baselines were measured."""
    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def found(request: pytest.FixtureRequest) -> Iterator[dict[str, float]]:
    """Collect the ratios of the session; store them at its end if asked to."""
    ratios: dict[str, float] = {}
    yield ratios
    if request.config.getoption("--renew-baselines") and ratios:
        write_baselines(ratios)


@pytest.fixture
def compare(benchmark, request: pytest.FixtureRequest, found: dict[str, float]) -> Compare:
    """Return the function that times a kernel, with a calibration before each round, and fails if it is too slow."""

    def run(name: str, kernel: Callable[[], object]) -> None:
        calibration = Calibration()
        benchmark.pedantic(kernel, setup=calibration, rounds=ROUNDS, warmup_rounds=WARM_UP)
        if benchmark.disabled:
            return
        found[name] = ratio(benchmark.stats.stats.data, calibration.seconds[WARM_UP:])
        benchmark.extra_info["calibrations"] = found[name]
        if not request.config.getoption("--renew-baselines"):
            problem = verdict(name, found[name], read_baselines())
            assert not problem, problem

    return run
