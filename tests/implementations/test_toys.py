"""toy_mlp: its descent equals autograd, one trace by hand, no band; toy_bbb: loss, gradient, the document's loop."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from bench.core.streams import generator, normals_
from bench.interface import Gaussian, Task
from documents_code import linear_bbb as document
from implementations import _dense
from implementations._kernels.flat_adam import FlatAdam
from implementations._kernels.layout import Layout
from implementations._kernels.sampled_mlp import Objective, SampledMlp, gaussian_nll
from implementations.toy_bbb import ToyBbb
from implementations.toy_mlp import ToyMlp, descend
from tests.close import DOUBLE, close
from tests.implementations.made_up import assert_parameters, load, six_points, whole_epochs

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


def plain_bbb(noises: Iterator[Tensor], detach_mu: bool, dtype: torch.dtype) -> document.GaussianNetwork:
    replay = document.replayed_noise(view for noise in noises for view in BBB.named(noise).values())
    network = document.GaussianNetwork(BBB.sizes, 10.0, detach_mu=detach_mu, sample_noise=replay)
    # all means and rho are zero, as the document starts
    return network if dtype == torch.float32 else document.in_double_precision(network)


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
        expected = document.regression_elbo(plain, points.x, points.y, 0.1)
        expected.backward()
        torch.testing.assert_close(loss, expected.detach(), rtol=DOUBLE, atol=DOUBLE)
        gradient = torch.cat(document.get_parameters(plain, gradients=True))
        # tolerance: six terms of the likelihood, deviations of some 3 over .1^2, cancel
        torch.testing.assert_close(network.gradient, gradient, rtol=DOUBLE, atol=6 * 3 / 0.1**2 * DOUBLE)
        adam.step()
        plain_adam.step()
    torch.testing.assert_close(network.parameters, torch.cat(document.get_parameters(plain)), rtol=DOUBLE, atol=DOUBLE)


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
