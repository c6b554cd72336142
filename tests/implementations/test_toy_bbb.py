"""toy_bbb: the regression's loss and gradient, the document's loop, what is predicted."""

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from bench.core.streams import normals_
from bench.interface import Gaussian, Task
from documents_code import linear_bbb as document
from implementations._kernels.flat_adam import FlatAdam
from implementations._kernels.layout import Layout
from implementations._kernels.sampled_mlp import Objective, SampledMlp, gaussian_nll
from implementations.toy_bbb import ToyBbb
from tests.close import DOUBLE, close
from tests.implementations.made_up import six_points, whole_epochs

TASK = Task("regression", n_outputs=1, n_train=6, n_inputs=1)
LAYOUT = Layout((1, 32, 1))


def plain_network(noises: Iterator[Tensor], detach_mu: bool, dtype: torch.dtype) -> document.GaussianNetwork:
    replay = document.replayed_noise(view for noise in noises for view in LAYOUT.named(noise).values())
    network = document.GaussianNetwork(LAYOUT.sizes, 10.0, detach_mu=detach_mu, sample_noise=replay)
    # all means and rho are zero, as the document starts
    return network if dtype == torch.float32 else document.in_double_precision(network)


def test_loss_of_the_network_without_noise() -> None:
    # All weights zero: f = 0. sum y^2 = 4 * 9 + 2 * 0.2224^2 = 36.098924, over 2 * 0.01: 1804.9462;
    # 6 (log 0.1 + log(2 pi)/2) = 6 (-2.3025851 + 0.9189385) = -8.3018794;
    # 97 weights with log(10) - log(log 2) = 2.3025851 + 0.3665129: 258.9025.
    network = SampledMlp(LAYOUT, Objective(10.0, 1, True, gaussian_nll(0.1)), 6, dtype=torch.float64)
    points = six_points(torch.float64)
    loss = network.loss_and_gradient(points.x, points.y)
    likelihood = (4 * 9 + 2 * 0.2224**2) / (2 * 0.01) + 6 * (math.log(0.1) + math.log(2 * math.pi) / 2)
    assert loss.item() == close(likelihood + 97 * (math.log(10) - math.log(math.log(2))))


@pytest.mark.parametrize("detach_mu", [True, False])
def test_twenty_steps_are_those_of_the_document(detach_mu) -> None:
    source = torch.Generator().manual_seed(0)
    noises = [torch.randn(97, generator=source, dtype=torch.float64) for _ in range(20)]
    plain = plain_network(iter(noises), detach_mu, torch.float64)
    plain_adam = torch.optim.Adam(plain.parameters(), lr=0.1)
    network = SampledMlp(LAYOUT, Objective(10.0, 1, detach_mu, gaussian_nll(0.1)), 6, dtype=torch.float64)
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


def test_prediction_is_the_function_and_the_known_noise() -> None:
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
