"""An approach of one's own: `new` starts one, a script becomes one, and the tools seed, mask and restore."""

import argparse
import copy
import dataclasses
import re
import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

import bench
from bench.cli import USAGE
from bench.cli.ending import ending
from bench.cli.main import main
from bench.core.errors import ConfigError
from bench.core.project import OWN
from bench.interface import Split
from bench.judge.contract import CheckContext
from bench.plan import plugins, registry
from bench.run.runner import Result
from tests.run.toys import chosen

TOP = Path(__file__).resolve().parents[2]
MOST_CHANGED = 30  # lines, so that a script becomes an approach in minutes
N_ROWS, N_UNITS = 50, 401  # no multiple of the four units that one random word gives


@pytest.fixture(autouse=True)
def _own_path(monkeypatch):
    monkeypatch.setenv(plugins.VARIABLE, "")
    registry._look.cache_clear()
    yield
    registry._look.cache_clear()


def test_a_new_approach_passes_every_check_and_runs(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "my_cnn", "--to", "mine here"]) == 0
    assert sorted(path.name for path in Path("mine here").iterdir()) == ["my_cnn.py", "my_cnn.toml"]
    _, audit, run = capsys.readouterr().out.splitlines()
    assert audit == "    python -m bench audit 'mine here/my_cnn.py'"
    assert main(["audit", "mine here/my_cnn.py"]) == 0
    capsys.readouterr()
    assert "run my_cnn --approach-path 'mine here' --profile smoke --results my-try" in run
    how = ["--approach-path", "mine here", "--profile", "smoke", "--results", "my-try", "--executor", "inline"]
    assert main(["run", "my_cnn", *how, "--quiet"]) == 0
    assert "wiring fine: 1 of 1" in capsys.readouterr().out


@pytest.mark.parametrize("there", ["my_cnn.py", "my_cnn.toml"])
def test_a_file_that_is_there_is_never_overwritten(there, tmp_path, capsys):
    (tmp_path / there).write_text("my work")
    assert main(["new", "my_cnn", "--to", str(tmp_path)]) == USAGE
    assert f"{there} is there already; give another name" in capsys.readouterr().err
    assert [path.read_text() for path in tmp_path.iterdir()] == ["my work"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("mlp", "is an approach of this suite"),
        ("torch", "would hide Python's module torch"),
        ("wave", "would hide Python's module wave"),
        *((name, "cannot name an approach") for name in ("", "My", "a-b", "a b", "2x", "_x", "../x", "é", "class")),
        ("x\ny", "'x y' cannot name an approach"),
        ("x" * 51, "at most 50"),
    ],
)
def test_a_name_that_cannot_be_used_is_one_line(name, reason, tmp_path, capsys):
    assert main(["new", name, "--to", str(tmp_path / "to")]) == USAGE
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert reason in error
    assert not (tmp_path / "to").exists()


def test_the_documented_change_makes_an_approach_of_the_script(tmp_path):
    page = (TOP / "docs" / "your-approach.md").read_text(encoding="utf-8")
    (diff,) = re.findall(r"^```diff\n@@\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert 0 < len(re.findall(r"^[+-]", diff, re.MULTILINE)) <= MOST_CHANGED
    code = (TOP / "examples" / "mnist_script.py").read_text(encoding="utf-8")
    for hunk in diff.split("@@\n"):
        lines = [(line[:1], line[1:]) for line in hunk.splitlines()]
        old, new = ("".join(f"{text}\n" for sign, text in lines if sign != left_out) for left_out in "+-")
        assert code.count(old) == 1, old
        code = code.replace(old, new)
    (tmp_path / "my_cnn.py").write_text(code, encoding="utf-8")
    shutil.copy(TOP / "examples" / "conv_net.toml", tmp_path / "my_cnn.toml")
    manifest = (tmp_path / "my_cnn.toml").read_text().replace('class = "ConvNet"', 'class = "MyCnn"')
    (tmp_path / "my_cnn.toml").write_text(manifest)
    assert main(["audit", str(tmp_path / "my_cnn.py")]) == 0


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({}, "table choice (row mine: my_dropout)"),
        ({"approach_path": "my own"}, "table choice --approach-path 'my own' (row mine: my_dropout)"),
        ({"profile": "epoch1"}, "table choice --profile epoch1 (row my_dropout)"),  # no shipped records beside it
        ({"protocol": "shift"}, "verdict"),  # not in the table
        ({"approach": "mlp"}, "verdict"),
    ],
)
def test_the_end_names_the_row_of_an_approach_of_ones_own(changes, shown, monkeypatch):
    monkeypatch.setenv(plugins.VARIABLE, str(TOP / "examples"))
    of_run = {name: value for name, value in changes.items() if name != "approach_path"}
    made = dataclasses.replace(chosen("mlp")[0], **{"approach": "my_dropout", "protocol": "common", **of_run})
    given = argparse.Namespace(
        profile=made.profile, approach_path=changes.get("approach_path"), results=OWN, device="cpu", precision="float32"
    )
    last = ending([Result(made, "done", "", was_there=False)], 1, given)[-1].plain
    assert last == f"next: python -m bench {shown}"


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
    optimizer.param_groups[0]["lr"] *= 0.3


@pytest.mark.parametrize(
    "made",
    [
        lambda weights: torch.optim.Adam(weights, 0.01),
        lambda weights: torch.optim.SGD(weights, 0.1, momentum=0.9),
        lambda weights: torch.optim.SGD(weights, 0.1),  # keeps None
        lambda weights: torch.optim.RMSprop(weights, 0.01),
    ],
    ids=["adam", "momentum", "sgd", "rmsprop"],
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


def dropped(net, rows, draw=0, seed=0, shape=(N_UNITS,)):
    with bench.row_dropout(net.eval(), seed, draw, rows):
        return net(torch.ones(len(rows), *shape))


def test_masks_belong_to_seed_draw_row_and_module_and_to_nothing_else():
    rows, net = torch.arange(100, 100 + N_ROWS), nn.Dropout(0.3)
    whole = dropped(net, rows)
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
    [(nn.Linear(4, 3), "has no nn.Dropout"), (nn.Sequential(nn.Flatten(0), nn.Dropout()), "20 rows in a block of 5")],
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
