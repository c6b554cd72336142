"""Counter-based noise and the compiled passes: the published words, the right distributions, fast = plain."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bench.core import noise
from bench.core.streams import StepNoise
from implementations._kernels.flat_adam import FlatAdam
from implementations._kernels.layout import Layout
from implementations._kernels.sampled_mlp import Objective, SampledMlp, categorical_nll
from tests.implementations.roundings import LOG, SLOPE, SOFTPLUS, UNIT, added, assert_within, normals_bound

compiled = pytest.importorskip("bench.core.compiled", reason="numba is not installed")

WHOLE_ROW = torch.tensor([0])


# --- random numbers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [  # known answers of Random123 1.14 (kat_vectors, philox4x32 10)
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_published_words(counter, key, words):
    assert tuple(int(word) for word in noise._philox(*map(torch.tensor, counter), *key)) == words
    assert tuple(compiled.philox(*map(np.uint32, counter), *map(np.uint32, key))) == words


@settings(max_examples=40, deadline=None)
@given(
    key=st.integers(0, 2**63 - 1), rows=st.lists(st.integers(0, 2**40), min_size=1, max_size=5), n=st.integers(1, 700)
)
def test_compiled_numbers_are_the_plain_ones(key, rows, n):
    rows = torch.tensor(rows)
    words = noise.fill_words(torch.empty(len(rows), n, dtype=torch.int64), key, rows)
    halves = noise.plain_words(key, rows, 2 * n)
    assert torch.equal(words, halves[:, 0::2] | halves[:, 1::2] << 32)
    normals = noise.fill_normals(torch.empty(len(rows), n), key, rows)
    exact = noise.fill_normals(torch.empty(len(rows), n, dtype=torch.float64), key, rows)
    assert torch.equal(exact, noise.plain_normals(key, rows, n, torch.float64))
    check_normals(normals, exact, key, rows)
    check_normals(noise.plain_normals(key, rows, n), exact, key, rows)


def check_normals(normals, exact, key, rows):
    """Assert that float32 normals [B, n] are the float64 ones up to rounding."""
    n = exact.shape[1]
    blocks = noise.plain_normals(key, rows, -(-n // (4 * noise.LANES)) * 4 * noise.LANES, torch.float64)
    assert_within(normals, exact, normals_bound(blocks)[:, :n])


def test_without_the_compiler_the_numbers_are_the_same():
    fast = StepNoise(5).words_(torch.empty(9, dtype=torch.int64)), StepNoise(5).normals_(torch.empty(300))
    threads = torch.get_num_threads()
    with noise.without_compiling():
        assert noise.compiled_loops() is None
        assert torch.get_num_threads() == 1
        assert torch.equal(fast[0], StepNoise(5).words_(torch.empty(9, dtype=torch.int64)))
        check_normals(
            StepNoise(5).normals_(torch.empty(300)).view(1, -1),
            noise.plain_normals(5, WHOLE_ROW, 300, torch.float64),
            5,
            WHOLE_ROW,
        )
    assert noise.compiled_loops() is not None
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("threads", [1, 2])
def test_a_longer_row_begins_like_a_shorter_one_with_any_number_of_threads(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        long = noise.fill_normals(torch.empty(1, 100_000), 7, WHOLE_ROW)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(long[:, :1000], noise.fill_normals(torch.empty(1, 1000), 7, WHOLE_ROW))


def test_normals_are_standard_normals():
    # 2^21 numbers: Kolmogorov and Smirnov's distance times sqrt(n) exceeds 2.5 with probability 2 exp(-2 2.5^2) = 7e-6
    values = noise.fill_normals(torch.empty(4, 2**19), 11, torch.arange(4)).double().flatten()
    distance = stats.kstest(values.numpy(), "norm").statistic
    assert distance * math.sqrt(len(values)) < 2.5
    # tolerance: beyond 4 sigma are 6.33e-5 n = 132.8 numbers, standard deviation 11.5; five of them, one in 2 million
    assert abs(int((values.abs() > 4).sum()) - 132.8) < 5 * 11.5
    # both numbers of a pair, and neighbours
    blocks = values.view(-1, 2, 2, noise.LANES)
    # tolerance: five standard deviations of the mean of n / 2 products, which have variance 1
    assert abs((blocks[:, :, 0] * blocks[:, :, 1]).mean().item()) < 5 * 0.001
    # tolerance: products of squares have variance 3^2 - 1, below 3^2
    assert abs((blocks[:, :, 0].square() * blocks[:, :, 1].square()).mean().item() - 1) < 5 * 3 / math.sqrt(2**20)
    # tolerance: of n products, standard deviation n^-1/2 = 0.0007
    assert abs((values[1:] * values[:-1]).mean().item()) < 5 * 0.0007


def test_the_largest_normal_comes_from_the_smallest_word():
    # u = 2^-33: sqrt(-2 log u) = sqrt(66 log 2) = 6.7638; the word 0 for the angle gives (1, 0)
    largest = compiled.normal_pair(np.uint32(0), np.uint32(0))
    # tolerance: half the error of the logarithm, three roundings
    assert largest == pytest.approx((math.sqrt(66 * math.log(2)), 0), rel=LOG / 2 + 3 * UNIT, abs=0)
    # the largest word rounds to u = 1: radius 0
    assert compiled.normal_pair(np.uint32(2**32 - 1), np.uint32(5)) == (0, 0)


# --- functions and passes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1e-30, 2.0**-33, 0.0024, 0.5, 0.7071067, 0.7071068, 1.0, 1.0000001, 3.0, 88.0])
def test_logarithm(value):
    value = np.float32(value)
    # tolerance: LOG; below 1e-7 (of 1.0000001) the terms that it counts are exact
    assert compiled.log32(value) == pytest.approx(math.log(value), rel=LOG, abs=0)


@pytest.mark.parametrize("rho", [-80.0, -20.0, -6.0, -0.3, 0.0, 1e-3, 5.0, 60.0])
def test_softplus_and_its_slope(rho):
    sigma, slope = compiled.softplus32(np.float32(rho))
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
    monkeypatch.setattr(compiled, "SERIAL_BELOW", 100)  # so that two threads share even this small network
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
    return added(compiled.STRIDE) * UNIT * terms.sum(-1) + SOFTPLUS * shape[-1]


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


def test_a_kernel_that_cannot_be_compiled_is_reported(monkeypatch):
    def refuse(*_):
        raise RuntimeError("no compiler\nmore")

    monkeypatch.setattr(torch, "compile", lambda plain, dynamic: refuse)
    with pytest.warns(RuntimeWarning, match=r"no kernel for noise on cpu.*RuntimeError: no compiler$"):
        assert noise.fused(noise.words_of_blocks, torch.device("cpu")) is None
