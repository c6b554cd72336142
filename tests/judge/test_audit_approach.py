"""The rules for approaches, on our own: each recipe has the mistakes that it declares, and no others."""

import pytest
import torch

from bench.core.errors import Unsupported
from bench.interface import Marginal
from bench.judge.audit import probe
from bench.judge.audit.approach import _sigma_moves, audit_approach
from bench.judge.audit.rules import RULES
from bench.plan.registry import manifest, manifests
from implementations import _methods, linear_bbb
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

    assert seen([0.05, 0.05, 0.0], [0.05, 0.05, 0.0], [0.05, 0.05, 0.0])[::2] == ("fails", {"relative change": 0.0})
    assert seen([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0])[:2] == ("fails", "every sigma is zero in training")
    assert seen([0.05, 0.05, 0.0], [0.5, 0.5, 0.0], [5.0, 5.0, 0.0]).outcome == "passes"
    with pytest.raises(Unsupported, match="it trains 2 epochs, and this rule needs 3"):
        seen([0.05, 0.05, 0.0], [0.05, 0.05, 0.0])


def test_what_cannot_be_seen_has_a_reason():
    found = audit_approach("uniform")
    assert {finding.outcome for finding in found} == {"passes", "not applicable"}
    assert all(finding.detail for finding in found)
