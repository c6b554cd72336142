"""Every approach: it passes the contract's checks, refuses what it must, stops early, leaves nothing on the CPU."""

import json
import math
import subprocess
import sys

import pytest
import torch

from bench.core.errors import ConfigError, ContractViolation
from bench.interface import Task
from bench.judge.contract import CHECKS, CheckContext
from bench.plan.registry import manifests
from implementations import _methods
from tests.implementations import on_device
from tests.implementations.made_up import SMALL, WIDTHS, SmallUnderTest, class_of, rows, six_points

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
    assert {line["approach"] for line in lines} == set(on_device.names())
