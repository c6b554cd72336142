"""Tensors that share storage are names of the same numbers, whatever their shapes."""

import numpy as np
import pytest
import torch
from torch import nn

import elbo_audit
from elbo_audit.torch_objective import TorchObjective
from tests.elbo_audit.models import N_TRAIN, STEPS, Single, audit, batches


def plain():
    """Return a network, and its parameters without other names."""
    net = Single()
    return net, list(net.named_parameters())


def transposed():
    """Return a network, and its parameters beside the same numbers with rows and columns exchanged."""
    net, named = plain()
    return net, named + [(f"turned.{name}", nn.Parameter(value.data.t())) for name, value in named]


def flat(uses_views=True, views_are_trained=True):
    """Return a network, and a vector of its 70 numbers beside the views of mu and rho.

    The loss uses the views, or slices of the vector.
    """
    net, named = plain()
    theta = nn.Parameter(torch.cat([value.data.flatten() for _, value in named]))
    listed = [("theta", theta)]
    for start, (name, _) in zip((0, 35), named, strict=True):
        view = theta.data[start : start + 35].view(5, 7)
        listed.append((name, nn.Parameter(view, requires_grad=views_are_trained)))
        delattr(net, name)
        setattr(net, name, listed[-1][1] if uses_views else theta[start : start + 35].view(5, 7))
    return net, listed


def slices():
    return flat(uses_views=False)


def slices_beside_buffers():
    return flat(uses_views=False, views_are_trained=False)


def slices_by_name():
    """Return a network, and its vector beside the slices that the loss uses: autograd sees one path by two names."""
    net, named = slices()
    return net, [named[0], ("weight_mu", net.weight_mu), ("weight_rho", net.weight_rho)]


aliases = pytest.mark.parametrize("made", [transposed, flat, slices, slices_beside_buffers, slices_by_name])


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


@aliases
def test_an_optimiser_holds_the_numbers_by_any_name(made):
    net, named = made()
    optimizer = torch.optim.SGD([value for _, value in named if value.is_leaf][:1], lr=0.1, weight_decay=0.01)
    report = elbo_audit.audit_torch(net.elbo, named, batches(), N_TRAIN, nll=net.nll, optimizer=optimizer)
    held = 1 if made is transposed else 2  # mu, or theta which is mu and rho
    assert report.of("decayed-posterior").measured["tensors"] == held
    assert report.of("sigma-frozen").outcome == ("fails" if held == 1 else "passes")


def objective_of(loss, **named):
    return TorchObjective(loss, named.items(), batches())


def test_columns_between_columns_are_other_numbers():
    # Columns 0, 2, 4 and 1, 3 of one storage. The spans overlap, the numbers do not.
    both = torch.ones(4, 5)
    even, odd = nn.Parameter(both[:, ::2]), nn.Parameter(both[:, 1::2])
    objective = objective_of(lambda x, y: 2 * even.sum() + 3 * odd.sum(), even=even, odd=odd)
    assert list(objective.shapes) == ["even", "odd"]
    assert not objective.holds("even", odd)
    assert {name for name, slope in objective.gradient(even.sum()).items() if slope.any()} == {"even"}
    # A name of the whole holds the numbers of both: 2 + 1 and 3 + 1.
    whole = nn.Parameter(both)
    objective = objective_of(lambda x, y: 2 * even.sum() + 3 * odd.sum() + whole.sum(), whole=whole, odd=odd, even=even)
    assert list(objective.shapes) == ["odd", "even"]
    gradient = objective.loss_gradient(objective.batches[0], 0)
    assert (gradient["even"] == np.full((4, 3), 3.0)).all()
    assert (gradient["odd"] == np.full((4, 2), 4.0)).all()
    assert objective.holds("odd", whole)
    assert objective.holds("odd", odd)


def test_views_of_a_part_leave_the_whole_as_the_parameter():
    # Of six numbers, the first four and two of these. The slopes by every name add up: 1, 10, and a scale.
    theta = nn.Parameter(torch.zeros(6))
    first, middle = nn.Parameter(theta.data[:4].view(2, 2).t()), nn.Parameter(theta.data[1:3])
    scale = torch.tensor([[100.0, 300.0], [200.0, 400.0]])  # of numbers 0 and 2, 1 and 3
    objective = objective_of(
        lambda x, y: theta.sum() + 10 * middle.sum() + (scale * first).sum(),
        middle=middle,
        first=first,
        theta=theta,
        again=nn.Parameter(theta.data),
    )
    assert list(objective.shapes) == ["theta"]
    gradient = objective.loss_gradient(objective.batches[0], 0)
    assert gradient["theta"].tolist() == [101.0, 211.0, 311.0, 401.0, 1.0, 1.0]


def test_a_slice_that_is_trained_without_its_whole():
    whole = torch.zeros(6)
    part = whole[:4].requires_grad_()  # a leaf, though a view
    objective = objective_of(lambda x, y: 2 * part.sum(), whole=whole, part=part, rest=whole[4:])
    assert list(objective.shapes) == ["part"]
    assert objective.loss_gradient(objective.batches[0], 0)["part"].tolist() == [2.0] * 4
    # The first name is of a buffer. The gradient comes by the second.
    buffer = torch.ones(3)
    w = nn.Parameter(buffer)
    objective = objective_of(lambda x, y: 5 * w.sum(), buffer=buffer, w=w)
    assert objective.gradient(objective.named["buffer"].sum() + 5 * w.sum())["buffer"].tolist() == [6.0] * 3


def test_a_move_is_seen_by_every_name_and_taken_back():
    net, named = transposed()
    known = dict(named)
    objective = TorchObjective(net.elbo, named, batches())
    before = {name: value.detach().clone() for name, value in named}
    shift = torch.arange(35.0).view(5, 7)
    with objective.moved({"weight_mu": shift.double().numpy()}):
        assert torch.allclose(known["turned.weight_mu"] - before["turned.weight_mu"], shift.t(), atol=1e-5)
    assert all(torch.equal(value, before[name]) for name, value in named)


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
