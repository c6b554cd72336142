"""The audit of the objectives that our own approaches in PyTorch minimise, with small networks.

Some approaches compute their gradient without autograd: one autograd function stands for loss and gradient, with a leaf
for each parameter tensor. The documents say what a step divides its KL by, so the KL's weight in an epoch is known.
"""

import dataclasses
import math
from functools import partial

import pytest
import torch
from torch.nn.functional import cross_entropy, softplus

import elbo_audit
from bench.interface import Split, Task
from bench.judge.contract import CheckContext
from bench.plan.recipes import build, profile, resolve
from bench.plan.registry import manifest
from implementations import _seeds, linear_bbb, toy_bbb
from implementations._kernels.layout import Layout

N_TRAIN, BATCH, INPUTS, WIDTH = 60_000, 128, 20, 16  # 468.75 steps an epoch
TASK = Task("classification", n_outputs=10, n_train=N_TRAIN, n_inputs=INPUTS)


def recipe_of(name, recipe, **small):
    entry = manifest(name)
    return dataclasses.replace(build(entry, resolve(entry, recipe), profile("full")), **small)


def batches():
    source = torch.Generator().manual_seed(0)
    return [
        (torch.rand(BATCH, INPUTS, generator=source).double(), torch.randint(10, (BATCH,), generator=source))
        for _ in range(3)
    ]


class Written(torch.autograd.Function):
    """A loss that computes its own gradient: `evaluate(flat)` returns the loss [] and the gradient [P]."""

    @staticmethod
    def forward(ctx, evaluate, flat):
        loss, gradient = evaluate(flat.detach())
        ctx.save_for_backward(gradient)
        return loss

    @staticmethod
    def backward(ctx, outer):
        return None, outer * ctx.saved_tensors[0]


def leaves(layout, **vectors):
    """Split vectors [P] into a leaf for each parameter tensor, named as hidden1.weight.mu. `flat` joins them again."""
    return {
        f"{name}.{kind}": view.detach().clone().requires_grad_()
        for kind, vector in vectors.items()
        for name, view in layout.named(vector).items()
    }


def flat(parameters):
    return torch.cat([value.flatten() for value in parameters.values()])


def logits(x, layers, activation):
    for matrix, bias in layers[:-1]:
        x = activation(x @ matrix.T + bias)
    return x @ layers[-1][0].T + layers[-1][1]


def summed_nll(outputs, y):
    return cross_entropy(outputs, y, reduction="sum")


def sampled(module, recipe, task, layout, three, nll_of, prior_std):
    """Audit the network that a module's `Seeds` trains, with noise from torch's global generator."""
    train = Split("train60k", *three[0], torch.arange(len(three[0][0])))
    context = CheckContext(0)
    context.dtype = torch.float64
    network = module.Seeds(recipe, train, _seeds.all_rows(train), task, [context]).network
    parameters = leaves(layout, mu=network.mu, rho=network.rho)

    def evaluate(x, y, values):
        network.parameters.copy_(values)
        network.epsilon.normal_()
        return network.loss_and_gradient(x, y), network.gradient.clone()

    def nll(x, y):
        mu, rho = flat(parameters).chunk(2)
        drawn = mu + softplus(rho) * torch.empty_like(network.epsilon).normal_()
        return nll_of(logits(x, layout.layers(drawn), torch.sigmoid), y)

    def loss(x, y):
        return Written.apply(partial(evaluate, x, y), flat(parameters))

    return elbo_audit.audit_torch(loss, parameters.items(), three, task.n_train, nll=nll, prior_std=prior_std, draws=16)


def linear(recipe):
    layout = Layout((INPUTS, WIDTH, WIDTH, 10))
    small = recipe_of("linear_bbb", recipe, hidden_units=WIDTH)
    return sampled(linear_bbb, small, TASK, layout, batches(), summed_nll, math.sqrt(6))


def test_linear_bbb_as_published_detaches_its_means_so_that_gradients_do_not_show_the_kl():
    report = linear("published")
    assert report.of("kl-scale").outcome == "not measured"
    finding = report.of("detached-gradient")
    assert finding.outcome == "fails"
    assert finding.measured["tensors"] == 6  # the means of three layers' weights and biases
    assert "rho" not in finding.detail


def test_linear_bbb_corrected_is_an_elbo_under_the_stated_prior():
    report = linear("corrected")
    assert report.ok
    assert report.numbers["kl_per_epoch"] == pytest.approx(1, abs=0.01)
    assert report.numbers["prior_std"] == pytest.approx(math.sqrt(6), rel=0.05)
    assert report.of("variance-as-std").outcome == "passes"
    # with the gradient of the published prior: standard deviation 6, the stated variance
    finding = linear("published+attached-mu").of("variance-as-std")
    assert finding.outcome == "fails"
    assert "whose square it is" in finding.detail


def test_toy_bbb_detaches_its_means():
    recipe = recipe_of("toy_bbb", "published")
    task = Task("regression", n_outputs=1, n_train=6, n_inputs=1)
    source = torch.Generator().manual_seed(0)
    three = [tuple(torch.randn(6, 1, generator=source, dtype=torch.float64) for _ in "xy") for _ in range(3)]

    def nll(outputs, y):
        return -torch.distributions.Normal(outputs, recipe.noise_std).log_prob(y).sum()

    layout = Layout((1, recipe.hidden_units, 1))
    report = sampled(toy_bbb, recipe, task, layout, three, nll, recipe.prior_std)
    assert [finding.rule for finding in report.findings if finding.outcome == "fails"] == ["detached-gradient"]
