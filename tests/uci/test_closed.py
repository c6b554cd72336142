"""Closed forms: least squares, and the Gaussian over a network's last layer, against direct computations."""

import numpy as np
import pytest
import torch

pytest.importorskip("numba")

from bench.uci.closed import features, last_layer, linear, predicted
from bench.uci.data import standardise
from bench.uci.dropout import Batch, Network, prepare
from bench.uci.scores import scores
from bench.uci.train import run_set
from tests.data.small_sets import TRAIN, how, small_yacht, values


@pytest.fixture
def made_up(monkeypatch):
    return small_yacht(monkeypatch)


def test_linear_regression_is_the_textbooks(made_up, tmp_path):
    split = made_up.splits[0]
    design, points = (np.column_stack([np.ones(len(rows)), made_up.x[rows, :2]]) for rows in split)
    weights, (residual,), rank, _ = np.linalg.lstsq(design, made_up.y[split.train], rcond=None)
    leverage = np.sum(points @ np.linalg.inv(design.T @ design) * points, axis=1)
    variance = residual / (TRAIN - rank) * (1 + leverage)
    expected = scores((points @ weights)[None], variance[None], made_up.y[split.test])
    found = linear(made_up, split)
    # tolerance: rounding, times the condition number of the unscaled design, about 1e3 squared
    assert found == pytest.approx(expected, rel=1e-8)
    table = run_set("yacht", "linear", 0, 0, how(tmp_path))
    assert values(table, 0) == found


def log_joint(weights, seen, y, noise, prior):
    """Return log p(y, weights) of Gaussian noise and prior with these precisions."""
    normal = torch.distributions.Normal
    return normal(seen @ weights, noise**-0.5).log_prob(y).sum() + normal(0.0, prior**-0.5).log_prob(weights).sum()


def evidence(weights, seen, y, noise, prior):
    """Return Laplace's estimate of log p(y), by the Hessian that autograd finds."""
    hessian = torch.autograd.functional.hessian(
        lambda one: -log_joint(one, seen, y, noise, prior), weights, create_graph=True
    )
    return (
        log_joint(weights, seen, y, noise, prior)
        + len(weights) / 2 * np.log(2 * np.pi)
        - torch.linalg.slogdet(hessian)[1] / 2
    )


@pytest.mark.parametrize(("sd", "n_dead"), [(0.3, 0), (0.3, 2), (20.0, 0)])  # the last: the rows determine little
def test_the_last_layers_gaussian_has_the_largest_marginal_likelihood(sd, n_dead):
    rng = np.random.default_rng(3)
    seen = np.column_stack([np.maximum(rng.normal(size=(40, 5)), 0), np.ones(40)])
    seen[:, :n_dead] = 0.0
    weights = rng.normal(size=6)
    y = seen @ (weights + 0.1) + sd * rng.normal(size=40)
    found = last_layer(seen, y, weights)
    given = [torch.tensor(one) for one in (weights, seen, y)]
    logs = torch.tensor([found.noise, found.prior], dtype=torch.float64).log().requires_grad_()
    (slope,) = torch.autograd.grad(evidence(*given, *logs.exp()), logs)
    # tolerance: sums of 40 terms of about 1 in float64; the slope is in nats for each e-fold of a precision
    np.testing.assert_allclose(slope, 0.0, atol=1e-9)
    best = evidence(*given, *logs.exp())
    for move in torch.tensor([[0.5, 0.0], [-0.5, 0.0], [0.0, 0.5], [0.0, -0.5], [3.0, 3.0], [-3.0, -3.0]]):
        assert evidence(*given, *(logs + move).exp()) < best
    both = logs.detach().exp()
    hessian = torch.autograd.functional.hessian(lambda one: -log_joint(one, *given[1:], *both), given[0])
    # tolerance: rounding, times the condition number of the Hessian, below 1e3
    np.testing.assert_allclose(found.covariance @ hessian.numpy(), np.eye(6), atol=1e-11)
    mean, variance = predicted(found, seen[:3])
    draws = seen[:3] @ found.covariance @ seen[:3].T
    # tolerance: rounding of a few sums
    np.testing.assert_allclose(variance, np.diag(draws) + 1 / found.noise, rtol=1e-12)
    # tolerance: as above
    np.testing.assert_allclose(mean, seen[:3] @ weights, rtol=1e-12)


def test_laplace_is_around_the_plain_network_in_the_targets_unit(made_up, tmp_path):
    table, plain = (run_set("yacht", name, 30, 0, how(tmp_path)) for name in ("last_layer_laplace", "network"))
    # tolerance: one predicts in float32, the other in float64
    assert values(table, 1)["rmse"] == pytest.approx(values(plain, 1)["rmse"], rel=1e-4)
    rows = prepare(made_up, made_up.splits)
    batch = Batch([Network(1, (1, 1, 0), 0.0, 0.0)], rows.train, 5, 0)
    batch.train(30)  # 50 rows are one batch
    seen, points = (features(batch.parameters[0], one.x[1]) for one in (rows.train, rows.test))
    off = batch.predict(rows.test, np.ones((1, 1)), 1, dropout=False).mean[0]
    # tolerance: predictions in float32, of about 1
    np.testing.assert_allclose(points @ batch.parameters[0][-6:], off, atol=1e-5)
    layer = last_layer(seen, rows.train.y[1].astype(np.float64), batch.parameters[0][-6:].astype(np.float64))
    mean, variance = predicted(layer, points)
    y = standardise(made_up.y[made_up.splits[1].train], made_up.y[made_up.splits[1].test])
    expected = scores((mean * y.sd + y.mean)[None], (variance * y.sd**2)[None], made_up.y[made_up.splits[1].test])
    further = {"tau": layer.noise / y.sd**2, "prior_precision": layer.prior}
    # tolerance: rounding of the target's mean and standard deviation
    assert values(table, 1) == pytest.approx({**expected, **further}, rel=1e-9)
    made_up.y[made_up.splits[1].test] += 100
    after = run_set("yacht", "last_layer_laplace", 30, 0, how(tmp_path / "b", splits=2))
    assert values(after, 1)["rmse"] > 90
    assert {name: values(after, 1)[name] for name in further} == {name: values(table, 1)[name] for name in further}


def test_parts_of_one_seed_are_one_network_however_many_are_trained(made_up, tmp_path):
    both, first = (run_set("yacht", "last_layer_laplace", 5, 0, how(tmp_path, splits=n)) for n in (2, 1))
    assert values(both, 0) == values(first, 0)
