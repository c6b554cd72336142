"""pyro_hidden_layer: the fast layers equal Pyro's, the loss is the document's, the data-free numbers, the posterior."""

import math

import pytest
import torch
from pyro import poutine
from pyro.contrib.bnn import HiddenLayer
from pyro.infer import SVI
from torch.nn import functional

from bench.core.streams import row_noise
from bench.interface import Task
from documents_code.pyro_hidden_layer import DocumentNetwork
from implementations import pyro_hidden_layer as approach
from implementations._pyro import isolated, sgd
from implementations.pyro_hidden_layer import HiddenLayerPosterior, PyroHiddenLayer
from tests.close import DOUBLE, close
from tests.implementations.made_up import PyrosNoise, context_of, whole_epochs
from tests.implementations.made_up import rows as made_up

pyro = pytest.importorskip("pyro", reason="Pyro is not installed")

CPU = torch.device("cpu")
N_INPUTS, N_HIDDEN, BATCH, N_ROWS = 20, 12, 32, 80  # 80 rows: three batches, the last one short
SMALL = {"n_hidden": N_HIDDEN, "batch_size": BATCH}
TASK = Task("classification", 10, N_ROWS, N_INPUTS)


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
