"""mlp: training equal to plain autograd and torch's Adam, the learning rate that does not decay, the controls."""

import math

import pytest
import torch
from torch.nn import functional

from bench.core.streams import generator
from bench.interface import Task
from bench.judge.contract import CheckContext
from benchmarks.documents import mlp as document
from implementations import _dense
from implementations._kernels.layout import Layout
from implementations.mlp import Mlp, Training
from tests.implementations.made_up import assert_parameters, load, rows, whole_epochs

LAYOUT = Layout((20, 30, 30, 10))
PLAIN_ACTIVATIONS = {"relu": functional.relu, "sigmoid": torch.sigmoid}


def plain_network(flat, activation="relu"):
    net = document.Classifier(LAYOUT.sizes[0], LAYOUT.sizes[1], PLAIN_ACTIVATIONS[activation])
    return load(net.to(flat.dtype), LAYOUT.named(flat).values())


def task(n_rows):
    return Task("classification", 10, n_rows, LAYOUT.sizes[0])


@pytest.mark.parametrize("activation", [*PLAIN_ACTIVATIONS])
def test_twenty_steps_equal_autograd_and_torch_adam(activation):
    flat = _dense.linear_init(LAYOUT, generator(1, "init")).double()
    net = plain_network(flat, activation)
    adam = document.optimizer(net)
    training = Training(Mlp(width=30, activation=activation), LAYOUT, flat)
    for step in range(20):
        batch = rows(12 if step % 3 else 5, seed=step)
        expected = document.training_step(net, adam, batch.x.double(), batch.y)
        assert training.step(batch.x.double(), batch.y).item() == pytest.approx(expected.item(), rel=1e-11)
        assert_parameters(net, LAYOUT.named(training.gradient).values(), gradients=True, rtol=1e-7, atol=1e-12)
        assert_parameters(net, LAYOUT.named(training.flat).values(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("activation", [*PLAIN_ACTIVATIONS])
def test_prediction_in_blocks_is_the_plain_network_in_double_precision(activation, monkeypatch):
    monkeypatch.setattr(_dense, "ROWS_AT_A_TIME", 7)
    flat = _dense.linear_init(LAYOUT, generator(1, "init")).double()
    given = rows(45)
    posterior = _dense.DensePosterior(LAYOUT, flat, _dense.ACTIVATIONS[activation], "classification")
    expected = torch.log_softmax(plain_network(flat, activation)(given.x.double()), 1).detach()
    for draw in posterior.predict(given.x, range(2), given.rows).log_probs:
        torch.testing.assert_close(draw, expected, rtol=1e-12, atol=1e-12)


def plain_fit(recipe, train, seed, divisor):
    """The document's loop with a decay that works, on our streams: final weights and batch losses of each epoch."""
    net = plain_network(_dense.linear_init(LAYOUT, generator(seed, "init")))
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
    train, context = rows(40), whole_epochs(4)
    posterior = recipe.fit(train, task(40), context)
    net, losses = plain_fit(recipe, train, 4, divisor)
    assert_parameters(net, posterior.arrays().values(), atol=1e-5)
    for epoch, batch_losses in enumerate(losses, start=1):
        mean = sum(batch_losses) / len(batch_losses)
        assert context.traces[epoch]["mnist/train60k/train_loss"] == pytest.approx(mean, rel=1e-5)


def test_default_initial_weights_are_those_of_a_linear_layer():
    # U(-h, h) with h = 1/sqrt(784) = 1/28 has standard deviation h/sqrt(3); 100,000 numbers: relative error 0.2 %
    flat = _dense.linear_init(Layout((784, 128, 10)), generator(0, "init"))
    (matrix, bias), _ = Layout((784, 128, 10)).layers(flat)
    assert matrix.abs().max().item() <= 1 / 28
    assert matrix.std().item() == pytest.approx(1 / 28 / math.sqrt(3), rel=0.01)
    assert 0 < bias.abs().max().item() <= 1 / 28


def test_rebuilt_control_keeps_its_activation():
    recipe = Mlp(epochs=1, width=30, activation="sigmoid")
    train = rows(16)
    posterior = recipe.fit(train, task(16), CheckContext(0))
    rebuilt = recipe.rebuild(posterior.arrays(), task(16), 0)
    _, flat = _dense.from_named(posterior.arrays())
    expected = plain_network(flat, "sigmoid")(train.x).detach()
    assert torch.allclose(rebuilt.predict(train.x, range(1), train.rows).log_probs[0], expected, atol=1e-5)
