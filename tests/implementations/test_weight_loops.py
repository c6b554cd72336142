"""The compiled passes over Gaussian weights: their functions, and a step of Adam, are the plain ones up to rounding."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from bench.core.streams import StepNoise
from implementations._kernels.flat_adam import FlatAdam
from implementations._kernels.layout import Layout
from implementations._kernels.sampled_mlp import Objective, SampledMlp, categorical_nll
from tests.close import SLOPE, SOFTPLUS, UNIT, added, assert_within

noise_loops = pytest.importorskip("bench.core.noise_loops", reason="numba is not installed")
passes = pytest.importorskip("implementations._kernels.passes", reason="numba is not installed")


@pytest.mark.parametrize("rho", [-80.0, -20.0, -6.0, -0.3, 0.0, 1e-3, 5.0, 60.0])
def test_softplus_and_its_slope(rho):
    sigma, slope = passes.softplus32(np.float32(rho))
    rho = float(np.float32(rho))
    # tolerance: the one of softplus32
    assert sigma == pytest.approx(max(rho, 0) + math.log1p(math.exp(-abs(rho))), rel=SOFTPLUS, abs=0)
    assert slope == pytest.approx(1 / (1 + math.exp(-rho)), rel=SLOPE, abs=0)  # tolerance: SLOPE


LAYOUT = Layout((7, 90, 60, 10))  # 6,790 weights: more than one block of a pass
BATCHES = 40.0


def network_of(detach_mu, n_seeds, dtype):
    source = torch.Generator().manual_seed(3)
    objective = Objective(1.5, BATCHES, detach_mu, categorical_nll)
    network = SampledMlp(LAYOUT, objective, 16, n_seeds=n_seeds, dtype=dtype)
    network.mu.copy_(0.3 * torch.randn(network.mu.shape, generator=source))
    network.rho.copy_(-3 + 2 * torch.randn(network.rho.shape, generator=source))
    assert (network._loops is not None) == (dtype == torch.float32)
    return network


def batch(source, n_seeds):
    front = () if n_seeds == 1 else (n_seeds,)
    return torch.randn(*front, 16, 7, generator=source), torch.randint(10, (*front, 16), generator=source)


@pytest.mark.parametrize("detach_mu", [False, True])
@pytest.mark.parametrize(("threads", "n_seeds"), [(1, 1), (2, 3)])
def test_a_compiled_step_is_the_float64_one(detach_mu, threads, n_seeds, monkeypatch):
    """From the same state and noise: the draw, its densities, and Adam's step for the same gradient of the data."""
    monkeypatch.setattr(noise_loops, "SERIAL_BELOW", 100)  # so that two threads share even this small network
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        fast, exact = (network_of(detach_mu, n_seeds, dtype) for dtype in (torch.float32, torch.float64))
        adam, exact_adam = (FlatAdam(each.parameters, each.gradient, 1e-3, each.of_seed) for each in (fast, exact))
        noises = [StepNoise(1 + index) for index in range(n_seeds)]
        source = torch.Generator().manual_seed(4)
        fast.step(*batch(source, n_seeds), noises, adam)  # so that the moments are not zero
        states = [adam.state(index) for index in range(n_seeds)]
        exact_adam.restore(*states)
        x, y = batch(source, n_seeds)
        loss = fast.step(x, y, noises, adam)
        drawn, of_data = fast._weights.clone(), fast.gradient[: len(fast.mu)].double()
        exact.epsilon.copy_(fast.epsilon)
        log_ratio = exact._sample()
        size = exact.mu.abs() + exact._sigma * exact.epsilon.abs()
        # the error of sigma, and one rounding each of the product and the sum
        assert_within(drawn, exact._weights, (SOFTPLUS + 2 * UNIT) * size)
        nll = fast._backpropagate(x, y)  # the draw is still there
        found = (loss - nll) * BATCHES
        # tolerance: of the densities as in `ratio_bound`; the loss is summed in float64, but its NLL is float32
        assert bool(((found - log_ratio).abs() <= ratio_bound(exact) + BATCHES * UNIT * nll).all())
        check_step(exact, exact_adam, of_data, fast, adam, size)
    finally:
        torch.set_num_threads(before)


def ratio_bound(exact):
    """Return how far rounding can move log q - log p, [E], of the draw of a float64 network.

    A block adds STRIDE terms in float32; log sigma has the error of sigma too.
    """
    shape = exact._shape
    sigma, weights, epsilon = (v.view(shape) for v in (exact._sigma, exact._weights, exact.epsilon))
    terms = sigma.log().abs() + epsilon.square() / 2 + weights.square() / (2 * 1.5**2)
    return added(passes.STRIDE) * UNIT * terms.sum(-1) + SOFTPLUS * shape[-1]


def check_step(exact, exact_adam, of_data, fast, adam, size):
    """Assert that both networks' parameters and moments agree after Adam's step on the same gradient G of the data.

    Roundings, each of at most UNIT of its result's size: g = G + pull w has 3 (pull is rounded too) and the error of w.
    g_mu adds 2 and 1 / sigma with its error; g_rho = (g eps - push / sigma) slope adds 4, and the errors of sigma and
    slope. A moment m + .1 (g - m) has 4, one .999 v + .001 g^2 has 4 and twice the error of g. The step divides by
    sqrt(v) c + 1e-8: half the error of v, and 8 more. The parameter is rounded once.
    """
    objective, epsilon, sigma = exact.objective, exact.epsilon.abs(), exact._sigma.clone()
    pull, push = 1 / (objective.prior_std**2 * BATCHES), 1 / BATCHES
    slope, weights = exact.gradient[len(sigma) :].clone(), exact._weights.abs().clone()
    exact.gradient[: len(sigma)] = of_data
    exact._add_complexity()
    before = [exact_adam._adam.state[exact.parameters][name].clone() for name in ("exp_avg", "exp_avg_sq")]
    exact_adam.step()
    from_data = of_data.abs() + pull * weights
    of_g = 3 * UNIT * from_data + pull * (SOFTPLUS + 2 * UNIT) * size
    of_entropy = push / sigma
    of_mu = of_g + 2 * UNIT * from_data
    if objective.detach_mu:
        of_mu = of_mu + (SOFTPLUS + 4 * UNIT) * of_entropy * epsilon
    of_rho = slope * (of_g * epsilon + (SOFTPLUS + SLOPE + 4 * UNIT) * (from_data * epsilon + of_entropy))
    of_gradient, gradient = torch.cat([of_mu, of_rho]), exact.gradient.abs()
    state, found = exact_adam._adam.state[exact.parameters], adam._adam.state[fast.parameters]
    of_first = 0.1 * of_gradient + 4 * UNIT * (before[0].abs() + 0.1 * gradient)
    of_second = 4 * UNIT * before[1] + 0.001 * (2 * gradient * of_gradient + of_gradient**2 + 4 * UNIT * gradient**2)
    step = float(state["step"])
    rate = 1e-3 / (1 - 0.9**step) / ((state["exp_avg_sq"] / (1 - 0.999**step)).sqrt() + 1e-8)
    move = rate * state["exp_avg"].abs()
    of_move = rate * of_first + move * (of_second / (2 * state["exp_avg_sq"]) + 8 * UNIT)
    of_parameter = of_move + UNIT * (exact.parameters.detach().abs() + move)
    assert_within(found["exp_avg"], state["exp_avg"], of_first)
    assert_within(found["exp_avg_sq"], state["exp_avg_sq"], of_second)
    assert_within(fast.parameters.detach(), exact.parameters.detach(), of_parameter)


def test_the_cache_of_a_loop_knows_every_file_that_the_loop_calls(tmp_path, monkeypatch):
    """Numba's cache would not notice a change of another file: the loop's name in the cache has to."""
    from implementations._kernels import mixture_loops

    copies = {}
    for module in (noise_loops, passes, mixture_loops):
        copies[module.__file__] = copy = tmp_path / Path(module.__file__).name
        copy.write_bytes(Path(module.__file__).read_bytes())
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda self: read(copies.get(str(self), self)))
    before = noise_loops._version(mixture_loops._mixture_step)
    for copy in copies.values():
        content = read(copy)
        copy.write_bytes(content + b"\n")
        assert noise_loops._version(mixture_loops._mixture_step) != before
        copy.write_bytes(content)
    assert noise_loops._version(mixture_loops._mixture_step) == before
