"""Deep ensembles: networks against plain PyTorch, rates chosen by validation rows alone, kills and threads."""

import numpy as np
import pytest
import torch

pytest.importorskip("numba")

from bench.uci import train
from bench.uci.data import standardise, validation
from bench.uci.dropout import Parts, prepare
from bench.uci.ensembles import RATES, Ensembles, best_rates
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


def test_an_ensemble_goes_on_after_a_kill_with_the_threads_it_was_given(made_up, tmp_path, monkeypatch):
    whole = run_set("yacht", "deep_ensemble", 9, 1, how(tmp_path / "a"))
    real, threads, said, taken = Ensembles.train, [], [], []
    step = Ensembles._take_step

    def dies(members, count, threads=1):
        if members.step == 4:
            raise KeyboardInterrupt
        real(members, 1, threads)

    monkeypatch.setattr(Ensembles, "train", dies)
    with pytest.raises(KeyboardInterrupt):
        run_set("yacht", "deep_ensemble", 9, 1, how(tmp_path / "b", save_every_s=0.0))

    def watched(members, rows, t):
        threads.append(torch.get_num_threads())
        taken.append(t)
        step(members, rows, t)

    monkeypatch.setattr(Ensembles, "train", real)
    monkeypatch.setattr(Ensembles, "_take_step", watched)
    monkeypatch.setattr(train, "SAY_EVERY_S", 0.0)
    before = torch.get_num_threads()
    again = run_set("yacht", "deep_ensemble", 9, 1, how(tmp_path / "b", threads=before + 1, say=said.append))
    assert again.equals(whole)
    assert taken == [*range(5, 10), *range(1, 10)]
    assert set(threads) == {before + 1}
    assert torch.get_num_threads() == before
    assert "yacht-deep_ensemble-9-1, tuning: 50 networks, epoch 5/9" in said[0]
