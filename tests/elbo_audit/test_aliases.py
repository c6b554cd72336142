"""Tensors that share memory are names of the same numbers: a parameter, and its copy in another shape."""

import pytest
import torch
from torch import nn

import elbo_audit
from elbo_audit.errors import AuditError
from tests.elbo_audit.models import N_TRAIN, STEPS, Single, audit, batches


def plain():
    """Return a network, and its parameters without other names."""
    net = Single()
    return net, list(net.named_parameters())


def copies(are_trained=True):
    """Return a network, and its parameters beside the same numbers in one row, as a sampler keeps them."""
    net, named = plain()
    rows = [(f"sampler.{name}", nn.Parameter(value.data.view(-1), are_trained)) for name, value in named]
    return net, named + rows


def copies_as_buffers():
    return copies(are_trained=False)


def used_by_the_copies():
    """Return a network whose loss sees the numbers by their other names alone."""
    net, named = copies()
    for name, value in named[2:]:
        own = name.removeprefix("sampler.")
        delattr(net, own)
        setattr(net, own, value.view(5, 7))
    return net, named


aliases = pytest.mark.parametrize("made", [copies, copies_as_buffers, used_by_the_copies])


@aliases
def test_other_names_change_nothing(made):
    own, named = plain()
    without = elbo_audit.audit_torch(own.elbo, named, batches(), N_TRAIN, nll=own.nll, prior_std=1.0)
    net, named = made()
    report = elbo_audit.audit_torch(net.elbo, named, batches(), N_TRAIN, nll=net.nll, prior_std=1.0)
    assert without.ok
    assert report.ok, str(report)
    assert report.numbers == pytest.approx(without.numbers, rel=1e-6)
    assert report.kl_weights == pytest.approx(without.kl_weights, rel=1e-6)
    assert "all 2 parameter tensors" in report.of("unused-layer").detail


@aliases
def test_a_kl_that_counts_twice_fails_under_other_names(made):
    net, named = made()

    def loss(x, y):
        return net.nll(x, y) + 2 * net.analytic() / STEPS

    report = elbo_audit.audit_torch(loss, named, batches(), N_TRAIN, nll=net.nll)
    assert [finding.rule for finding in report.findings if finding.outcome == "fails"] == ["kl-scale"]
    assert report.numbers["kl_per_epoch"] == pytest.approx(2, rel=1e-3)


@aliases
def test_a_gradient_of_half_the_slope_fails_under_other_names(made):
    net, named = made()

    def loss(x, y):  # d mu^2 = 2 mu, and autograd's mu
        return net.elbo(x, y) + 1e4 * (net.weight_mu * net.weight_mu.detach()).sum()

    finding = elbo_audit.audit_torch(loss, named, batches(), N_TRAIN, nll=net.nll).of("detached-gradient")
    assert finding.outcome == "fails"
    assert "weight_mu" in finding.detail
    assert "weight_rho" not in finding.detail


def test_an_optimiser_holds_the_numbers_by_either_name():
    net, named = copies()
    optimizer = torch.optim.SGD([named[2][1]], lr=0.1, weight_decay=0.01)
    report = elbo_audit.audit_torch(net.elbo, named, batches(), N_TRAIN, nll=net.nll, optimizer=optimizer)
    assert report.of("decayed-posterior").measured["tensors"] == 1
    assert report.of("sigma-frozen").outcome == "fails"


def test_layers_of_one_flat_storage_are_weighed_apart(model):
    # As libraries keep a whole network in one vector: layers that share storage, and no numbers.
    named = list(model.named_parameters())
    store = torch.cat([value.data.flatten() for _, value in named])
    for (_, value), part in zip(named, store.split([value.numel() for _, value in named]), strict=True):
        value.data = part.view(value.shape)
    report = audit(model, lambda x, y: model.nll(x, y) + (model.first.kl() + 5 * model.second.kl()) / STEPS)
    assert report.kl_weights == pytest.approx(
        {"first.weight_mu, first.weight_rho": 1, "second.weight_mu, second.weight_rho": 5}, rel=0.01
    )


def test_numbers_that_two_parameters_share_otherwise_are_named():
    net = Single()
    named = list(net.named_parameters())
    theta = nn.Parameter(torch.cat([value.data.flatten() for _, value in named]))
    a_slice = ("weight_mu", nn.Parameter(theta.data[:35].view(5, 7)))
    turned = ("turned", nn.Parameter(named[0][1].data.t()))
    for given, name in (([("theta", theta), a_slice], "theta"), ([*named, turned], "turned")):
        with pytest.raises(AuditError, match=f"'{name}'.* share numbers in memory, .*; give one of them"):
            elbo_audit.audit_torch(net.elbo, given, batches(), N_TRAIN, nll=net.nll)


def test_a_view_beside_its_leaf_counts_once():
    own = Single()
    without = elbo_audit.audit_torch(own.elbo, list(own.named_parameters()), batches(), N_TRAIN, nll=own.nll)
    net = Single()
    theta = nn.Parameter(net.weight_mu.data.flatten())
    del net.weight_mu
    net.weight_mu = theta.view(5, 7)
    given = [("theta", theta), ("weight_mu", net.weight_mu), ("weight_rho", net.weight_rho)]
    report = elbo_audit.audit_torch(net.elbo, given, batches(), N_TRAIN, nll=net.nll)
    assert report.ok, str(report)
    assert report.numbers == pytest.approx(without.numbers, rel=1e-6)  # tolerance: sums of 70 numbers in another order
