"""Methods of libraries against their formulas by hand: a step of IVON."""

import dataclasses

import torch

from bench.interface import Task
from implementations._kernels.layout import Layout
from tests.close import DOUBLE
from tests.golden.fits import in_double
from tests.implementations.made_up import class_of, context_of, rows

TASK = Task("classification", n_outputs=3, n_train=40, n_inputs=5, hidden=(6,))
LAYOUT = Layout((5, 6, 3))


def logits_of(flat, x):
    (first, bias), (last, last_bias) = LAYOUT.layers(flat)
    return torch.relu(x @ first.T + bias) @ last.T + last_bias


def test_a_step_of_ivon_is_that_of_the_paper():
    """Algorithm 1 of Shen et al. 2024: N = 40, h = .3, d = 1 / (40 .5^2) = .1 make sigma 1 / sqrt(40 (h + d)) = .25."""
    recipe = class_of("ivon")(epochs=1, batch_size=40, prior_std=0.5, learning_rate=0.2, hess_init=0.3, beta2=0.9)
    train, context = in_double(rows(40, 5, n_outputs=3)), context_of(3, torch.float64)
    start, end = (dataclasses.replace(recipe, epochs=n).fit(train, TASK, context).arrays() for n in (0, 1))
    torch.testing.assert_close(start["sigma"], torch.full_like(start["mu"], 0.25), rtol=DOUBLE, atol=0)
    torch.manual_seed(context.stream("noise", 1))
    noise = 0.25 * torch.randn(LAYOUT.n_weights, dtype=torch.float64)
    weights = (start["mu"] + noise).requires_grad_()
    loss = torch.nn.functional.cross_entropy(logits_of(weights, train.x), train.y)
    (gradient,) = torch.autograd.grad(loss, weights)
    found = gradient * noise / 0.25**2
    h = 0.9 * 0.3 + 0.1 * found + 0.1**2 / 2 * (0.3 - found) ** 2 / (0.3 + 0.1)
    mu = start["mu"] - 0.2 * (0.3 + 0.1) * (gradient + 0.1 * start["mu"]) / (h + 0.1)
    torch.testing.assert_close(end["sigma"], 1 / (40 * (h + 0.1)).sqrt(), rtol=DOUBLE, atol=0)
    torch.testing.assert_close(end["mu"], mu, rtol=DOUBLE, atol=DOUBLE)
