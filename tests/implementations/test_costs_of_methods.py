"""The costs that manifests of methods declare, against the multiplications that PyTorch counts."""

import dataclasses

import pytest
from torch.utils.flop_counter import FlopCounterMode

from bench.interface import Task
from bench.plan.recipes import build, profile, recipe_names, resolve
from bench.plan.registry import manifest, of_group
from implementations.mlp import Mlp
from tests.implementations.made_up import class_of, rows, whole_epochs

MNIST = Task("classification", n_outputs=10, n_train=300, n_inputs=784)
EPOCHS = 10
FEW, PASSED = 96, 80  # multiples of 16, to which Gaussian posteriors fill up their blocks of rows
# tolerance: a manifest may state a cost to one percent; what PyTorch counts are whole numbers
STATED = 0.01
DRAWS = 100  # of an answer, as in the full profile, unless a posterior has fewer
UNCOUNTED = {"mc_dropout"}  # PyTorch counts no product that is added in place to the gradient
CASES = [
    (name, recipe)
    for name, entry in of_group("methods").items()
    for recipe in recipe_names(entry)
    if recipe in ("published", "published+all-layers")
]


def counted(call):
    with FlopCounterMode(display=False) as counter:
        found = call()
    return counter.get_total_flops(), found


@pytest.fixture(scope="module")
def plain():
    """Return the multiplications of the plain network's training, of its passes over some rows, and its weights."""
    training, posterior = counted(lambda: Mlp(epochs=EPOCHS).fit(rows(300, 784), MNIST, whole_epochs(0)))
    x = rows(PASSED, 784)
    passes, _ = counted(lambda: posterior.predict(x.x, range(1), x.rows))
    return training, passes, sum(value.numel() for value in posterior.arrays().values())


@pytest.mark.parametrize(("name", "recipe"), CASES)
def test_the_declared_costs_are_those_counted(name, recipe, plain):
    """Declared and counted costs agree to one percent.

    The difference between more and fewer rows cancels what a draw multiplies once for all rows.
    """
    entry = manifest(name)
    class_of(name)
    approach = build(entry, resolve(entry, recipe), profile("full"))
    cost = entry.cost_of(resolve(entry, recipe).changes)
    short = dataclasses.replace(approach, epochs=EPOCHS)
    training, posterior = counted(lambda: short.fit(rows(300, 784), MNIST, whole_epochs(0)))
    if name not in UNCOUNTED:
        assert training / plain[0] == pytest.approx(cost.training, rel=STATED, abs=0)
    n_draws = posterior.n_draws or DRAWS
    many, few = rows(FEW + PASSED, 784), rows(FEW, 784)
    passes = [counted(lambda x=x: posterior.predict(x.x, range(n_draws), x.rows))[0] for x in (many, few)]
    assert (passes[0] - passes[1]) / plain[1] == pytest.approx(cost.answer(n_draws), rel=STATED, abs=0)
    if name != "sghmc":  # keeps a network after every step of epochs as short as these
        stored = sum(value.numel() for value in posterior.arrays().values())
        assert stored / plain[2] == pytest.approx(cost.stored, rel=STATED, abs=0)
