"""mlp equals plain autograd and torch's Adam, its rate does not decay; the controls; uniform gives exactly log K."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from bench.core.streams import generator
from bench.interface import Task
from bench.judge.contract import CheckContext
from documents_code import mlp as document
from implementations import _dense
from implementations._kernels.layout import Layout
from implementations.mlp import Mlp, Training
from implementations.uniform import Uniform
from tests.close import DOUBLE, close
from tests.golden.fits import TraceContext, in_double
from tests.implementations.made_up import assert_parameters, load, rows

LAYOUT = Layout((20, 30, 30, 10))
# tolerance: a gradient is rounded fewer than 150 times, relative to absolute terms of 1 at most, so that it is off by
# less than 1.7e-14. Adam enlarges this: it divides by the root of v, of which the smallest here is 1.6e-6. With d added
# to or subtracted from every gradient other than 0 of every step, by chance, the weights end up to 550 d away (relu;
# sigmoid: 35 d), gradients 2.9 d and losses 0.8 d, alike for d = 1e-9 and 1e-11. 550 times 1.7e-14 is 9.4e-12.
ADAM = 1e-11
PLAIN_ACTIVATIONS = {"relu": functional.relu, "sigmoid": torch.sigmoid}


def plain_network(flat, activation="relu"):
    net = document.Classifier(LAYOUT.sizes[0], LAYOUT.sizes[1], PLAIN_ACTIVATIONS[activation])
    return load(net.to(flat.dtype), LAYOUT.named(flat).values())


def task(n_rows):
    return Task("classification", 10, n_rows, LAYOUT.sizes[0])


@pytest.mark.parametrize("activation", [*PLAIN_ACTIVATIONS])
def test_twenty_steps_equal_autograd_and_torch_adam(activation):
    flat = _dense.linear_init(LAYOUT, generator(1, "init"), torch.float64)
    net = plain_network(flat, activation)
    adam = document.optimizer(net)
    training = Training(Mlp(width=30, activation=activation), LAYOUT, flat)
    for step in range(20):
        batch = in_double(rows(12 if step % 3 else 5, seed=step))
        expected = document.training_step(net, adam, batch.x, batch.y)
        assert training.step(batch.x, batch.y).item() == close(expected.item())
        assert_parameters(net, LAYOUT.named(training.gradient).values(), gradients=True, rtol=DOUBLE, atol=DOUBLE)
        assert_parameters(net, LAYOUT.named(training.flat).values(), rtol=0, atol=ADAM)


@pytest.mark.parametrize("activation", [*PLAIN_ACTIVATIONS])
def test_prediction_in_blocks_is_the_plain_network_in_double_precision(activation, monkeypatch):
    monkeypatch.setattr(_dense, "ROWS_AT_A_TIME", 7)
    flat = _dense.linear_init(LAYOUT, generator(1, "init"), torch.float64)
    given = in_double(rows(45))
    posterior = _dense.DensePosterior(LAYOUT, flat, _dense.ACTIVATIONS[activation], "classification")
    expected = torch.log_softmax(plain_network(flat, activation)(given.x), 1).detach()
    for draw in posterior.predict(given.x, range(2), given.rows).log_probs:
        torch.testing.assert_close(draw, expected, rtol=DOUBLE, atol=DOUBLE)


def plain_fit(recipe, train, seed, divisor):
    """The document's loop with a decay that works, on our streams: final weights and batch losses of each epoch."""
    net = plain_network(_dense.linear_init(LAYOUT, generator(seed, "init"), torch.float64))
    adam = document.optimizer(net)
    losses = []
    for epoch in range(1, recipe.epochs + 1):
        order = torch.randperm(len(train), generator=generator(seed, "shuffle", epoch))
        batches = order.split(recipe.batch_size)
        losses.append([document.training_step(net, adam, train.x[part], train.y[part]).item() for part in batches])
        adam.param_groups[0]["lr"] /= divisor
    return net, losses


@pytest.mark.parametrize("divisor", [1.0, 1.1])
def test_fit_equals_the_document_s_loop(divisor):
    # 40 rows in batches of 16 leave a last batch of 8
    recipe = Mlp(epochs=3, width=30, batch_size=16, learning_rate_divisor=divisor)
    train, context = in_double(rows(40)), TraceContext(4)
    posterior = recipe.fit(train, task(40), context)
    net, losses = plain_fit(recipe, train, 4, divisor)
    assert_parameters(net, posterior.arrays().values(), rtol=0, atol=ADAM)
    for epoch, batch_losses in enumerate(losses, start=1):
        mean = sum(batch_losses) / len(batch_losses)
        assert context.traces[epoch]["mnist/train60k/train_loss"] == close(mean)


def test_default_initial_weights_are_those_of_a_linear_layer():
    # U(-h, h) with h = 1/sqrt(784) = 1/28 has standard deviation h/sqrt(3)
    flat = _dense.linear_init(Layout((784, 128, 10)), generator(0, "init"), torch.float64)
    (matrix, bias), _ = Layout((784, 128, 10)).layers(flat)
    # tolerance: the numbers are 2 h r - h with 24-bit r in [0, 1); at r = 0 this is -h, and h = 1/28 rounds one way
    assert matrix.abs().max().item() <= 1 / 28
    # tolerance: a variance of n = 100,352 uniform numbers has relative standard error sqrt((9/5 - 1) / n), and their
    # standard deviation half of it, .0014; 5 of them, .7 %, are exceeded by one seed in two million
    assert matrix.std().item() == pytest.approx(1 / 28 / math.sqrt(3), rel=0.007, abs=0)
    # tolerance: as that of the matrix
    assert 0 < bias.abs().max().item() <= 1 / 28


def test_rebuilt_control_keeps_its_activation():
    recipe = Mlp(epochs=1, width=30, activation="sigmoid")
    train = in_double(rows(16))
    posterior = recipe.fit(train, task(16), TraceContext(0))
    rebuilt = recipe.rebuild(posterior.arrays(), task(16), 0)
    _, flat = _dense.from_named(posterior.arrays())
    expected = plain_network(flat, "sigmoid")(train.x).detach()
    found = rebuilt.predict(train.x, range(1), train.rows).log_probs[0]
    torch.testing.assert_close(found, expected, rtol=DOUBLE, atol=DOUBLE)


@given(n_classes=st.integers(2, 1000), n_rows=st.integers(0, 5), n_draws=st.integers(1, 3))
def test_every_class_gets_log_k(n_classes, n_rows, n_draws):
    context = CheckContext(0)
    posterior = Uniform().fit(rows(0), Task("classification", n_classes, 0, 20), context)
    assert not context.traces
    log_probs = posterior.predict(rows(n_rows).x, range(n_draws), torch.arange(n_rows)).log_probs
    assert log_probs.dtype == torch.float32
    assert torch.equal(log_probs, torch.full((n_draws, n_rows, n_classes), -math.log(n_classes)))
