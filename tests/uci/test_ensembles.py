"""Deep ensembles, Bayes by Backprop and IVON: against plain PyTorch, choices by validation rows, kills, threads."""

import numpy as np
import pytest
import torch

pytest.importorskip("numba")

from bench.core.noise import fill_normals
from bench.core.streams import stream_seed
from bench.uci import train
from bench.uci.data import standardise, validation
from bench.uci.dropout import Parts, prepare
from bench.uci.ensembles import RATES, Ensembles, best_rates
from bench.uci.ivon import Ivon
from bench.uci.mean_field import GRID, SCALES, BayesByBackprop, best_settings
from bench.uci.scores import scores
from bench.uci.train import run_set
from tests.data.small_sets import how, small_yacht, values


@pytest.fixture
def made_up(monkeypatch):
    return small_yacht(monkeypatch)


def test_an_ensembles_networks_are_plain_ones_trained_by_their_likelihood(made_up):
    rows = prepare(made_up, made_up.splits)
    wide = Parts(*(np.concatenate([one, one, one], axis=1) for one in rows.train))  # 150 rows: two batches
    ensembles = Ensembles(wide, 5, 2, [[0.01], [0.03, 0.01]], torch.float64)
    number = 7  # network 2 of split 1, with the first of its rates
    start = torch.tensor(ensembles.arrays["parameters"][number]).split([15, 5, 10, 2])
    network = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2)).double()
    with torch.no_grad():
        for parameter, value in zip(network.parameters(), start, strict=True):
            parameter.copy_(value.view(parameter.T.shape).T if parameter.ndim == 2 else value)
    adam = torch.optim.Adam(network.parameters(), lr=0.03)
    x, y = (torch.tensor(one[1]).double() for one in wide)
    for epoch in range(2):
        for chosen in ensembles.orders(epoch)[number].split(100):
            mean, raw = network(x[chosen]).unbind(1)
            variance = torch.nn.functional.softplus(raw) + 1e-6
            adam.zero_grad()
            torch.nn.functional.gaussian_nll_loss(mean, y[chosen], variance, eps=1e-12).backward()
            adam.step()
    ensembles.train(3)
    ensembles.train(1)
    found = ensembles.predict(rows.test)
    with torch.no_grad():
        mean, raw = network(torch.tensor(rows.test.x[1]).double()).unbind(1)
    # tolerance: four steps in float64; Adam's first divides a gradient's rounding by the gradient
    np.testing.assert_allclose(found[0][1, 2], mean, rtol=1e-8, atol=1e-9)
    # tolerance: as above
    np.testing.assert_allclose(found[1][1, 2], torch.nn.functional.softplus(raw) + 1e-6, rtol=1e-8)
    orders = [tuple(one) for one in ensembles.orders(0)[:, :20].tolist()]
    assert len(set(orders)) == 10
    assert orders[5:10] == orders[10:]  # the rates of a split are tried with the same random numbers


def test_an_ensemble_has_the_best_rate_of_the_last_fifth_and_the_targets_unit(made_up, tmp_path):
    table = run_set("yacht", "deep_ensemble", 9, 0, how(tmp_path))  # 50 rows are one batch
    parts = [validation(split.train) for split in made_up.splits]
    rows = prepare(made_up, parts)
    found = {}
    for rate in RATES:
        ensembles = Ensembles(rows.train, 5, 0, [[rate], [rate]])
        ensembles.train(9)
        mean, variance = (one[1] for one in ensembles.predict(rows.test))
        found[rate] = scores(mean, variance, rows.test.y[1])["ll_gaussian"]
    best = max(found, key=found.get)
    assert values(table, 1)["learning_rate"] == best
    rows = prepare(made_up, made_up.splits)
    ensembles = Ensembles(rows.train, 5, 0, [[0.01], [best]])
    ensembles.train(9)
    mean, variance = (one[1] for one in ensembles.predict(rows.test))
    y = standardise(made_up.y[made_up.splits[1].train], made_up.y[made_up.splits[1].test])
    expected = scores(mean * y.sd + y.mean, variance * y.sd**2, made_up.y[made_up.splits[1].test])
    # tolerance: float32 products may add in another order for another number of networks
    assert values(table, 1) == pytest.approx({**expected, "learning_rate": best}, rel=1e-4)
    made_up.y[made_up.splits[1].test] += 100
    after = run_set("yacht", "deep_ensemble", 9, 0, how(tmp_path / "b", splits=2))
    assert values(after, 1)["rmse"] > 90
    assert values(after, 1)["learning_rate"] == best


def test_an_ensemble_that_diverged_is_never_the_best():
    parts = Parts(np.ones((1, 4, 2), np.float32), np.ones((1, 4), np.float32))
    ensembles = Ensembles(parts, 3, 0, [[0.1, 0.01, 0.001]])
    ensembles.arrays["parameters"][:5] = np.nan
    ensembles.arrays["parameters"][10:] = 1e38
    assert best_rates(ensembles, parts) == [0.01]


def plain_loss(parameters, scale, x, y, normals, n):
    """Return the loss of a mean-field network of 3 features and 5 units, by the formulas of PyTorch's distributions."""
    means, log_sds, log_noise = parameters.split([26, 26, 1])
    weights = torch.distributions.Normal(means, log_sds.exp())
    widths = torch.tensor([3.0] * 15 + [1.0] * 5 + [5.0] * 5 + [1.0], dtype=torch.float64)
    kl = torch.distributions.kl_divergence(weights, torch.distributions.Normal(torch.zeros(26), scale / widths.sqrt()))
    drawn = []
    for row, noise in zip(x, normals, strict=True):
        (m1, c1, m2, c2), (v1, d1, v2, d2) = (one.split([15, 5, 5, 1]) for one in (means, weights.variance))
        units = (row @ m1.view(3, 5) + c1 + (row**2 @ v1.view(3, 5) + d1).sqrt() * noise[:5]).relu()
        drawn.append(units @ m2 + c2 + (units**2 @ v2 + d2).sqrt() * noise[5])
    likelihood = torch.distributions.Normal(torch.cat(drawn), log_noise.exp()).log_prob(y)
    return -likelihood.mean() + kl.sum() / n


def test_bayes_by_backprop_is_the_plain_elbo_with_the_whole_kl_once_an_epoch(made_up):
    rows = prepare(made_up, made_up.splits)
    wide = Parts(*(np.concatenate([one, one, one], axis=1) for one in rows.train))  # 150 rows: two batches
    members = BayesByBackprop(wide, 5, 2, [[(0.01, 1.0)], [(0.03, 1.0), (0.01, 3.0)]], torch.float64)
    parameters = torch.tensor(members.arrays["parameters"][2], requires_grad=True)  # the last
    adam = torch.optim.Adam([parameters], lr=0.01)
    x, y = (torch.tensor(one[1]).double() for one in wide)
    for step, chosen in enumerate([one for epoch in range(2) for one in members.orders(epoch)[2].split(100)]):
        normals = torch.empty(2, len(chosen) * 6, dtype=torch.float64)
        fill_normals(normals, stream_seed(2, "mean field units", step + 1), torch.arange(2))
        adam.zero_grad()
        plain_loss(parameters, 3.0, x[chosen], y[chosen], normals[1].view(-1, 6), 150).backward()
        adam.step()
    members.train(3)
    members.train(1)
    # tolerance: four steps in float64; Adam's first divides a gradient's rounding by the gradient
    np.testing.assert_allclose(members.arrays["parameters"][2], parameters.detach(), rtol=1e-8, atol=1e-9)


def test_units_that_are_drawn_have_the_distribution_of_weights_that_are(made_up):
    n = 20_000
    row, target = np.array([[0.5, -1.0, 2.0]], np.float32), np.full((1, n), 0.3, np.float32)
    members = BayesByBackprop(Parts(row[None].repeat(n, 1), target), 5, 0, [[(0.01, 1.0)]], torch.float64)
    members.arrays["parameters"][:, 26:52] = np.linspace(-1.5, 0.0, 26)
    normals = torch.empty(1, n * 6, dtype=torch.float64)
    fill_normals(normals, 7, torch.arange(1))
    with torch.no_grad():
        x, y = (torch.tensor(one).double() for one in members.parts)
        by_units = float(members.losses(x, y, normals.view(1, n, 6))[0] - members.divergences()[0] / n)
    mean, variance = members.predict(Parts(row[None], target[:, :1]), 5000)
    assert variance.item() == 1.0
    each = 0.5 * (mean[0, :, 0] - 0.3) ** 2 + 0.5 * np.log(2 * np.pi)
    # tolerance: five standard errors of the means of 5,000 and of 20,000 draws of one distribution
    assert abs(by_units - each.mean()) < 5 * each.std() * (1 / 5000 + 1 / n) ** 0.5
    assert each.std() > 1.0


def test_bayes_by_backprop_has_the_best_setting_of_the_last_fifth_and_the_targets_unit(made_up, tmp_path):
    table = run_set("yacht", "bayes_by_backprop", 9, 0, how(tmp_path))  # 50 rows are one batch
    rows = prepare(made_up, [validation(split.train) for split in made_up.splits])
    found = {}
    for setting in GRID:
        members = BayesByBackprop(rows.train, 5, 0, [[setting], [setting]])
        members.train(9)
        mean, variance = members.predict(rows.test, 100)
        found[setting] = scores(mean[1], variance[1], rows.test.y[1])["ll_mixture"]
    best = max(found, key=found.get)
    chosen = dict(zip(("learning_rate", "prior_scale"), best, strict=True))
    members = BayesByBackprop(prepare(made_up, made_up.splits).train, 5, 0, [[(0.01, 1.0)], [best]])
    members.train(9)
    mean, variance = (one[1] for one in members.predict(prepare(made_up, made_up.splits).test))
    y = standardise(made_up.y[made_up.splits[1].train], made_up.y[made_up.splits[1].test])
    expected = scores(mean * y.sd + y.mean, variance * y.sd**2, made_up.y[made_up.splits[1].test])
    # tolerance: float32 products may add in another order for another number of networks
    assert values(table, 1) == pytest.approx({**expected, **chosen}, rel=1e-4)
    made_up.y[made_up.splits[1].test] += 100
    after = run_set("yacht", "bayes_by_backprop", 9, 0, how(tmp_path / "b", splits=2))
    assert values(after, 1)["rmse"] > 90
    assert {name: values(after, 1)[name] for name in chosen} == chosen


def ivon_steps(made_up):
    """Return an Ivon of three networks in float64 after four steps; and of the last, its start, rows and normals."""
    rows = prepare(made_up, made_up.splits)
    wide = Parts(*(np.concatenate([one, one, one], axis=1) for one in rows.train))  # 150 rows: two batches
    members = Ivon(wide, 5, 2, [[(0.1, 1.0)], [(0.3, 1.0), (0.1, 3.0)]], torch.float64)
    start = torch.tensor(members.arrays["parameters"][2])
    orders = [one for epoch in range(2) for one in members.orders(epoch)[2].split(100)]
    x, y = (torch.tensor(one[1]).double() for one in wide)
    normals = torch.empty(4, 2, 27, dtype=torch.float64)
    for step in range(4):
        fill_normals(normals[step], stream_seed(2, "ivon weights", step + 1), torch.arange(2))
    members.train(3)
    members.train(1)
    return members, start, [(x[rows], y[rows]) for rows in orders], normals[:, 1]


def misfit(parameters, x, y):
    """Return the mean of -log N(y; f(x), noise) of a network of 3 features and 5 units."""
    first, bias, second, last, log_noise = parameters.split([15, 5, 5, 1, 1])
    outputs = (x @ first.view(3, 5) + bias).relu() @ second + last
    return -torch.distributions.Normal(outputs, log_noise.exp()).log_prob(y).mean()


DAMPING = torch.tensor([3.0] * 15 + [1.0] * 5 + [5.0] * 5 + [1.0, 9.0], dtype=torch.float64) / 9 / 150  # of scale 3


def test_ivon_is_the_papers_algorithm_1(made_up):
    members, mean, batches, normals = ivon_steps(made_up)
    momentum, curvature = torch.zeros(27), torch.ones(27, dtype=torch.float64)
    for t, ((x, y), normal) in enumerate(zip(batches, normals, strict=True), 1):
        variance = 1 / (150 * (curvature + DAMPING))
        drawn = mean + variance.sqrt() * normal
        gradient = torch.func.grad(misfit)(drawn, x, y)
        found = gradient * (drawn - mean) / variance
        momentum = 0.9 * momentum + 0.1 * gradient
        correction = 0.5 * 0.001**2 * (curvature - found) ** 2 / (curvature + DAMPING)
        curvature = 0.999 * curvature + 0.001 * found + correction
        step = (momentum / (1 - 0.9**t) + DAMPING * mean) / (curvature + DAMPING)
        mean = mean - 0.1 * (1 + DAMPING) * step
    # tolerance: rounding of four steps
    np.testing.assert_allclose(members.arrays["parameters"][2], mean, rtol=1e-9, atol=1e-10)
    # tolerance: as above
    np.testing.assert_allclose(members.arrays["second"][2], curvature, rtol=1e-9)
    drawn, variance = members.predict(Parts(members.parts.x[:, :3], members.parts.y[:, :3]), 2)
    normals = torch.empty(2, 26, dtype=torch.float64)
    fill_normals(normals, stream_seed(2, "mean field weights", 1), torch.arange(2))
    sd = (150 * (curvature + DAMPING)) ** -0.5
    first, bias, second, last = (mean[:26] + sd[:26] * normals[1]).split([15, 5, 5, 1])
    expected = (torch.tensor(members.parts.x[1, :3]).double() @ first.view(3, 5) + bias).relu() @ second + last
    # tolerance: as above
    np.testing.assert_allclose(drawn[2, 1], expected, rtol=1e-8, atol=1e-9)
    # tolerance: as above
    np.testing.assert_allclose(variance[2], (2 * mean[-1]).exp(), rtol=1e-9)


def test_ivon_is_that_of_its_authors_package(made_up, monkeypatch):
    package = pytest.importorskip("ivon")
    members, start, batches, normals = ivon_steps(made_up)
    parameters = [torch.nn.Parameter(one.clone()) for one in start.split([15, 5, 5, 1, 1])]
    dampings = [float(one[0]) for one in DAMPING.split([15, 5, 5, 1, 1])]
    groups = [{"params": [one], "weight_decay": d} for one, d in zip(parameters, dampings, strict=True)]
    optimizer = package.IVON(groups, lr=0.1, ess=150, hess_init=1.0, beta1=0.9, beta2=0.999)
    for (x, y), normal in zip(batches, normals, strict=True):
        left = list(normal.split([15, 5, 5, 1, 1]))
        with monkeypatch.context() as patch:
            patch.setattr(torch, "randn", lambda n, left=left, **_: left.pop(0))
            with optimizer.sampled_params(train=True):
                optimizer.zero_grad()
                misfit(torch.cat(parameters), x, y).backward()
        optimizer.step()
    # tolerance: rounding of four steps
    np.testing.assert_allclose(members.arrays["parameters"][2], torch.cat(parameters).detach(), rtol=1e-9, atol=1e-10)


def test_a_mean_field_network_that_diverged_is_never_the_best():
    parts = Parts(np.ones((1, 4, 2), np.float32), np.ones((1, 4), np.float32))
    members = BayesByBackprop(parts, 3, 0, [[(0.03, 1.0), (0.01, SCALES[1]), (0.003, 1.0)]])
    members.arrays["parameters"][0] = np.nan
    members.arrays["parameters"][2] = 1e38
    assert best_settings(members, parts) == [(0.01, SCALES[1])]


@pytest.mark.parametrize(
    ("method", "made", "count"),
    [("deep_ensemble", Ensembles, 50), ("bayes_by_backprop", BayesByBackprop, 18), ("ivon", Ivon, 18)],
)
def test_networks_go_on_after_a_kill_with_the_threads_they_were_given(
    made_up, tmp_path, monkeypatch, method, made, count
):
    whole = run_set("yacht", method, 9, 1, how(tmp_path / "a"))
    real, threads, said, taken = Ensembles.train, [], [], []
    step = made._take_step

    def dies(members, count, threads=1):
        if members.step == 4:
            raise KeyboardInterrupt
        real(members, 1, threads)

    monkeypatch.setattr(Ensembles, "train", dies)
    with pytest.raises(KeyboardInterrupt):
        run_set("yacht", method, 9, 1, how(tmp_path / "b", save_every_s=0.0))

    def watched(members, rows, t):
        threads.append(torch.get_num_threads())
        taken.append(t)
        step(members, rows, t)

    monkeypatch.setattr(Ensembles, "train", real)
    monkeypatch.setattr(made, "_take_step", watched)
    monkeypatch.setattr(train, "SAY_EVERY_S", 0.0)
    before = torch.get_num_threads()
    again = run_set("yacht", method, 9, 1, how(tmp_path / "b", threads=before + 1, say=said.append))
    assert again.equals(whole)
    assert taken == [*range(5, 10), *range(1, 10)]
    assert set(threads) == {before + 1}
    assert torch.get_num_threads() == before
    assert f"yacht-{method}-9-1, tuning: {count} networks, epoch 5/9" in said[0]
