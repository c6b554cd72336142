"""The fast forms of Pyro's HiddenLayer give its values and gradients."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyro.contrib.bnn import HiddenLayer
from torch.distributions import Normal, kl_divergence
from torch.nn import functional

from implementations._kernels.hidden_layer import FusedHiddenLayer, MatmulHiddenLayer, Weights
from tests.close import DOUBLE, EXP, LOG, UNIT, added, assert_within


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
