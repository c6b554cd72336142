"""pyro_hidden_layer: the fast layers equal Pyro's, the loss is the document's, the data-free numbers, the posterior."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Normal, kl_divergence

pyro = pytest.importorskip("pyro", reason="Pyro is not installed")

from pyro import poutine  # noqa: E402 - after the skip
from pyro.contrib.bnn import HiddenLayer  # noqa: E402
from pyro.infer import SVI  # noqa: E402
from torch.nn import functional  # noqa: E402

from bench.core.streams import row_noise  # noqa: E402
from bench.interface import Split, Task  # noqa: E402
from bench.judge.contract import CheckContext  # noqa: E402
from benchmarks.documents.pyro_hidden_layer import DocumentNetwork  # noqa: E402
from implementations import pyro_hidden_layer as approach  # noqa: E402
from implementations._kernels.hidden_layer import FusedHiddenLayer, MatmulHiddenLayer, Weights  # noqa: E402
from implementations._kernels.loops import loops_for  # noqa: E402 - after the check that Pyro is there
from implementations._pyro import isolated, sgd  # noqa: E402 - after the check that Pyro is there
from implementations.pyro_hidden_layer import HiddenLayerPosterior, PyroHiddenLayer  # noqa: E402
from tests.implementations.made_up import rows as made_up  # noqa: E402
from tests.implementations.made_up import whole_epochs  # noqa: E402
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
    assert torch.allclose(drawn(seed, ours, draws), expected, rtol=1e-12, atol=1e-13)
    assert ours.log_prob(expected) == theirs.log_prob(expected)
    assert ours.KL == theirs.KL


@pytest.mark.parametrize("kl_weight", [-0.3, 0.7])
@settings(max_examples=20)
@given(st.integers(0, 999))
def test_compiled_layer_has_the_plain_values_and_gradients_in_double_precision(kl_weight, seed):
    source = torch.Generator().manual_seed(seed)
    tensors = [torch.randn(shape, generator=source) for shape in ((6, 7), (7, 9), (7, 9))]
    noise, weights_of_sum = (torch.randn(6, 9, generator=source) for _ in range(2))
    dropout, floor = torch.tensor(0.4), 0.01
    results = []
    for dtype in (torch.float32, torch.float64):
        leaves = [value.to(dtype, copy=True).requires_grad_() for value in (*tensors, dropout)]
        x, mean, log_excess, factor = leaves
        if dtype == torch.float32:
            assert loops_for(mean) is not None
            weights = Weights.of(mean, log_excess, floor, factor)
            layer = FusedHiddenLayer(
                *leaves,
                weights,
                non_linearity=torch.tanh,
                KL_factor=1.0,
                include_hidden_bias=False,
                normals=lambda empty: empty.copy_(noise),
            )
            activation = layer.rsample()
            kl = -layer.log_prob(activation)
        else:
            std = factor * (floor + log_excess.exp())
            activation = torch.tanh(x @ mean + (x.square() @ std.square()).sqrt() * noise.to(dtype))
            kl = kl_divergence(Normal(mean, std), Normal(torch.zeros_like(mean), torch.ones_like(std))).sum()
        ((activation * weights_of_sum).sum() + kl_weight * kl).backward()
        results.append([value.detach().double() for value in (activation, kl, *(leaf.grad for leaf in leaves))])
    for fast, plain in zip(*results, strict=True):
        # a part in 1e5 of the largest entry: sums of products of both signs lose the digits of their parts
        assert (fast - plain).abs().max() <= 1e-5 * (1 + plain.abs().max())


def test_fused_layer_refuses_what_it_would_get_wrong():
    x, mean, std = random_layer(0, 2, 3, 4)
    weights = Weights.of(mean, std.log(), 0.01, torch.tensor(1.0))
    layer = FusedHiddenLayer(x, mean, std.log(), torch.tensor(1.0), weights, non_linearity=identity, KL_factor=1.0)
    with pytest.raises(RuntimeError, match="draw from"):
        layer.log_prob(x)
    with pytest.raises(NotImplementedError, match="one sample"):
        layer.rsample(torch.Size([2]))


# --- the objective -------------------------------------------------------------------------------------------------


def full_size_context():
    return CheckContext(0), Task("classification", 10, 50_000, 784)


def nll_of(trace, labels):
    logits = trace.nodes["label"]["fn"].logits
    return -logits.gather(1, labels[:, None]).sum()


def test_numbers_that_need_no_data():
    context, task = full_size_context()
    train = torch.rand(128, 784, generator=torch.Generator().manual_seed(1))
    labels = torch.randint(10, (128,), generator=torch.Generator().manual_seed(2))
    with isolated(CPU):
        network = approach._Network(PyroHiddenLayer(), task, context)
        assert sum(rows * columns for rows, columns in network.shapes) == 2_912_266
        # layer 1: 802,816 (.25^2 - 1 - 2 log .25) / 2 = 736,619
        # means of shape (1025, 10) in layers 2 and 3: 2 * 1025 (1024 - 10) / 2 = 1,039,350
        constant = sum(kl for *_, kl in network.prior)
        assert constant.item() == pytest.approx(1_775_969, abs=1)
        # 802,816 f(.025) + 2,109,450 f(.1) + 2,912,266 * .01^2 / 2 with f(s) = (s^2 - 1) / 2 - log s
        svi = SVI(network.model, network.guide, sgd(0.002, 0.9), loss=network.estimator)
        torch.manual_seed(3)
        loss = svi.evaluate_loss(train, labels)
        kl = sum(weights.kl for weights in network.weights.values())
        assert kl.item() == pytest.approx(6_373_490, rel=1e-5)
        torch.manual_seed(3)
        guide = poutine.trace(network.guide).get_trace(train, labels)
        nll = nll_of(poutine.trace(poutine.replay(network.model, guide)).get_trace(train, labels), labels)
    kappa = 128 / 50_000
    assert loss == pytest.approx((nll + kappa * (constant - kl)).item(), rel=1e-6)
    # what the document would print for an epoch of first steps, without the likelihood
    assert 391 * (loss - nll.item()) / 50_000 == pytest.approx(-92.04, abs=0.01)


def test_correct_sign_adds_the_kl():
    rows = made_up(BATCH)
    with isolated(CPU):
        network = approach._Network(PyroHiddenLayer(kl_sign=1, **SMALL), TASK, CheckContext(0))
        svi = SVI(network.model, network.guide, sgd(0.002, 0.9), loss=network.estimator)
        torch.manual_seed(3)
        loss = svi.evaluate_loss(rows.x, rows.y)
        kl = sum(weights.kl for weights in network.weights.values())
        torch.manual_seed(3)
        trace = poutine.trace(network.model).get_trace(rows.x, rows.y)
    assert loss == pytest.approx((nll_of(trace, rows.y) + BATCH / N_ROWS * kl).item(), rel=1e-5)


def start_of(network_parameters):
    """The document's parameters, constrained, with ours' values."""
    values = {}
    for name, value in network_parameters.items():
        above_floor = name.endswith("log_excess")
        values[name.replace("log_excess", "scale")] = 0.01 + value.exp() if above_floor else value
    return values


def test_training_equals_the_documents(float64, monkeypatch):
    monkeypatch.setattr(approach, "StepNoise", PyrosNoise)
    rows = made_up(N_ROWS)
    rows = Split(rows.name, rows.x.double(), rows.y, rows.rows)
    context = whole_epochs(4)
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
            assert loss == pytest.approx(sum(loss for loss, _ in steps) / N_ROWS, rel=1e-9)
            assert trace["mnist/train60k/accuracy"] == sum(correct for _, correct in steps) / N_ROWS
        for name, marginal in posterior.weights().items():
            dropout = store[f"{name}_dropout"] if name != "a4" else 1
            assert torch.allclose(marginal.mean, store[f"{name}_mean"], atol=1e-9)
            assert torch.allclose(marginal.std, dropout * store[f"{name}_scale"], atol=1e-9)


# --- the posterior -------------------------------------------------------------------------------------------------


def made_up_posterior(seed=0):
    source = torch.Generator().manual_seed(3)
    shapes = [(N_INPUTS, N_HIDDEN), (N_HIDDEN + 1, N_HIDDEN), (N_HIDDEN + 1, N_HIDDEN), (N_HIDDEN + 1, 10)]
    arrays = {}
    for name, shape in zip(approach.LAYERS, shapes, strict=True):
        arrays[f"{name}/mean"] = 0.5 * torch.randn(shape, generator=source)
        arrays[f"{name}/std"] = 0.3 * torch.rand(shape, generator=source)
    return HiddenLayerPosterior(arrays, seed)


def test_prediction_is_pyros_layers_with_the_rows_noise(monkeypatch):
    posterior, rows = made_up_posterior(seed=9), made_up(7)
    weights = {name: (marginal.mean.double(), marginal.std.double()) for name, marginal in posterior.weights().items()}
    predicted = posterior.predict(rows.x, range(3, 5), rows.rows).log_probs
    for index, draw in enumerate(range(3, 5)):
        noise = iter(row_noise(9, draw, rows.rows, 3 * N_HIDDEN + 10).double().split([N_HIDDEN] * 3 + [10], dim=1))
        value = rows.x.double()
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
        assert torch.allclose(predicted[index].double(), value, atol=1e-5)


def test_per_row_of_means_and_of_nothing():
    posterior, rows = made_up_posterior(), made_up(5)
    network = posterior.mean_network()
    assert network.per_row() is network
    # what per_row makes of the weights is their network: its means predict what the posterior's means predict
    means = posterior.per_row().mean_network().predict(rows.x, range(1), rows.rows).log_probs
    torch.testing.assert_close(means, network.predict(rows.x, range(1), rows.rows).log_probs)
    empty = posterior.masked({name: torch.zeros_like(m.used) for name, m in posterior.weights().items()}).per_row()
    answer = empty.predict(rows.x, range(2), rows.rows).log_probs
    assert torch.equal(answer, torch.zeros(2, 5, 10).log_softmax(2))
