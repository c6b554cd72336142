"""toy_mlp: the hand-written NumPy descent equal to autograd, the six points' trace, a prediction without a band."""

import numpy as np
import torch

from bench.core.streams import generator
from bench.interface import Gaussian, Task
from implementations import _dense
from implementations._kernels.layout import Layout
from implementations.toy_mlp import ToyMlp, descend
from tests.close import DOUBLE, close
from tests.implementations.made_up import assert_parameters, load, six_points

LAYOUT = Layout((1, 16, 16, 1))
TASK = Task("regression", n_outputs=1, n_train=6, n_inputs=1)


def plain_network(flat):
    """The document's network with these weights, in modules."""
    net = torch.nn.Sequential(
        torch.nn.Linear(1, 16), torch.nn.Sigmoid(), torch.nn.Linear(16, 16), torch.nn.Sigmoid(), torch.nn.Linear(16, 1)
    ).to(flat.dtype)
    return load(net, LAYOUT.named(flat).values())


def test_hundred_steps_equal_autograd():
    flat = _dense.linear_init(LAYOUT, generator(0, "init"), torch.float64)
    net, train = plain_network(flat), six_points(torch.float64)
    x, y = train.x, train.y
    sgd = torch.optim.SGD(net.parameters(), lr=0.01)
    losses = []
    for _ in range(100):
        sgd.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x), y)
        losses.append(loss.item())
        loss.backward()
        sgd.step()
    first = descend(LAYOUT, flat, x.numpy(), y.numpy(), 60, 0.01)
    second = descend(LAYOUT, flat, x.numpy(), y.numpy(), 40, 0.01)
    # a step rounds a number some 90 times in a row, and only a hundredth of the gradient's roundings stays in a weight
    assert first == close(losses[0])
    assert second == close(losses[60])
    assert_parameters(net, LAYOUT.named(flat).values())


def test_first_loss_of_a_network_that_predicts_zero():
    # targets -3, .2224, 3, 3, .2224, -3: mean square (4 x 9 + 2 x .04946) / 6 = 6.0165
    train = six_points(torch.float64)
    flat = torch.zeros(LAYOUT.n_weights, dtype=torch.float64)
    loss = descend(LAYOUT, flat, train.x.numpy(), train.y.numpy(), 1, 0.01)
    assert loss == close((4 * 9 + 2 * 0.2224**2) / 6)
    # error -y, so the output bias moves by .01 x 2 mean(y) = .01 x 2 x .0741333 = .00148267, and nothing else through
    # zero output weights but those weights themselves: sigmoid(0) = 1/2 of it
    named = LAYOUT.named(flat)
    moved = 0.01 * 2 * (2 * 0.2224 / 6)
    assert named["output.bias"].item() == close(moved)
    assert named["output.weight"].numpy() == close(np.full((1, 16), moved / 2))
    assert not named["hidden1.weight"].any()
    assert not named["hidden2.weight"].any()


def test_huge_inputs_do_not_overflow():
    flat = 1e4 * _dense.linear_init(LAYOUT, generator(0, "init"), torch.float32)
    assert np.isfinite(descend(LAYOUT, flat, np.float32([[-1e4], [1e4]]), np.float32([[0], [0]]), 2, 1e-12))


def test_prediction_is_the_plain_network_with_variance_zero():
    flat = _dense.linear_init(LAYOUT, generator(0, "init"), torch.float64)
    posterior = ToyMlp().rebuild(_dense.named_copy(LAYOUT, flat), TASK, 0)
    x = torch.linspace(-100, 100, 21, dtype=torch.float64).reshape(-1, 1)
    answer = posterior.predict(x, range(1), torch.arange(21))
    assert isinstance(answer, Gaussian)
    torch.testing.assert_close(answer.mean[0], plain_network(flat)(x).detach(), rtol=DOUBLE, atol=DOUBLE)
    assert torch.equal(answer.variance, torch.zeros(1, 21, 1, dtype=torch.float64))
