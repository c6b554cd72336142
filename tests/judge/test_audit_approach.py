"""Our own approaches audited: the rules on each recipe, and the objectives that those in PyTorch minimise."""

import dataclasses
import math
from functools import partial

import pytest
import torch
from torch.nn.functional import cross_entropy, softplus

import elbo_audit
from bench.core.errors import Unsupported
from bench.interface import Marginal, Split, Task
from bench.judge.audit import probe
from bench.judge.audit.approach import _sigma_moves, audit_approach
from bench.judge.audit.rules import RULES
from bench.judge.contract import CheckContext
from bench.plan.recipes import build, profile, resolve
from bench.plan.registry import manifest, manifests
from implementations import _methods, _seeds, linear_bbb, toy_bbb
from implementations._kernels.layout import Layout
from implementations._kernels.sampled_mlp import Objective
from tests.implementations.made_up import WIDTHS, SmallUnderTest, class_of

KNOWN = {
    ("pyro_hidden_layer", "published"): {"kl-sign"},
    ("pyro_random_module", "published"): {"kl-scale"},
    ("linear_bbb", "published"): {"detached-gradient"},
    ("mxnet_bbb", "published"): {"unused-layer", "sigma-frozen"},
    ("mxnet_bbb", "corrected"): {"sigma-frozen"},
    ("blundell_bbb", "published"): {"detached-gradient", "sigma-frozen"},
    ("blundell_bbb", "all-images"): {"detached-gradient", "sigma-frozen"},
    ("torchbnn_mlp", "published"): {"kl-scale"},
    ("bayesian_torch_mlp", "published"): {"kl-scale"},
    ("vi_diag", "published"): {"detached-gradient"},
    ("ivon", "published"): {"sigma-frozen"},
}
SUBJECTS = [(name, recipe) for name, entry in manifests().items() for recipe in entry.recipes]


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Make the networks small. Small networks have the same mistakes."""
    monkeypatch.setattr(probe, "ApproachUnderTest", SmallUnderTest)
    monkeypatch.setattr(_methods, "WIDTHS", WIDTHS)


@pytest.mark.parametrize(("name", "recipe"), SUBJECTS, ids=[f"{name}-{recipe}" for name, recipe in SUBJECTS])
def test_our_recipes_have_the_mistakes_that_they_declare_and_no_others(name, recipe):
    class_of(name)
    found = audit_approach(name, recipe)
    assert [f.detail for f in found if f.outcome == "fails"] == []
    known = KNOWN.get((name, recipe), set())
    outcomes = {f.rule: f.outcome for f in found}
    unseen = {"kl-sign"} if "detached-gradient" in known else set()  # drowned in noise
    if outcomes["kl-scale"] != "not applicable" and "kl-scale" not in known:
        unseen.add("kl-scale")  # the fit depends on N, as it also would with twice the KL
    assert {rule for rule, outcome in outcomes.items() if outcome == "not measured"} == unseen
    assert {rule for rule, outcome in outcomes.items() if outcome == "known"} == known
    reasons = ("removes it", *manifest(name).known.values())  # a correction, or why there is none
    assert all(any(reason in f.detail for reason in reasons) for f in found if f.outcome == "known")


def test_an_undeclared_mistake_fails(monkeypatch):
    monkeypatch.setattr("bench.judge.audit.approach.declared", lambda entry, recipe: {})
    found = {finding.rule: finding for finding in audit_approach("linear_bbb", "published")}
    assert found["detached-gradient"].outcome == "fails"
    assert abs(found["detached-gradient"].measured["correlation"]) < 0.05
    assert found["detached-gradient"].remedy == RULES["detached-gradient"].remedy


def test_a_kl_that_counts_twice_is_not_said_to_be_right(monkeypatch):
    def twice(prior_std, n_batches, detach_mu, nll):
        return Objective(prior_std, n_batches / 2, detach_mu, nll)

    monkeypatch.setattr(linear_bbb, "Objective", twice)
    found = {finding.rule: finding for finding in audit_approach("linear_bbb", "corrected")}
    assert found["kl-scale"].outcome == "not measured"
    assert found["kl-scale"].measured["difference"] > 0
    assert "needs elbo_audit" in found["kl-scale"].detail


def test_sigmas_of_zero_are_left_out_and_too_few_epochs_are_a_reason():
    """A deterministic bias beside two weights whose sigma stays at .05."""
    one = probe.Probe("linear_bbb", "published")

    def seen(*stds):
        looks = [{"w": Marginal(torch.zeros(3), torch.tensor(std), torch.ones(3, dtype=torch.bool))} for std in stds]
        one.trail = lambda n_train, epochs: probe.Trail(looks, {})
        return _sigma_moves(one)

    assert seen([0.05, 0.05, 0.0], [0.05, 0.05, 0.0], [0.05, 0.05, 0.0])[:3:2] == ("fails", {"relative change": 0.0})
    assert seen([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0])[:2] == ("fails", "every sigma is zero in training")
    assert seen([0.05, 0.05, 0.0], [0.5, 0.5, 0.0], [5.0, 5.0, 0.0]).outcome == "passes"
    with pytest.raises(Unsupported, match="it trains 2 epochs, and this rule needs 3"):
        seen([0.05, 0.05, 0.0], [0.05, 0.05, 0.0])


def test_what_cannot_be_seen_has_a_reason():
    found = audit_approach("uniform")
    assert {finding.outcome for finding in found} == {"passes", "not applicable"}
    assert all(finding.detail for finding in found)


# Some approaches compute their gradient without autograd: one autograd function stands for loss and gradient, with a
# leaf for each parameter tensor. The documents say what a step divides its KL by, so a KL has a known weight an epoch.
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
