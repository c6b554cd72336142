"""pyro_hidden_layer: the fast layers equal Pyro's, the loss is the document's, the data-free numbers, the posterior."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Normal, kl_divergence

from bench.interface import Task
from tests.close import DOUBLE, close
from tests.implementations.made_up import context_of, whole_epochs
from tests.implementations.made_up import rows as made_up
from tests.implementations.roundings import EXP, LOG, UNIT, added, assert_within

pyro = pytest.importorskip("pyro", reason="Pyro is not installed")

from pyro import poutine  # noqa: E402 - after the skip
from pyro.contrib.bnn import HiddenLayer  # noqa: E402
from pyro.infer import SVI  # noqa: E402
from torch.nn import functional  # noqa: E402

from bench.core.streams import row_noise  # noqa: E402
from documents_code.pyro_hidden_layer import DocumentNetwork  # noqa: E402 - after the skip
from implementations import pyro_hidden_layer as approach  # noqa: E402
from implementations._kernels.hidden_layer import FusedHiddenLayer, MatmulHiddenLayer, Weights  # noqa: E402
from implementations._pyro import isolated, sgd  # noqa: E402 - after the check that Pyro is there
from implementations.pyro_hidden_layer import HiddenLayerPosterior, PyroHiddenLayer  # noqa: E402
from tests.pyros_noise import PyrosNoise  # noqa: E402

CPU = torch.device("cpu")
N_INPUTS, N_HIDDEN, BATCH, N_ROWS = 20, 12, 32, 80  # 80 rows: three batches, the last one short
SMALL = {"n_hidden": N_HIDDEN, "batch_size": BATCH}
TASK = Task("classification", 10, N_ROWS, N_INPUTS)


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


# --- the objective -------------------------------------------------------------------------------------------------


def nll_of(trace, labels):
    logits = trace.nodes["label"]["fn"].logits
    return -logits.gather(1, labels[:, None]).sum()


def test_numbers_that_need_no_data():
    task = Task("classification", 10, 50_000, 784)
    train = torch.rand(128, 784, generator=torch.Generator().manual_seed(1)).double()
    labels = torch.randint(10, (128,), generator=torch.Generator().manual_seed(2))

    def f(s):
        return (s**2 - 1) / 2 - math.log(s)

    with isolated(CPU):
        network = approach._Network(PyroHiddenLayer(), task, context_of(0, torch.float64))
        n_weights = sum(rows * columns for rows, columns in network.shapes)
        assert n_weights == 2_912_266
        any_order = n_weights * 2.0**-53  # of a sum over the weights, relative if all terms have one sign
        # layer 1: 802,816 (.25^2 - 1 - 2 log .25) / 2 = 736,619
        # means of shape (1025, 10) in layers 2 and 3: 2 * 1025 (1024 - 10) / 2 = 1,039,350
        constant = sum(kl for *_, kl in network.prior)
        # tolerance: each of four sums over the weights, of squares, of 1 and of logarithms, is at most 1.5 times this
        assert constant.item() == pytest.approx(802_816 * f(0.25) + 1_039_350, rel=6 * any_order)
        # 802,816 f(.025) + 2,109,450 f(.1) + 2,912,266 * .01^2 / 2 with f(s) = (s^2 - 1) / 2 - log s
        svi = SVI(network.model, network.guide, sgd(0.002, 0.9), loss=network.estimator)
        torch.manual_seed(3)
        loss = svi.evaluate_loss(train, labels)
        kl = sum(weights.kl for weights in network.weights.values())
        expected = 802_816 * f(0.025) + 2_109_450 * f(0.1) + n_weights * 0.01**2 / 2
        # tolerance: half of the sum of n squares of means has the standard error .01^2 sqrt(n / 2) = .12; five of them
        # are exceeded with probability 6e-7. Roundings are below 6 any_order = 2e-9 of 6,373,490.
        assert kl.item() == pytest.approx(expected, abs=5 * 0.01**2 * math.sqrt(n_weights / 2) + 0.02)
        assert round(expected) == 6_373_490
        torch.manual_seed(3)
        guide = poutine.trace(network.guide).get_trace(train, labels)
        nll = nll_of(poutine.trace(poutine.replay(network.model, guide)).get_trace(train, labels), labels)
    kappa = 128 / 50_000
    assert loss == close((nll + kappa * (constant - kl)).item())
    # what the document would print for an epoch of first steps, without the likelihood
    assert round(391 * (loss - nll.item()) / 50_000, 2) == -92.04


def test_correct_sign_adds_the_kl():
    rows = made_up(BATCH, dtype=torch.float64)
    with isolated(CPU):
        network = approach._Network(PyroHiddenLayer(kl_sign=1, **SMALL), TASK, context_of(0, torch.float64))
        svi = SVI(network.model, network.guide, sgd(0.002, 0.9), loss=network.estimator)
        torch.manual_seed(3)
        loss = svi.evaluate_loss(rows.x, rows.y)
        kl = sum(weights.kl for weights in network.weights.values())
        torch.manual_seed(3)
        trace = poutine.trace(network.model).get_trace(rows.x, rows.y)
    assert loss == close((nll_of(trace, rows.y) + BATCH / N_ROWS * kl).item())


def start_of(network_parameters):
    """The document's parameters, constrained, with ours' values."""
    values = {}
    for name, value in network_parameters.items():
        above_floor = name.endswith("log_excess")
        values[name.replace("log_excess", "scale")] = 0.01 + value.exp() if above_floor else value
    return values


def test_training_equals_the_documents(float64, monkeypatch):
    monkeypatch.setattr(approach, "StepNoise", PyrosNoise)
    rows = made_up(N_ROWS, dtype=torch.float64)
    context = whole_epochs(4, torch.float64)
    with isolated(CPU):
        approach._Network(PyroHiddenLayer(**SMALL), TASK, context)
        start = start_of({name: value.detach().clone() for name, value in pyro.get_param_store().items()})
    posterior = PyroHiddenLayer(epochs=2, **SMALL).fit(rows, TASK, context)
    with isolated(CPU):
        document = DocumentNetwork(N_ROWS, N_HIDDEN, N_INPUTS, BATCH)
        document.guide(rows.x[:1])
        document.initial_mean = torch.zeros  # no draws but those of the layers
        store = pyro.get_param_store()
        for name in list(store):
            store[name] = start[name]
        for epoch in (1, 2):
            torch.manual_seed(context.stream("noise", epoch))
            steps = [
                document.training_step(rows.x[first : first + BATCH], rows.y[first : first + BATCH])
                for first in range(0, N_ROWS, BATCH)
            ]
            trace = context.traces[epoch]
            loss = trace["mnist/train60k/train_loss_per_image"]
            assert loss == close(sum(loss for loss, _ in steps) / N_ROWS)
            assert trace["mnist/train60k/accuracy"] == sum(correct for _, correct in steps) / N_ROWS
        for name, marginal in posterior.weights().items():
            dropout = store[f"{name}_dropout"] if name != "a4" else 1
            std = dropout * store[f"{name}_scale"]
            torch.testing.assert_close(marginal.mean, store[f"{name}_mean"].detach(), rtol=DOUBLE, atol=DOUBLE)
            torch.testing.assert_close(marginal.std, std.detach(), rtol=DOUBLE, atol=DOUBLE)


# --- the posterior -------------------------------------------------------------------------------------------------


def made_up_posterior(seed=0):
    source = torch.Generator().manual_seed(3)
    shapes = [(N_INPUTS, N_HIDDEN), (N_HIDDEN + 1, N_HIDDEN), (N_HIDDEN + 1, N_HIDDEN), (N_HIDDEN + 1, 10)]
    arrays = {}
    for name, shape in zip(approach.LAYERS, shapes, strict=True):
        arrays[f"{name}/mean"] = 0.5 * torch.randn(shape, generator=source).double()
        arrays[f"{name}/std"] = 0.3 * torch.rand(shape, generator=source).double()
    return HiddenLayerPosterior(arrays, seed)


def test_prediction_is_pyros_layers_with_the_rows_noise(monkeypatch):
    posterior, rows = made_up_posterior(seed=9), made_up(7, dtype=torch.float64)
    weights = {name: (marginal.mean, marginal.std) for name, marginal in posterior.weights().items()}
    predicted = posterior.predict(rows.x, range(3, 5), rows.rows).log_probs
    for index, draw in enumerate(range(3, 5)):
        normals = row_noise(9, draw, rows.rows, 3 * N_HIDDEN + 10, torch.float64)
        noise = iter(normals.split([N_HIDDEN] * 3 + [10], dim=1))
        value = rows.x
        for name in approach.LAYERS:
            last = name == "a4"
            layer = HiddenLayer(
                value,
                *weights[name],
                non_linearity=approach.LOG_SOFTMAX if last else functional.leaky_relu,
                include_hidden_bias=not last,
            )
            with monkeypatch.context() as patch:
                patch.setattr(torch, "randn", lambda *_: next(noise))  # noqa: B023 - used at once
                value = layer.rsample()
        torch.testing.assert_close(predicted[index], value, rtol=DOUBLE, atol=DOUBLE)


def test_per_row_of_means_and_of_nothing():
    posterior, rows = made_up_posterior(), made_up(5, dtype=torch.float64)
    network = posterior.mean_network()
    assert network.per_row() is network
    # what per_row makes of the weights is their network: its means predict what the posterior's means predict
    means = posterior.per_row().mean_network().predict(rows.x, range(1), rows.rows).log_probs
    expected = network.predict(rows.x, range(1), rows.rows).log_probs
    torch.testing.assert_close(means, expected, rtol=DOUBLE, atol=DOUBLE)
    empty = posterior.masked({name: torch.zeros_like(m.used) for name, m in posterior.weights().items()}).per_row()
    answer = empty.predict(rows.x, range(2), rows.rows).log_probs
    assert torch.equal(answer, torch.zeros(2, 5, 10, dtype=torch.float64).log_softmax(2))
