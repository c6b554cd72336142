"""mxnet_bbb: its step equals the document's, its predictions MXNet's, and numbers before training a derivation."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from bench.core.errors import MissingFramework
from bench.core.streams import normals_
from bench.interface import Task

try:
    from implementations._mxnet import Prior, TrainingStep, layer_views, mx, mxnet_logits, nd, to_ndarray, to_tensor
except MissingFramework as absent:
    pytest.skip(str(absent), allow_module_level=True)

from documents_code import mxnet_bbb as document
from implementations._kernels.layout import Layout
from implementations.mxnet_bbb import MxnetBbb
from tests.close import DOUBLE, close
from tests.implementations.made_up import context_of, rows

MNIST = Task("classification", n_outputs=10, n_train=60_000, n_inputs=784)
SMALL = Layout((7, 5, 5, 3))
BATCHES = 512  # a power of two, as the learning rates: MXNet's step of SGD keeps its factors in float32
MIXTURE = Prior(0.75, 0.1, 0.25)
CASES = {
    "published": (False, Prior(1.0), document.gaussian_prior),
    "second-hidden-layer": (True, Prior(1.0), document.gaussian_prior),
    "scale-mixture": (False, MIXTURE, document.scale_mixture_prior),
    "narrow-prior": (True, Prior(0.3), lambda x: document.gaussian_prior(x, 0.3)),
}


def document_arrays(layout, flat):
    """The flat vector as the document keeps it: one array a parameter, matrices [in, out]."""
    arrays = [array.t().contiguous().numpy() for layer in layout.layers(flat) for array in layer]
    return [nd.from_numpy(array, zero_copy=False) for array in arrays]


def flatten(arrays):
    return torch.cat([torch.from_numpy(array.asnumpy().T.reshape(-1).copy()) for array in arrays])


def both(layout, case, learning_rate=2.0**-10):
    """Our step and the document's model, started from the same parameters."""
    use_second_hidden, prior, log_prior = CASES[case]
    source = torch.Generator().manual_seed(1)
    mu = torch.randn(layout.n_weights, generator=source, dtype=torch.float64) * 0.1
    rho = torch.randn(layout.n_weights, generator=source, dtype=torch.float64) * 0.1 - 3
    ours = TrainingStep(layout, (True, use_second_hidden, True), prior, BATCHES, learning_rate, mu, rho)
    theirs = document.DocumentBbb(
        document_arrays(layout, mu),
        document_arrays(layout, rho),
        BATCHES,
        learning_rate=learning_rate,
        log_prior=log_prior,
        use_second_hidden=use_second_hidden,
    )
    return mu, rho, ours, theirs, source


@pytest.mark.parametrize("case", CASES)
def test_steps_are_the_documents_in_float64(case):
    mu, rho, ours, theirs, source = both(SMALL, case)
    losses = []
    for _ in range(3):
        x = torch.rand(6, 7, generator=source, dtype=torch.float64) * 2
        y = torch.randint(3, (6,), generator=source)
        noise = torch.randn(SMALL.n_weights, generator=source, dtype=torch.float64)
        ours(to_ndarray(x), to_ndarray(y), noise)
        losses.append(theirs.step(to_ndarray(x), to_ndarray(y), document_arrays(SMALL, noise)))
    assert ours.losses() == close(losses)
    found = ours.parameters()
    for name, start, arrays in (("mu", mu, theirs.mus), ("rho", rho, theirs.rhos)):
        expected = flatten(arrays)
        assert (expected != start).all()
        torch.testing.assert_close(found[name], expected, rtol=DOUBLE, atol=DOUBLE)


U = 2.0**-24  # unit roundoff of float32
# tolerance: oneDNN computes exponentials, logistic functions and logarithms by polynomials, the same for every set of
# instructions. The logarithm of a softmax, which is the worst, was off by 82 U (1 + its size) at most, 4.9e-6.
FUNCTION = 1e-5


def exact_start(layout, source):
    """Return mu, rho, weights and noise whose products and sums are exact in float32, in any order.

    sigma = softplus(128) = 128; mu and sigma noise are mostly 0, else 1/2 or -1/2. The hidden units' biases are odd
    multiples of 1/8 and 1/32 besides, so that no hidden unit is exactly 0.
    """

    def sparse(size):
        drawn = torch.rand(layout.n_weights, generator=source)
        return size * ((drawn < 1 / 64).float() - (drawn > 63 / 64).float())

    mu, noise = sparse(0.5), sparse(2.0**-8)
    for (_, bias), grid in zip(layout.layers(mu), (1 / 8, 1 / 32, 0), strict=True):
        bias.add_(2 * torch.randint(-2, 2, bias.shape, generator=source) + 1, alpha=grid)
    return mu, torch.full_like(mu, 128.0), noise


def gradient_and_bound(layout, used, weights, x, y):
    """Return the likelihood's gradient [P] in float64, and how far float32 may be from it; weights [P] are exact."""
    layers = [layer for layer, is_used in zip(layout.layers(weights), used, strict=True) if is_used]
    gradient, bound = torch.zeros_like(weights), torch.zeros_like(weights)
    views = [
        [layer for layer, is_used in zip(layout.layers(flat), used, strict=True) if is_used]
        for flat in (gradient, bound)
    ]
    inputs = [x]
    for matrix, bias in layers[:-1]:
        inputs.append(torch.relu(inputs[-1] @ matrix.T + bias))
    matrix, bias = layers[-1]
    log_p = torch.log_softmax(inputs[-1] @ matrix.T + bias, 1)
    flow = log_p.exp()
    # an exponential of a logarithm that is off by FUNCTION (1 + its size); the difference from one_hot(y)
    off = flow * (FUNCTION * (2 - log_p)) + 2 * U
    flow = flow - functional.one_hot(y, flow.shape[1])
    for depth in reversed(range(len(layers))):
        rows = len(x) + 1  # terms of a sum over the rows, and a rounding of each product
        for numbers, (to_matrix, to_bias) in zip(
            (flow, off + rows * U * flow.abs()), (v[depth] for v in views), strict=True
        ):
            to_matrix.copy_(numbers.T @ inputs[depth])
            to_bias.copy_(numbers.sum(0))
        if depth:
            matrix, active = layers[depth][0], inputs[depth] > 0
            off = (off + (len(matrix) + 1) * U * flow.abs()) @ matrix.abs() * active
            flow = flow @ matrix * active
    nll = -log_p.gather(1, y[:, None])
    return gradient, bound, (FUNCTION * (1 + nll) + len(x) * U * nll).sum().item()


@pytest.mark.parametrize("case", ["published", "second-hidden-layer", "scale-mixture"])
def test_one_step_of_full_size_in_float32(case):
    """The operators of oneDNN, which serve float32 only, give the loss and gradient of the document in float64."""
    layout = Layout((784, 400, 400, 10))
    use_second_hidden, prior, log_prior = CASES[case]
    used, rate, source = (True, use_second_hidden, True), 2.0**10, torch.Generator().manual_seed(1)
    mu, rho, noise = exact_start(layout, source)
    x = torch.randint(2, (96, 784), generator=source) / 2
    y = torch.randint(10, (96,), generator=source)
    ours = TrainingStep(layout, used, prior, BATCHES, rate, mu, rho)
    ours(to_ndarray(x), to_ndarray(y), noise)
    mu, rho, noise, x = (value.double() for value in (mu, rho, noise, x))
    theirs = document.DocumentBbb(
        document_arrays(layout, mu),
        document_arrays(layout, rho),
        BATCHES,
        learning_rate=rate,
        log_prior=log_prior,
        use_second_hidden=use_second_hidden,
    )
    loss = theirs.step(to_ndarray(x), to_ndarray(y), document_arrays(layout, noise))
    weights = mu + 128 * noise
    gradient, of_gradient, of_nll = gradient_and_bound(layout, used, weights, x, y)
    n_softplus = 0 if prior.share == 1 else layout.n_weights
    energy = weights.square().sum().item() / (2 * prior.std**2)
    of_ratio = layout.n_weights * math.log(128) * 2 * U + n_softplus * FUNCTION + 2 * U * energy
    # tolerance: in float32 there are each logarithm of sigma, each softplus of a mixture's gap, the likelihood, and the
    # sum of squares, which is exact and divided once
    assert ours.losses() == pytest.approx([loss], rel=0, abs=of_ratio / BATCHES + of_nll)

    pull = prior.pull(weights) / BATCHES
    total = gradient + pull
    # the factors of w are a sum of two products, with a logistic function; then the sum with the likelihood's gradient
    of_pull = (4 * U if prior.share == 1 else FUNCTION) * pull.abs()
    of_total = of_gradient + of_pull + U * total.abs()
    slope = total * noise - 1 / (BATCHES * 128)
    of_slope = of_total * noise.abs() + U * (total * noise).abs() + U * slope.abs()
    bounds = {"mu": rate * of_total, "rho": rate * of_slope}
    for name, start, arrays in (("mu", mu, theirs.mus), ("rho", rho, theirs.rhos)):
        expected = flatten(arrays)
        assert (expected != start).any()
        # tolerance: that of the gradient, and the rounding of the new parameter
        assert ((ours.parameters()[name] - expected).abs() <= bounds[name] + U * expected.abs()).all()


ROUNDED_RHO = 2.0**-52  # tolerance: the rounding of a rho between 2 and 4


def test_rho_learns_at_its_own_rate():
    """With a factor, one step moves rho that many times as far as without it, and mu just as far."""
    moved = {}
    for factor in (1.0, 8.0):
        source = torch.Generator().manual_seed(4)
        mu = torch.randn(SMALL.n_weights, generator=source, dtype=torch.float64)
        rho = torch.full_like(mu, -3.0)
        step = TrainingStep(SMALL, (True, True, True), Prior(1.0), BATCHES, 2.0**-10, mu, rho, factor)
        x, y = torch.rand(6, 7, generator=source, dtype=torch.float64), torch.randint(3, (6,), generator=source)
        step(to_ndarray(x), to_ndarray(y), torch.randn(SMALL.n_weights, generator=source, dtype=torch.float64))
        moved[factor] = {
            name: value - start for (name, value), start in zip(step.parameters().items(), (mu, rho), strict=True)
        }
    torch.testing.assert_close(moved[8.0]["mu"], moved[1.0]["mu"], rtol=0, atol=0)
    assert moved[1.0]["rho"].abs().max() > 0
    torch.testing.assert_close(moved[8.0]["rho"], 8 * moved[1.0]["rho"], rtol=DOUBLE, atol=9 * ROUNDED_RHO)


@settings(max_examples=30, deadline=None)
@given(
    share=st.floats(0.05, 1.0),
    std=st.floats(0.3, 3.0),
    ratio=st.floats(0.02, 0.9),
    largest=st.sampled_from([0.01, 0.3, 2.0, 100.0]),
)
def test_prior_in_mxnet_is_the_one_in_torch(share, std, ratio, largest):
    prior = Prior(std, std * ratio, share)
    weights = (torch.linspace(-1, 1, 21, dtype=torch.float64) * largest).requires_grad_()
    minus_log_p = -prior.log_density(weights)
    minus_log_p.backward()
    array = to_ndarray(weights).copy()
    energy = prior.energy_and_gradient(array, nd.ones(21, dtype="float64"), 0.5)
    assert energy.asscalar() + prior.constant(21) == close(minus_log_p.item())
    torch.testing.assert_close(to_tensor(array), 0.5 * weights.grad, rtol=DOUBLE, atol=DOUBLE)


def test_prior_far_out_is_finite():
    """Both densities underflow to zero at w = 60, which is 80 standard deviations of the wide one."""
    assert math.isfinite(MIXTURE.log_density(torch.tensor([60.0])).item())
    assert not math.isfinite(nd.sum(document.scale_mixture_prior(nd.full((1,), 60.0))).asscalar())


def start(recipe=None, seed=0):
    """The posterior before any training."""
    approach = MxnetBbb(epochs=0, **(recipe or {}))
    return approach.fit(rows(4, 784, dtype=torch.float64), MNIST, context_of(seed, torch.float64))


def test_kl_at_the_start():
    """AUDIT of the document: KL / M = 2581.35 at the start.

    E[log q - log p] of a weight = -log sigma - 1/2 + (0.1^2 + sigma^2) / 2 with sigma = log(1 + e^-3) = 0.0485874:
    3.0244 - 0.5 + 0.0062 = 2.53057; times 478,410 weights / 469 batches.
    """
    sigma = math.log1p(math.exp(-3))
    expected = 478_410 / 469 * (-math.log(sigma) - 0.5 + (0.01 + sigma**2) / 2)
    assert round(expected, 2) == 2581.35
    draws = 16
    found = start().log_density_ratio(range(draws)) / 469
    # eps^2 / 2 of a weight has the variance 1/2, which 16 draws divide by 16; mu^2 / 2 has .01^2 / 2 and stays
    # (eps mu sigma and sigma^2 eps^2 / 2 make less than a hundredth)
    error = math.sqrt(478_410 * (1 / 2 / draws + 0.01**2 / 2)) / 469
    # tolerance: four standard errors, 1.05, are exceeded with probability 6e-5
    assert found.mean().item() == pytest.approx(expected, abs=4 * error)


@pytest.mark.parametrize("use_second_hidden", [False, True])
def test_mxnet_predicts_the_same_logits(use_second_hidden):
    approach = MxnetBbb(epochs=1, use_second_hidden=use_second_hidden)
    posterior = approach.fit(rows(300, 784, dtype=torch.float64), MNIST, context_of(0, torch.float64))
    x = rows(50, 784, seed=1, dtype=torch.float64).x
    mu, sigma = posterior.arrays()["mu"], posterior.arrays()["sigma"]
    layout, used = Layout((784, 400, 400, 10)), (True, use_second_hidden, True)
    drawn = torch.cat([marginal.used.flatten() for marginal in posterior.weights().values()])
    noise = torch.zeros_like(mu)
    noise[drawn] = normals_(torch.empty(int(drawn.sum()), dtype=torch.float64), 0, "draw", 2)
    for weights, predicted in (
        (mu + sigma * noise, posterior.predict(x, range(2, 3), torch.arange(50))),
        (mu, posterior.mean_network().predict(x, range(1), torch.arange(50))),
    ):
        layers = [
            layer for layer, is_used in zip(layer_views(layout, to_ndarray(weights)), used, strict=True) if is_used
        ]
        pixels = x * (255 / 126)
        expected = to_tensor(nd.log_softmax(mxnet_logits(to_ndarray(pixels), layers)))
        # tolerance: a product of matrices adds 400 or 784 terms, in any order; `size` is the sum of their sizes through
        # all layers. Three roundings of each weight come on top
        size = mxnet_logits(to_ndarray(pixels), [(nd.abs(matrix), nd.abs(bias)) for matrix, bias in layers])
        bound = 2 * (784 + 400 * (len(layers) - 1) + 3 * len(layers)) * 2.0**-53 * size.max().asscalar()
        torch.testing.assert_close(predicted.log_probs[0], expected, rtol=DOUBLE, atol=2 * bound)


def test_document_predicts_with_drawn_weights():
    """Without spread (rho = -40) each draw is the network of means; with it, one network for all batches."""
    layout = Layout((4, 3, 3, 2))
    source = torch.Generator().manual_seed(4)
    mus = document_arrays(layout, torch.randint(-4, 5, (layout.n_weights,), generator=source) / 4)
    x = to_ndarray(torch.randint(-4, 5, (6, 4), generator=source) / 4)  # exact logits, in any order
    for rho in (-40.0, 0.0):
        mx.random.seed(0)
        model = document.DocumentBbb(mus, [nd.full(mu.shape, rho) for mu in mus], 469)
        networks = model.draw_networks(3)
        assert all(
            (weights == mu).asnumpy().all() for drawn in networks for weights, mu in zip(drawn, mus, strict=True)
        ) == (rho == -40.0)
        found = np.concatenate([model.predict(part, networks) for part in (x[:4], x[4:], x[:4])], axis=1)
        assert found.shape == (3, 10, 2)
        np.testing.assert_array_equal(found[:, :4], found[:, 6:])
        means = nd.log_softmax(model.forward(x, mus)).asnumpy()
        # tolerance: the functions of both, relative to their sizes
        assert (np.abs(found[:, :6] - means) <= 2 * FUNCTION * (1 + np.abs(means))).all() == (rho == -40.0)
