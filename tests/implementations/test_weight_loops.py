"""Compiled passes equal their plain forms: those over sampled weights, and those of Pyro's hidden layer."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyro.contrib.bnn import HiddenLayer
from torch.distributions import Normal, kl_divergence
from torch.nn import functional

from bench.core.streams import StepNoise
from implementations._kernels.flat_adam import FlatAdam
from implementations._kernels.hidden_layer import FusedHiddenLayer, MatmulHiddenLayer, Weights
from implementations._kernels.layout import Layout
from implementations._kernels.sampled_mlp import Objective, SampledMlp, categorical_nll
from tests.close import DOUBLE, EXP, LOG, SLOPE, SOFTPLUS, UNIT, added, assert_within

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


def identity(x):
    return x


def drawn(seed, layer, draws):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return layer.rsample(torch.Size(draws))


def random_layer(seed, batch, n_inputs, n_units):
    source = torch.Generator().manual_seed(seed)
    normal = [torch.randn(shape, generator=source) for shape in ((batch, n_inputs), (n_inputs, n_units))]
    return normal[0], normal[1], torch.rand(n_inputs, n_units, generator=source) + 0.01


# --- the layer as a matrix product ---------------------------------------------------------------------------------


@given(
    st.integers(0, 999), *(st.integers(1, 6) for _ in "bio"), st.booleans(), st.booleans(), st.sampled_from([(), (3,)])
)
def test_matmul_layer_is_pyros_layer(seed, batch, n_inputs, n_units, with_bias, of_weights, draws):
    x, mean, std = (tensor.double() for tensor in random_layer(seed, batch, n_inputs, n_units))
    options = {"non_linearity": functional.leaky_relu, "KL_factor": 0.3, "include_hidden_bias": with_bias}
    options["weight_space_sampling"] = of_weights
    theirs, ours = HiddenLayer(x, mean, std, **options), MatmulHiddenLayer(x, mean, std, **options)
    expected = drawn(seed, theirs, draws)
    torch.testing.assert_close(drawn(seed, ours, draws), expected, rtol=DOUBLE, atol=DOUBLE)
    assert ours.log_prob(expected) == theirs.log_prob(expected)
    assert ours.KL == theirs.KL


def values_and_gradients(leaves, floor, noise, weights_of_sum, kl_weight):
    """Return activation, KL and the gradients of a layer's sum and KL, float64 or float32 as the leaves are."""
    leaves = [value.detach().clone().requires_grad_() for value in leaves]
    x, mean, log_excess, dropout = leaves
    weights = Weights.of(mean, log_excess, floor, dropout)
    layer = FusedHiddenLayer(
        *leaves,
        weights,
        non_linearity=identity,
        KL_factor=1.0,
        include_hidden_bias=False,
        normals=lambda empty: empty.copy_(noise),
    )
    activation = layer.rsample()
    kl = -layer.log_prob(activation)
    ((activation * weights_of_sum.to(x.dtype)).sum() + kl_weight * kl).backward()
    return weights, [value.detach() for value in (activation, kl, *(leaf.grad for leaf in leaves))]


@pytest.mark.parametrize("kl_weight", [-0.3, 0.7])
@settings(max_examples=20)
@given(st.integers(0, 999))
def test_plain_layer_has_the_values_and_gradients_of_autograd(kl_weight, seed):
    source = torch.Generator().manual_seed(seed)
    shapes = ((6, 7), (7, 9), (7, 9), (6, 9), (6, 9))
    *tensors, noise, weights_of_sum = (torch.randn(shape, generator=source, dtype=torch.float64) for shape in shapes)
    leaves = [*tensors, torch.tensor(0.4, dtype=torch.float64)]
    _, ours = values_and_gradients(leaves, 0.01, noise, weights_of_sum, kl_weight)
    x, mean, log_excess, dropout = leaves = [value.requires_grad_() for value in leaves]
    std = dropout * (0.01 + log_excess.exp())
    activation = x @ mean + (x.square() @ std.square()).sqrt() * noise
    kl = kl_divergence(Normal(mean, std), Normal(torch.zeros_like(mean), torch.ones_like(std))).sum()
    ((activation * weights_of_sum).sum() + kl_weight * kl).backward()
    for found, expected in zip(ours, (activation, kl, *(leaf.grad for leaf in leaves)), strict=True):
        # sums of at most 63 terms, whose sizes are up to some hundred
        torch.testing.assert_close(found, expected.detach(), rtol=DOUBLE, atol=100 * DOUBLE)


@pytest.mark.parametrize("kl_weight", [-0.25, 0.75])
@settings(max_examples=20)
@given(st.integers(0, 999), st.sampled_from([(7, 9), (61, 70)]), st.sampled_from([-3.0, 1.0]))
def test_compiled_layer_is_the_plain_one_in_float64(kl_weight, seed, shape, shift):
    """A row of x has one number, a power of two, and the means are eighths: all products of matrices are exact.

    The larger layer has more weights than a block of the compiled passes.
    """
    source = torch.Generator().manual_seed(seed)
    n_inputs, n_units = shape
    powers = 2.0 ** torch.randint(-1, 2, (n_inputs,), generator=source)
    signs = 2.0 * torch.randint(2, (n_inputs,), generator=source) - 1
    x = torch.diag(signs * powers)[torch.randperm(n_inputs, generator=source)]
    mean = torch.randint(-8, 9, shape, generator=source) / 8
    log_excess, noise = torch.randn(shape, generator=source) + shift, torch.randn(shape, generator=source)
    # mostly of the sign of the noise, so that the gradient of the dropout is no small rest of large terms
    weights_of_sum = noise * torch.tensor([2.0, 1.0, 0.5, -0.25])[torch.randint(4, shape, generator=source)]
    leaves, floor = (x, mean, log_excess, torch.tensor(0.4)), 2.0**-7
    found, fast = values_and_gradients(leaves, floor, noise, weights_of_sum, kl_weight)
    x, mean, log_excess, dropout = leaves = [value.double() for value in leaves]
    noise, grad = noise.double(), weights_of_sum.double()
    expected, plain = values_and_gradients(leaves, floor, noise, grad, kl_weight)
    c = abs(kl_weight)

    # tolerance: relative errors. e^log_excess, + floor, dropout; the square; the quotient (a product with an inverse)
    of_std = EXP + 2 * UNIT
    of_variance = 2 * of_std + UNIT
    of_slope = 2 * EXP + 3 * UNIT
    std, variance, slope = expected.std, expected.variance, expected.slope
    assert_within(found.std, std, of_std * std)
    assert_within(found.variance, variance, of_variance * variance)
    assert_within(found.slope, slope, of_slope * slope)
    # tolerance: a block adds in float32; the blocks are added in float64, as the means' squares, which are exact here
    block = UNIT * added(min(4096, log_excess.numel()))
    of_excess = (of_variance + block) * variance.sum() + UNIT * expected.variance_excess.abs()
    assert_within(found.variance_excess, expected.variance_excess, of_excess)
    log_free = (std / dropout).log()
    of_logs = (EXP + UNIT + (LOG + block) * log_free.abs()).sum()
    assert_within(found.kl, expected.kl, of_excess / 2 + of_logs + UNIT * expected.kl.abs())

    # tolerance: the pre-activations' standard deviation has half the variance's error and the rounding of its root
    of_drawn = of_variance / 2 + UNIT
    drawn = (x.square() @ variance).sqrt()
    activation, kl, grad_x, _, _, grad_dropout = plain
    bounds = [(of_drawn + 2 * UNIT) * (drawn * noise).abs() + UNIT * activation.abs()]
    bounds += [of_excess / 2 + of_logs + UNIT * kl.abs()]  # tolerance: as above
    # tolerance: h = grad noise / drawn has two more roundings; a sum of n products has added(n) and one of each product
    h = (grad * noise / drawn).abs()
    of_h = of_drawn + 2 * UNIT
    sums = UNIT * (added(n_units) + 1)
    means = grad.abs() @ mean.T.abs()
    bounds += [sums * means + (of_h + of_variance + sums + UNIT) * x.abs() * (h @ variance.T) + UNIT * grad_x.abs()]
    # tolerance: c mean, and the sum with an exact product
    bounds += [2 * UNIT * ((c * mean).abs() + (x.T @ grad).abs())]
    # tolerance: slope (v (p + c) - c) with p = (x^2)' h, a rounding each, whatever is multiplied out
    p = x.square().T @ h
    parts = variance * (p + c)
    bounds += [slope * (of_h * variance * p + (of_variance + 3 * UNIT) * parts + (of_slope + 2 * UNIT) * (parts + c))]
    # tolerance: a sum of products, c times the excess, their sum, the quotient
    terms = (grad * noise * drawn).abs().sum()
    of_terms = (of_drawn + 2 * UNIT + UNIT * added(noise.numel())) * terms
    rest = c * (of_excess + UNIT * expected.variance_excess.abs()) + 2 * UNIT * dropout * grad_dropout.abs()
    bounds += [(of_terms + rest) / dropout]
    for float32, exact, bound in zip(fast, plain, bounds, strict=True):
        assert_within(float32, exact, bound)


def test_fused_layer_refuses_what_it_would_get_wrong():
    x, mean, std = random_layer(0, 2, 3, 4)
    weights = Weights.of(mean, std.log(), 0.01, torch.tensor(1.0))
    layer = FusedHiddenLayer(x, mean, std.log(), torch.tensor(1.0), weights, non_linearity=identity, KL_factor=1.0)
    with pytest.raises(RuntimeError, match="draw from"):
        layer.log_prob(x)
    with pytest.raises(NotImplementedError, match="one sample"):
        layer.rsample(torch.Size([2]))
