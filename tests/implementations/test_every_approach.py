"""Every approach passes the contract's checks, refuses what it must, stops early, leaves nothing on the CPU.

Seeds in one computation: in float64, each step equals that of a single fit, whichever seeds train together.
"""

import dataclasses
import importlib
import json
import math
import subprocess
import sys

import pytest
import torch

from bench.core.errors import ConfigError, ContractViolation
from bench.interface import Split, Task
from bench.judge.contract import CHECKS, CheckContext
from bench.plan.registry import load_class, manifests
from implementations import _methods, _seeds
from tests.close import DOUBLE, close
from tests.implementations import on_device
from tests.implementations.made_up import SMALL, WIDTHS, SmallUnderTest, class_of, rows, six_points, whole_epochs

MNIST = Task("classification", n_outputs=10, n_train=300, n_inputs=784)
TOY = Task("regression", n_outputs=1, n_train=6, n_inputs=1)
TRAINED = [name for name in manifests() if name != "uniform"]


def rows_and_task(name):
    is_toy = manifests()[name].task == "toy"
    return (six_points(), TOY) if is_toy else (rows(300, 784), MNIST)  # three batches of 128, the last one short


@pytest.mark.parametrize("name", TRAINED)
def test_an_epoch_stops_after_its_steps(name):
    train, task = rows_and_task(name)
    ends = []
    for steps in (1, 2):
        context = CheckContext(0)
        context.steps_per_epoch = steps
        arrays = class_of(name)(epochs=1, **SMALL.get(name, {})).fit(train, task, context).arrays()
        ends.append(torch.cat([value.flatten() for value in arrays.values()]))
    assert not torch.equal(*ends)


@pytest.mark.parametrize("name", ["dropout_fcn", "mlp", "toy_mlp", "uniform"])
def test_a_task_of_the_other_kind_is_refused(name):
    train, task = rows_and_task(name)
    with pytest.raises(ConfigError, match=f"{name} learns a {task.kind} task and was given a"):
        class_of(name)().fit(train, TOY if task is MNIST else MNIST, CheckContext(0))


@pytest.mark.parametrize(
    ("name", "option", "words"),
    [
        ("mlp", {"activation": "sigmoids"}, "did you mean 'sigmoid'"),
        ("dropout_fcn", {"loss": "crossentropy"}, "did you mean 'cross_entropy'"),
        ("mxnet_bbb", {"prior": "scale-mixture"}, "did you mean 'scale_mixture'"),
        *(
            (name, {"hidden_dropout": rate}, r"must be in \[0, 1\)")
            for name in ("dropout_fcn", "blundell_dropout")
            for rate in (-0.1, 1.0, math.nan)
        ),
        *(
            ("blundell_bbb", {field: "none of these"}, r"unknown .* 'none of these'; known:")
            for field in ("prior", "optimiser", "likelihood", "kl_weights")
        ),
    ],
)
def test_an_option_that_is_none_is_refused(name, option, words):
    with pytest.raises(ConfigError, match=words):
        class_of(name)(**option)


@pytest.mark.parametrize(
    "name", ["linear_bbb", "mxnet_bbb", "pyro_hidden_layer", "pyro_random_module", "dropout_fcn", "mlp"]
)
def test_a_mask_that_does_not_fit_is_refused(name):
    posterior = class_of(name)(epochs=0).fit(*rows_and_task(name), CheckContext(0))
    right = next(iter(posterior.weights()))
    with pytest.raises(ConfigError, match=right):  # named, so that it can be found
        posterior.masked({f"{right}s": torch.ones(3, dtype=torch.bool)})
    with pytest.raises(ContractViolation, match="shape"):
        posterior.masked({right: torch.ones(3, dtype=torch.bool)})
    with pytest.raises(ContractViolation, match="shape"):  # one that PyTorch would stretch to the tensor's shape
        posterior.masked({name: torch.zeros(1, dtype=torch.bool) for name in posterior.weights()})


@pytest.mark.parametrize("name", ["linear_bbb", "pyro_hidden_layer", "pyro_random_module", "dropout_fcn", "mlp"])
def test_a_tensor_that_no_mask_names_is_kept(name):
    posterior = class_of(name)(epochs=0).fit(*rows_and_task(name), CheckContext(0))
    before = posterior.weights()
    first, *others = before
    after = posterior.masked({first: torch.zeros_like(before[first].mean, dtype=torch.bool)}).weights()
    assert not after[first].mean.any()
    assert all(torch.equal(after[other].mean, before[other].mean) for other in others)


SUBJECTS = [(name, recipe) for name, entry in manifests().items() for recipe in entry.recipes]


@pytest.fixture(scope="module")
def subjects():
    return {}


@pytest.mark.parametrize(("name", "recipe"), SUBJECTS, ids=[f"{name}-{recipe}" for name, recipe in SUBJECTS])
@pytest.mark.parametrize("check", CHECKS, ids=[check.name for check in CHECKS])
def test_contract(name, recipe, check, subjects, monkeypatch):
    monkeypatch.setattr(_methods, "WIDTHS", WIDTHS)
    class_of(name)
    key = (name, recipe)
    if key not in subjects:
        subjects[key] = SmallUnderTest(name, recipe)
    check.run(subjects[key])


DEVICES = ["pretend", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


@pytest.mark.parametrize("device", DEVICES)
def test_every_approach_trains_and_predicts_on_a_device_as_on_the_cpu(device):
    command = [sys.executable, "-W", "ignore", "-m", "tests.implementations.on_device", device]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stdout + done.stderr
    assert {line["approach"] for line in lines} == set(on_device.names(device))


STEPS, BATCH, N_ROWS = 20, 8, 20 * 8 - 3  # the last batch is short
SEED_NETWORKS = {
    "mlp": {"width": 12, "batch_size": BATCH},
    "dropout_fcn": {"hidden": (70, 12), "batch_size": BATCH},  # 70: masks of more than one word
    "linear_bbb": {"hidden_units": 9, "batch_size": BATCH},
    "toy_mlp": {},
    "toy_bbb": {},
}
VARIANTS = {
    "mlp": {"activation": "sigmoid", "learning_rate_divisor": 2.0},
    "dropout_fcn": {"shuffle": True, "loss": "cross_entropy", "hidden_dropout": 0.3},
    "linear_bbb": {"detach_mu": False},
    "toy_mlp": {"width": 3},
    "toy_bbb": {"detach_mu": False},
}
SEEDS = (7, 0, 30)
CASES = [(name, {}) for name in SEED_NETWORKS] + list(VARIANTS.items())


def recipe(name, changes):
    module = importlib.import_module(f"implementations.{name}")
    made = load_class(name)(**{**SEED_NETWORKS[name], **changes})
    steps = {"toy_mlp": {"interval": STEPS}, "toy_bbb": {"steps_per_interval": STEPS}}.get(name, {})
    return module, dataclasses.replace(made, epochs=3, **steps)


def problem(name):
    """Return made-up rows in float64, the rows of three seeds and the task."""
    source = torch.Generator().manual_seed(0)
    if name.startswith("toy"):
        x = torch.linspace(-2, 2, 7, dtype=torch.float64).reshape(-1, 1)
        train, n_rows = Split("6 points", x, 1 - x**2, torch.arange(7)), 6
        task = Task("regression", n_outputs=1, n_train=6, n_inputs=1)
    else:
        x = torch.rand(2 * N_ROWS, 6, generator=source, dtype=torch.float64)
        train = Split("train50k", x, torch.randint(10, (2 * N_ROWS,), generator=source), torch.arange(2 * N_ROWS))
        task, n_rows = Task("classification", n_outputs=10, n_train=N_ROWS, n_inputs=6), N_ROWS
    rows = torch.stack([torch.randperm(len(train), generator=source)[:n_rows] for _ in range(3)])
    return train, rows, task


def assert_same(left, right):
    assert left.keys() == right.keys()
    for name, value in left.items():
        # a gradient is off by less than 150 roundings, d = 1.7e-14; Adam makes 35 d of it at most in 20 steps (measured
        # with d added to or subtracted from every gradient by chance), which is 6e-13 of the largest numbers
        largest = max(1.0, value.abs().max().item())
        torch.testing.assert_close(value, right[name], rtol=DOUBLE, atol=DOUBLE * largest, msg=name)


def seeds_of(name, changes, chosen=(0, 1, 2)):
    """Return some of the three seeds in one computation, or one seed with its own rows only."""
    module, approach = recipe(name, changes)
    train, rows, task = problem(name)
    contexts = [whole_epochs(SEEDS[index], torch.float64) for index in chosen]
    if len(chosen) == 1:
        own = train.select(rows[chosen[0]])
        return module.Seeds(approach, own, _seeds.all_rows(own), task, contexts)
    return module.Seeds(approach, train, rows[list(chosen)], task, contexts)


@pytest.mark.parametrize(("name", "changes"), CASES)
def test_twenty_steps_together_equal_twenty_steps_alone(name, changes):
    together = seeds_of(name, changes)
    traces = together.epoch(1)
    for index, trace in enumerate(traces):
        alone = seeds_of(name, changes, (index,))
        (expected,) = alone.epoch(1)
        assert trace == close(expected)
        assert_same(together.state(index), alone.state(0))
        assert_same(together.posterior(index).arrays(), alone.posterior(0).arrays())
    states = [together.state(index)["flat" if name in ("dropout_fcn", "toy_mlp") else "parameters"] for index in (0, 1)]
    assert float((states[0] - states[1]).abs().max()) > 1e-3  # the seeds differ


@pytest.mark.parametrize("name", SEED_NETWORKS)
def test_a_seed_goes_on_alone_from_where_it_was_with_others(name):
    """The state of a seed is the same whoever trained beside it."""
    together = seeds_of(name, {})
    together.epoch(1)
    state = together.state(1)
    kept = {key: value.clone() for key, value in state.items()}
    alone, pair = seeds_of(name, {}, (1,)), seeds_of(name, {}, (1, 2))
    alone.restore([state])
    pair.restore([state, together.state(2)])
    expected = together.epoch(2)[1]
    for other in (alone, pair):
        assert other.epoch(2)[0] == close(expected)
        assert_same(other.state(0), together.state(1))
    assert all(torch.equal(state[key], value) for key, value in kept.items())  # training did not touch the copy


@pytest.mark.parametrize("name", SEED_NETWORKS)
def test_a_seed_without_numbers_harms_no_other(name):
    healthy, ill = seeds_of(name, {}), seeds_of(name, {})
    healthy.epoch(1)
    first, second, third = (healthy.state(index) for index in range(3))
    spoilt = {key: value if key == "step" else torch.full_like(value, float("nan")) for key, value in second.items()}
    ill.restore([first, spoilt, third])
    expected, seen = healthy.epoch(2), ill.epoch(2)
    assert [seen[0], seen[2]] == [expected[0], expected[2]]
    assert not all(value == value for value in seen[1].values())
