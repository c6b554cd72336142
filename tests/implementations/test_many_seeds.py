"""Seeds in one computation: each step equal to single fits in float64, whoever trains with whom."""

import dataclasses
import importlib

import pytest
import torch
from scipy.stats import ks_2samp

from bench.data.splits import load_shared, load_split
from bench.interface import Split, Task
from bench.judge.contract import CheckContext
from bench.plan.registry import load_class
from implementations import _seeds

STEPS, BATCH, N_ROWS = 20, 8, 20 * 8 - 3  # the last batch is short
SMALL = {
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
CASES = [(name, {}) for name in SMALL] + list(VARIANTS.items())


def recipe(name, changes):
    module = importlib.import_module(f"implementations.{name}")
    made = load_class(name)(**{**SMALL[name], **changes})
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


def contexts():
    made = [CheckContext(seed) for seed in (7, 0, 30)]
    for context in made:
        context.steps_per_epoch = None
    return made


def assert_same(left, right):
    assert left.keys() == right.keys()
    for name, value in left.items():
        assert torch.allclose(value, right[name], rtol=1e-9, atol=1e-11), name


@pytest.mark.parametrize(("name", "changes"), CASES)
def test_twenty_steps_together_equal_twenty_steps_alone(name, changes):
    module, approach = recipe(name, changes)
    train, rows, task = problem(name)
    together = module.Seeds(approach, train, rows, task, contexts())
    alone = [
        module.Seeds(approach, train.select(own), _seeds.all_rows(train.select(own)), task, [context])
        for own, context in zip(rows, contexts(), strict=True)
    ]
    traces = together.epoch(1)
    for index, (seed, trace) in enumerate(zip(alone, traces, strict=True)):
        (expected,) = seed.epoch(1)
        assert trace == pytest.approx(expected, rel=1e-10)
        assert_same(together.state(index), seed.state(0))
        assert_same(together.posterior(index).arrays(), seed.posterior(0).arrays())
    states = [together.state(index)["flat" if name in ("dropout_fcn", "toy_mlp") else "parameters"] for index in (0, 1)]
    assert not torch.allclose(*states)


SEEDS_OF_A_SAMPLE = 16
FALSE_ALARM = 1e-6  # of 16 and 16 values that do not overlap, Kolmogorov and Smirnov's test says 2 / C(32, 16) = 3e-9


def losses(module, approach, seeds, is_together):
    """Return every seed's loss in the last epoch, of labels that the inputs tell."""
    train, rows, task = problem("mlp")
    directions = torch.randn(6, 10, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    train = dataclasses.replace(train, y=((train.x - 0.5) @ directions).argmax(1))
    told = [CheckContext(seed) for seed in seeds]
    for context in told:
        context.steps_per_epoch = None
    found = []
    for group in [told] if is_together else [[context] for context in told]:
        trained = module.Seeds(approach, train, rows[:1].expand(len(group), -1), task, group)
        for epoch in range(1, approach.epochs):
            trained.epoch(epoch)
        found += [next(iter(trace.values())) for trace in trained.epoch(approach.epochs)]
    return found


@pytest.mark.parametrize(("name", "too_fast"), [("mlp", 5), ("dropout_fcn", 1 / 20), ("linear_bbb", 10)])
def test_whole_fits_together_are_distributed_as_whole_fits_alone(name, too_fast):
    """The samples have no seed in common: it is the distribution that agrees, over every source of noise.

    That the test can tell is shown with another learning rate, `too_fast` times as high.
    """
    module, approach = recipe(name, {})
    approach = dataclasses.replace(approach, epochs=5)
    together = losses(module, approach, range(SEEDS_OF_A_SAMPLE), is_together=True)
    alone = losses(module, approach, range(99, 99 + SEEDS_OF_A_SAMPLE), is_together=False)
    assert len(set(together)) == len(set(alone)) == SEEDS_OF_A_SAMPLE  # no two share their noise
    assert ks_2samp(together, alone).pvalue > FALSE_ALARM
    wrong = dataclasses.replace(approach, learning_rate=too_fast * approach.learning_rate)
    other = losses(module, wrong, range(SEEDS_OF_A_SAMPLE), is_together=True)
    assert ks_2samp(other, alone).pvalue < FALSE_ALARM


@pytest.mark.parametrize("name", SMALL)
def test_a_seed_goes_on_alone_from_where_it_was_with_others(name):
    """The state of a seed is the same whoever trained beside it."""
    module, approach = recipe(name, {})
    train, rows, task = problem(name)
    together = module.Seeds(approach, train, rows, task, contexts())
    together.epoch(1)
    state = together.state(1)
    kept = {key: value.clone() for key, value in state.items()}
    own = train.select(rows[1])
    alone = module.Seeds(approach, own, _seeds.all_rows(own), task, contexts()[1:2])
    alone.restore([state])
    pair = module.Seeds(approach, train, rows[1:], task, contexts()[1:])
    pair.restore([state, together.state(2)])
    expected = together.epoch(2)[1]
    assert alone.epoch(2)[0] == pytest.approx(expected, rel=1e-10)
    assert pair.epoch(2)[0] == pytest.approx(expected, rel=1e-10)
    assert_same(alone.state(0), together.state(1))
    assert_same(pair.state(0), together.state(1))
    assert all(torch.equal(state[key], value) for key, value in kept.items())  # training did not touch the copy


def test_every_seed_hears_of_an_epoch_before_any_begins_the_next():
    _, approach = recipe("mlp", {})
    train, rows, task = problem("mlp")
    told, order = contexts(), []
    for context in told:
        context.on_epoch = lambda _, seed=context.seed: order.append(seed)
    found = approach.fit_many(train, rows, task, told)
    assert order == [7, 0, 30] * 3
    for posterior, own, context in zip(found, rows, contexts(), strict=True):
        assert_same(posterior.arrays(), approach.fit(train.select(own), task, context).arrays())


@pytest.mark.parametrize("name", SMALL)
def test_a_seed_without_numbers_harms_no_other(name):
    module, approach = recipe(name, {})
    train, rows, task = problem(name)
    healthy = module.Seeds(approach, train, rows, task, contexts())
    ill = module.Seeds(approach, train, rows, task, contexts())
    healthy.epoch(1)
    first, second, third = (healthy.state(index) for index in range(3))
    spoilt = {key: value if key == "step" else torch.full_like(value, float("nan")) for key, value in second.items()}
    ill.restore([first, spoilt, third])
    expected, seen = healthy.epoch(2), ill.epoch(2)
    assert [seen[0], seen[2]] == [expected[0], expected[2]]
    assert not all(value == value for value in seen[1].values())


@pytest.mark.parametrize("name", ["train50k", "train60k"])
def test_shared_rows_are_those_of_each_seed(name):
    shared, places = load_shared(name, [4, 9])
    assert shared.name == name
    for seed, own in zip((4, 9), places, strict=True):
        alone, picked = load_split(name, seed), own[::997]
        wanted = torch.arange(0, len(own), 997)
        assert len(own) == len(alone)
        assert torch.equal(shared.x[picked], alone.x[wanted])
        assert torch.equal(shared.y[picked], alone.y[wanted])
        assert torch.equal(shared.rows[picked], alone.rows[wanted])
