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
    # up to 6.8 in size, from a logarithm and a sine good to some 1e-7 each
    torch.testing.assert_close(normals, noise.plain_normals(key, rows, n), rtol=2e-6, atol=2e-6)


def test_without_the_compiler_the_numbers_are_the_same():
    fast = StepNoise(5).words_(torch.empty(9, dtype=torch.int64)), StepNoise(5).normals_(torch.empty(300))
    threads = torch.get_num_threads()
    with noise.without_compiling():
        assert noise.compiled_loops() is None
        assert torch.get_num_threads() == 1
        assert torch.equal(fast[0], StepNoise(5).words_(torch.empty(9, dtype=torch.int64)))
        torch.testing.assert_close(fast[1], StepNoise(5).normals_(torch.empty(300)), rtol=2e-6, atol=2e-6)
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
    # beyond 4 sigma: 6.33e-5 n = 132.8 numbers, standard deviation 11.5
    assert abs(int((values.abs() > 4).sum()) - 132.8) < 5 * 11.5
    # both numbers of a pair, and neighbours: correlations have standard deviation 1/sqrt(n) = 0.0007
    blocks = values.view(-1, 2, 2, noise.LANES)
    assert abs((blocks[:, :, 0] * blocks[:, :, 1]).mean().item()) < 5 * 0.001
    assert abs((blocks[:, :, 0].square() * blocks[:, :, 1].square()).mean().item() - 1) < 5 * 3 / math.sqrt(2**20)
    assert abs((values[1:] * values[:-1]).mean().item()) < 5 * 0.0007


def test_the_largest_normal_comes_from_the_smallest_word():
    # u = 2^-33: sqrt(-2 log u) = sqrt(66 log 2) = 6.7638; the word 0 for the angle gives (1, 0)
    largest = compiled.normal_pair(np.uint32(0), np.uint32(0))
    assert largest == pytest.approx((math.sqrt(66 * math.log(2)), 0))
    # the largest word rounds to u = 1: radius 0
    assert compiled.normal_pair(np.uint32(2**32 - 1), np.uint32(5)) == pytest.approx((0, 0))


# --- functions and passes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1e-30, 2.0**-33, 0.0024, 0.5, 0.7071067, 0.7071068, 1.0, 1.0000001, 3.0, 88.0])
def test_logarithm(value):
    value = np.float32(value)
    assert compiled.log32(value) == pytest.approx(math.log(value), rel=3e-7, abs=3e-8)


@pytest.mark.parametrize("rho", [-80.0, -20.0, -6.0, -0.3, 0.0, 1e-3, 5.0, 60.0])
def test_softplus_and_its_slope(rho):
    sigma, slope = compiled.softplus32(np.float32(rho))
    rho = float(np.float32(rho))
    assert sigma == pytest.approx(max(rho, 0) + math.log1p(math.exp(-abs(rho))), rel=1e-6)
    assert slope == pytest.approx(1 / (1 + math.exp(-rho)), rel=1e-6)


LAYOUT = Layout((7, 90, 60, 10))  # 6,790 weights: more than one block of a pass
BATCHES = 40.0


STEPS = 5
FACTOR = 4
"""How many times larger the errors of compiled moments may be than those of plain ones, both in float32.

The errors are measured against float64. Both have the same matrix products, and about as many roundings for each
element, in another order. So the root mean squares of the errors over all steps and weights are similar: ratios from
1e-4 to 1 were seen on several instruction sets. A wrong term would be off by thousands of roundings.
"""


def network_of(detach_mu, n_seeds, dtype, is_compiled):
    source = torch.Generator().manual_seed(3)
    objective = Objective(1.5, BATCHES, detach_mu, categorical_nll)
    network = SampledMlp(LAYOUT, objective, 16, n_seeds=n_seeds, dtype=dtype)
    network.mu.copy_(0.3 * torch.randn(network.mu.shape, generator=source))
    network.rho.copy_(-3 + 2 * torch.randn(network.rho.shape, generator=source))
    assert (network._loops is not None) == (dtype == torch.float32)
    if not is_compiled:
        network._loops = None
    return network


@pytest.mark.parametrize("detach_mu", [False, True])
@pytest.mark.parametrize(("threads", "n_seeds"), [(1, 1), (2, 3)])
def test_compiled_steps_err_no_more_than_plain_ones(detach_mu, threads, n_seeds, monkeypatch):
    """Each step starts from the compiled network's state, because Adam enlarges roundings that add up over steps."""
    monkeypatch.setattr(compiled, "SERIAL_BELOW", 100)  # so that two threads share even this small network
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    kinds = {"fast": (torch.float32, True), "plain": (torch.float32, False), "exact": (torch.float64, False)}
    networks = {kind: network_of(detach_mu, n_seeds, *how) for kind, how in kinds.items()}
    adams = {kind: FlatAdam(each.parameters, each.gradient, 1e-3, each.of_seed) for kind, each in networks.items()}
    noises = {kind: [StepNoise(1 + index) for index in range(n_seeds)] for kind in kinds}
    front = () if n_seeds == 1 else (n_seeds,)
    source = torch.Generator().manual_seed(4)
    squares = {kind: dict.fromkeys(("exp_avg", "exp_avg_sq"), 0.0) for kind in ("fast", "plain")}
    try:
        for _ in range(STEPS):
            x = torch.randn(*front, 16, 7, generator=source)
            y = torch.randint(10, (*front, 16), generator=source)
            states = [adams["fast"].state(index) for index in range(n_seeds)]
            found = {}
            for kind, network in networks.items():
                adams[kind].restore(*states)
                loss = network.step(x.to(network.mu.dtype), y, noises[kind], adams[kind]).double()
                assert loss.shape == front
                after = [adams[kind].state(index) for index in range(n_seeds)]
                found[kind] = {name: torch.stack([state[name] for state in after]).double() for name in after[0]}
                found[kind]["loss"] = loss
            start = torch.stack([state["parameters"] for state in states]).double()
            error = (found["fast"]["loss"] - found["exact"]["loss"]).abs()
            assert bool((error.flatten() <= loss_bound(start, networks["exact"].epsilon.view(n_seeds, -1))).all())
            for kind, sums in squares.items():
                for name in sums:
                    sums[name] += (found[kind][name] - found["exact"][name]).square().sum().item()
            check_move(start, found["fast"])
    finally:
        torch.set_num_threads(before)
    for name, square in squares["fast"].items():
        assert square < FACTOR**2 * squares["plain"][name], name


def loss_bound(start, epsilon):
    """Return how far rounding can move a loss [E], for parameters [E, 2 P] and noise [E, P].

    A block adds STRIDE terms in float32. In whatever order they are added, the error exceeds 6 sqrt(STRIDE) 2^-24 times
    the sum of their sizes with probability 3e-8 (Higham & Mary 2019). The likelihood is a tenth of that sum, and has
    chains of 7 + 90 + 60 additions only.
    """
    mu, rho = start.chunk(2, dim=1)
    sigma = torch.nn.functional.softplus(rho)
    terms = sigma.log().abs() + epsilon.square() / 2 + (mu + sigma * epsilon).square() / (2 * 1.5**2)
    return 6 * math.sqrt(compiled.STRIDE) * 2.0**-24 * terms.sum(1) / BATCHES


def check_move(start, after):
    """Assert that the parameters moved as the moments after the step say (Kingma & Ba 2015), up to rounding."""
    step = after["step"][0].item()
    move = 1e-3 * (after["exp_avg"] / (1 - 0.9**step)) / ((after["exp_avg_sq"] / (1 - 0.999**step)).sqrt() + 1e-8)
    # one rounding of the parameter and at most ten of its move
    bound = 2.0**-24 * (start.abs() + 10 * move.abs())
    assert bool(((after["parameters"] - (start - move)).abs() <= bound).all())


def test_a_kernel_that_cannot_be_compiled_is_reported(monkeypatch):
    def refuse(*_):
        raise RuntimeError("no compiler\nmore")

    monkeypatch.setattr(torch, "compile", lambda plain, dynamic: refuse)
    with pytest.warns(RuntimeWarning, match=r"no kernel for noise on cpu.*RuntimeError: no compiler$"):
        assert noise.fused(noise.words_of_blocks, torch.device("cpu")) is None
