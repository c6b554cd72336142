"""mlp and the toys: steps equal autograd and torch's Adam, loops those of the documents; uniform gives log K."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from bench.core.streams import generator, normals_
from bench.interface import Gaussian, Task
from bench.judge.contract import CheckContext
from documents_code import linear_bbb, mlp
from implementations import _dense
from implementations._kernels.flat_adam import FlatAdam
from implementations._kernels.layout import Layout
from implementations._kernels.sampled_mlp import Objective, SampledMlp, gaussian_nll
from implementations.mlp import Mlp, Training
from implementations.toy_bbb import ToyBbb
from implementations.toy_mlp import ToyMlp, descend
from implementations.uniform import Uniform
from tests.close import DOUBLE, close
from tests.golden.fits import TraceContext, in_double
from tests.implementations.made_up import assert_parameters, load, rows, six_points, whole_epochs

LAYOUT = Layout((20, 30, 30, 10))
# tolerance: a gradient is rounded fewer than 150 times, relative to absolute terms of 1 at most, so that it is off by
# less than 1.7e-14. Adam enlarges this: it divides by the root of v, of which the smallest here is 1.6e-6. With d added
# to or subtracted from every gradient other than 0 of every step, by chance, the weights end up to 550 d away (relu;
# sigmoid: 35 d), gradients 2.9 d and losses 0.8 d, alike for d = 1e-9 and 1e-11. 550 times 1.7e-14 is 9.4e-12.
ADAM = 1e-11
PLAIN_ACTIVATIONS = {"relu": functional.relu, "sigmoid": torch.sigmoid}


def plain_network(flat, activation="relu"):
    net = mlp.Classifier(LAYOUT.sizes[0], LAYOUT.sizes[1], PLAIN_ACTIVATIONS[activation])
    return load(net.to(flat.dtype), LAYOUT.named(flat).values())


def task(n_rows):
    return Task("classification", 10, n_rows, LAYOUT.sizes[0])


@pytest.mark.parametrize("activation", [*PLAIN_ACTIVATIONS])
def test_twenty_steps_equal_autograd_and_torch_adam(activation):
    flat = _dense.linear_init(LAYOUT, generator(1, "init"), torch.float64)
    net = plain_network(flat, activation)
    adam = mlp.optimizer(net)
    training = Training(Mlp(width=30, activation=activation), LAYOUT, flat)
    for step in range(20):
        batch = in_double(rows(12 if step % 3 else 5, seed=step))
        expected = mlp.training_step(net, adam, batch.x, batch.y)
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
    adam = mlp.optimizer(net)
    losses = []
    for epoch in range(1, recipe.epochs + 1):
        order = torch.randperm(len(train), generator=generator(seed, "shuffle", epoch))
        batches = order.split(recipe.batch_size)
        losses.append([mlp.training_step(net, adam, train.x[part], train.y[part]).item() for part in batches])
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


TASK = Task("regression", n_outputs=1, n_train=6, n_inputs=1)
MLP = Layout((1, 16, 16, 1))


def plain_mlp(flat):
    """The document's network with these weights, in modules."""
    net = torch.nn.Sequential(
        torch.nn.Linear(1, 16), torch.nn.Sigmoid(), torch.nn.Linear(16, 16), torch.nn.Sigmoid(), torch.nn.Linear(16, 1)
    ).to(flat.dtype)
    return load(net, MLP.named(flat).values())


def test_hundred_steps_equal_autograd():
    flat = _dense.linear_init(MLP, generator(0, "init"), torch.float64)
    net, train = plain_mlp(flat), six_points(torch.float64)
    x, y = train.x, train.y
    sgd = torch.optim.SGD(net.parameters(), lr=0.01)
    losses = []
    for _ in range(100):
        sgd.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x), y)
        losses.append(loss.item())
        loss.backward()
        sgd.step()
    first = descend(MLP, flat, x.numpy(), y.numpy(), 60, 0.01)
    second = descend(MLP, flat, x.numpy(), y.numpy(), 40, 0.01)
    # a step rounds a number some 90 times in a row, and only a hundredth of the gradient's roundings stays in a weight
    assert first == close(losses[0])
    assert second == close(losses[60])
    assert_parameters(net, MLP.named(flat).values())


def test_first_loss_of_a_network_that_predicts_zero():
    # targets -3, .2224, 3, 3, .2224, -3: mean square (4 x 9 + 2 x .04946) / 6 = 6.0165
    train = six_points(torch.float64)
    flat = torch.zeros(MLP.n_weights, dtype=torch.float64)
    loss = descend(MLP, flat, train.x.numpy(), train.y.numpy(), 1, 0.01)
    assert loss == close((4 * 9 + 2 * 0.2224**2) / 6)
    # error -y, so the output bias moves by .01 x 2 mean(y) = .01 x 2 x .0741333 = .00148267, and nothing else through
    # zero output weights but those weights themselves: sigmoid(0) = 1/2 of it
    named = MLP.named(flat)
    moved = 0.01 * 2 * (2 * 0.2224 / 6)
    assert named["output.bias"].item() == close(moved)
    assert named["output.weight"].numpy() == close(np.full((1, 16), moved / 2))
    assert not named["hidden1.weight"].any()
    assert not named["hidden2.weight"].any()


def test_huge_inputs_do_not_overflow():
    flat = 1e4 * _dense.linear_init(MLP, generator(0, "init"), torch.float32)
    assert np.isfinite(descend(MLP, flat, np.float32([[-1e4], [1e4]]), np.float32([[0], [0]]), 2, 1e-12))


def test_prediction_is_the_plain_mlp_with_variance_zero():
    flat = _dense.linear_init(MLP, generator(0, "init"), torch.float64)
    posterior = ToyMlp().rebuild(_dense.named_copy(MLP, flat), TASK, 0)
    x = torch.linspace(-100, 100, 21, dtype=torch.float64).reshape(-1, 1)
    answer = posterior.predict(x, range(1), torch.arange(21))
    assert isinstance(answer, Gaussian)
    torch.testing.assert_close(answer.mean[0], plain_mlp(flat)(x).detach(), rtol=DOUBLE, atol=DOUBLE)
    assert torch.equal(answer.variance, torch.zeros(1, 21, 1, dtype=torch.float64))


# --- toy_bbb -------------------------------------------------------------------------------------------------------

BBB = Layout((1, 32, 1))


def plain_bbb(noises: Iterator[Tensor], detach_mu: bool, dtype: torch.dtype) -> linear_bbb.GaussianNetwork:
    replay = linear_bbb.replayed_noise(view for noise in noises for view in BBB.named(noise).values())
    network = linear_bbb.GaussianNetwork(BBB.sizes, 10.0, detach_mu=detach_mu, sample_noise=replay)
    # all means and rho are zero, as the document starts
    return network if dtype == torch.float32 else linear_bbb.in_double_precision(network)


def test_loss_of_toy_bbb_without_noise() -> None:
    # All weights zero: f = 0. sum y^2 = 4 * 9 + 2 * 0.2224^2 = 36.098924, over 2 * 0.01: 1804.9462;
    # 6 (log 0.1 + log(2 pi)/2) = 6 (-2.3025851 + 0.9189385) = -8.3018794;
    # 97 weights with log(10) - log(log 2) = 2.3025851 + 0.3665129: 258.9025.
    network = SampledMlp(BBB, Objective(10.0, 1, True, gaussian_nll(0.1)), 6, dtype=torch.float64)
    points = six_points(torch.float64)
    loss = network.loss_and_gradient(points.x, points.y)
    likelihood = (4 * 9 + 2 * 0.2224**2) / (2 * 0.01) + 6 * (math.log(0.1) + math.log(2 * math.pi) / 2)
    assert loss.item() == close(likelihood + 97 * (math.log(10) - math.log(math.log(2))))


@pytest.mark.parametrize("detach_mu", [True, False])
def test_twenty_steps_are_those_of_the_document(detach_mu) -> None:
    source = torch.Generator().manual_seed(0)
    noises = [torch.randn(97, generator=source, dtype=torch.float64) for _ in range(20)]
    plain = plain_bbb(iter(noises), detach_mu, torch.float64)
    plain_adam = torch.optim.Adam(plain.parameters(), lr=0.1)
    network = SampledMlp(BBB, Objective(10.0, 1, detach_mu, gaussian_nll(0.1)), 6, dtype=torch.float64)
    adam = FlatAdam(network.parameters, network.gradient, 0.1)
    points = six_points(torch.float64)
    for noise in noises:
        network.epsilon.copy_(noise)
        loss = network.loss_and_gradient(points.x, points.y)
        plain_adam.zero_grad()
        expected = linear_bbb.regression_elbo(plain, points.x, points.y, 0.1)
        expected.backward()
        torch.testing.assert_close(loss, expected.detach(), rtol=DOUBLE, atol=DOUBLE)
        gradient = torch.cat(linear_bbb.get_parameters(plain, gradients=True))
        # tolerance: six terms of the likelihood, deviations of some 3 over .1^2, cancel
        torch.testing.assert_close(network.gradient, gradient, rtol=DOUBLE, atol=6 * 3 / 0.1**2 * DOUBLE)
        adam.step()
        plain_adam.step()
    torch.testing.assert_close(
        network.parameters, torch.cat(linear_bbb.get_parameters(plain)), rtol=DOUBLE, atol=DOUBLE
    )


def test_prediction_of_toy_bbb_is_the_function_and_the_known_noise() -> None:
    posterior = ToyBbb(epochs=0).fit(six_points(torch.float64), TASK, whole_epochs(4, torch.float64))
    x = torch.tensor([[-3.0], [0.5]], dtype=torch.float64)
    answer = posterior.predict(x, range(2), torch.arange(2))
    assert isinstance(answer, Gaussian)
    assert torch.equal(answer.variance, torch.full((2, 2, 1), 0.1**2, dtype=torch.float64))
    # untrained: every weight is its noise times log 2
    weights = math.log(2) * normals_(torch.empty(97, dtype=torch.float64), 4, "draw", 1)
    w1, b1, w2, b2 = weights.split([32, 32, 32, 1])
    expected = torch.sigmoid(x * w1 + b1) @ w2.unsqueeze(1) + b2
    torch.testing.assert_close(answer.mean[1], expected, rtol=DOUBLE, atol=DOUBLE)
