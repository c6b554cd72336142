"""The tools for an approach of one's own seed, mask and restore."""

import copy
import dataclasses

import pytest
import torch
from torch import nn

import bench
from bench.core.errors import ConfigError
from bench.interface import Split
from bench.judge.contract import CheckContext

N_ROWS, N_UNITS = 50, 401  # no multiple of the four units that one random word gives


def small_net():
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))


def some_rows():
    source = torch.Generator().manual_seed(0)
    x, y = torch.rand(N_ROWS, 6, generator=source), torch.randint(3, (N_ROWS,), generator=source)
    return Split("train60k", x, y, torch.arange(N_ROWS))


def whole_epochs(steps=None):
    context = CheckContext(0)
    context.steps_per_epoch = steps
    return context


def train(net, optimizer, epoch):
    with bench.seeded(epoch):
        for x, y in bench.loader(some_rows(), 16, whole_epochs(), epoch):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
    (group,) = optimizer.param_groups
    group.setdefault("initial_lr", group["lr"] * 1)  # a copy, as a scheduler does
    group["lr"] *= 0.3
    if "betas" in group:
        group["betas"] = (0.9 / (1 + epoch), 0.99)


@pytest.mark.parametrize(
    "made",
    [
        lambda weights: torch.optim.Adam(weights, 0.01),
        lambda weights: torch.optim.Adam(weights, torch.tensor(0.01)),
        lambda weights: torch.optim.SGD(weights, 1),
        lambda weights: torch.optim.SGD(weights, 0.1, momentum=0.9),
        lambda weights: torch.optim.SGD(weights, 0.1),  # keeps None
        lambda weights: torch.optim.RMSprop(weights, 0.01),
    ],
    ids=["adam", "tensor", "whole", "momentum", "sgd", "rmsprop"],
)
def test_a_restored_training_goes_on_to_the_bit(made):
    torch.manual_seed(0)
    net = small_net()
    optimizer = made(net.parameters())
    train(net, optimizer, 1)
    state = bench.state_of(net, optimizer)
    train(net, optimizer, 2)  # the state is a copy: this changes nothing in it
    other = small_net()
    resumed = made(other.parameters())
    bench.load_state(state, other, resumed)
    train(other, resumed, 2)
    found, wanted = bench.state_of(other, resumed), bench.state_of(net, optimizer)
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_an_optimiser_whose_state_is_no_tensors_is_refused():
    net = small_net()
    optimizer = torch.optim.LBFGS(net.parameters())

    def closure():
        loss = net(some_rows().x).square().mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    with pytest.raises(ConfigError, match=r"LBFGS keeps \w+ as \w+, which cannot be stored; take"):
        bench.state_of(net, optimizer)
    optimizer = torch.optim.SGD(net.parameters())
    optimizer.param_groups[0]["lr"] = lambda: 0.1
    with pytest.raises(ConfigError, match="optimiser's lr cannot be stored"):
        bench.state_of(net, optimizer)


@pytest.mark.parametrize("loss", [None, torch.ones(2), "low"])
def test_a_training_loop_that_returns_no_number_is_refused(loss):
    @dataclasses.dataclass(frozen=True)
    class Silent(bench.ModuleApproach):
        batch_size: int = 16
        epochs: int = 1

        def network(self, task):
            return small_net()

        def optimizer(self, net):
            return torch.optim.SGD(net.parameters())

        def train_epoch(self, net, batches, optimizer, epoch):
            return loss

    with pytest.raises(ConfigError, match=rf"train_epoch returns {type(loss).__name__}.*; let it return the loss"):
        Silent().fit(some_rows(), None, whole_epochs())


def dropped(net, rows, draw=0, seed=0, shape=(N_UNITS,)):
    with bench.row_dropout(net.eval(), seed, draw, rows):
        return net(torch.ones(len(rows), *shape))


def test_masks_belong_to_seed_draw_row_and_module_and_to_nothing_else():
    rows, net = torch.arange(100, 100 + N_ROWS), nn.Dropout(0.3)
    whole = dropped(net, rows)
    assert torch.equal(dropped(nn.Sequential(net, nn.AlphaDropout(0.0)), rows), whole)
    for block in (rows.flip(0), rows[:1], rows[7:30]):
        assert torch.equal(dropped(net, block), whole[block - 100])
    for other in (dropped(net, rows, draw=1), dropped(net, rows, seed=1), dropped(net, rows + N_ROWS)):
        assert not torch.equal(other, whole)
    twice = dropped(nn.Sequential(net, net), rows)  # one module, called twice: two masks
    assert int((twice != 0).sum()) < int((whole != 0).sum())
    assert torch.equal(net(torch.ones(2, 3)), torch.ones(2, 3))  # outside of the block, it drops nothing


def test_dropout_keeps_its_rate_and_the_mean():
    found = dropped(nn.Dropout(0.3), torch.arange(N_ROWS))
    assert set(found.unique().tolist()) == {0.0, float(torch.tensor(1.0) / (1 - 0.3))}
    limit = (torch.log(torch.tensor(2e9)) / (2 * found.numel())).sqrt()
    # tolerance: Hoeffding (1963): the mean of n independent units is further from its expectation once in 10^9 seeds
    assert abs(float((found == 0).float().mean()) - 0.3) < limit
    assert torch.equal(dropped(nn.Dropout(0.0), torch.arange(3)), torch.ones(3, N_UNITS))
    assert torch.equal(dropped(nn.Dropout(1.0), torch.arange(3)), torch.zeros(3, N_UNITS))


def test_dropout_of_channels_drops_whole_ones():
    found = dropped(nn.Dropout2d(0.5), torch.arange(20), shape=(7, 3, 3)).flatten(2)
    assert torch.equal(found, found[:, :, :1].expand_as(found))
    assert set(found.unique().tolist()) == {0.0, 2.0}
    elements = dropped(nn.Dropout(0.5), torch.arange(20), shape=(7, 3, 3)).flatten(2)
    assert not torch.equal(elements, elements[:, :, :1].expand_as(elements))


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (nn.Linear(4, 3), "has no nn.Dropout"),
        (nn.Sequential(nn.Flatten(0), nn.Dropout()), "20 rows in a block of 5"),
        (nn.Sequential(nn.Dropout(), nn.AlphaDropout(0.1)), "an nn.AlphaDropout that drops"),
        (nn.Sequential(nn.Dropout(), nn.LSTM(4, 3, 2, dropout=0.1)), "an nn.LSTM that drops"),
        (nn.TransformerEncoderLayer(4, 2), "an nn.MultiheadAttention that drops"),
    ],
)
def test_a_network_without_masks_by_row_is_refused(net, message):
    with pytest.raises(ConfigError, match=message):
        bench.NetworkPosterior(net, 0).predict(torch.ones(5, 4), range(1), torch.arange(5))


def test_a_posterior_copies_its_network_and_wants_logits():
    net, x, rows = small_net(), some_rows().x, torch.arange(N_ROWS)
    posterior, before = bench.NetworkPosterior(net), copy.deepcopy(net).eval()
    with torch.no_grad():
        net[0].weight.zero_()
        wanted = torch.log_softmax(before(x), 1)
    (found,) = posterior.predict(x, range(1), rows).log_probs
    assert torch.equal(found, wanted)
    assert (posterior.n_draws, posterior.noise) == (1, "none")
    assert (bench.NetworkPosterior(net, 0).n_draws, bench.NetworkPosterior(net, 0).noise) == (None, "row")
    with pytest.raises(ConfigError, match="returns probabilities; let it return logits"):
        bench.NetworkPosterior(nn.Sequential(before, nn.Softmax(1))).predict(x, range(1), rows)


def test_batches_come_in_an_order_of_the_seed_and_the_epoch():
    def labels(epoch, steps=None):
        rows = some_rows()
        numbered = Split(rows.name, rows.x, rows.rows, rows.rows)
        return [y.tolist() for _, y in bench.loader(numbered, 16, whole_epochs(steps), epoch)]

    first = labels(1)
    assert [len(batch) for batch in first] == [16, 16, 16, 2]
    assert sorted(label for batch in first for label in batch) == list(range(N_ROWS))
    assert labels(1) == first != labels(2)
    assert labels(1, steps=2) == first[:2]


def test_a_seeded_block_leaves_the_global_generator_as_it_was():
    before = torch.get_rng_state()
    with bench.seeded(5):
        found = torch.rand(3)
    assert torch.equal(found, torch.rand(3, generator=torch.Generator().manual_seed(5)))
    assert torch.equal(before, torch.get_rng_state())
