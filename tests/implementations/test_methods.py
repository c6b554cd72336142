"""The methods: what they share with the plain network, the formula of each by hand, and the costs that they declare."""

import dataclasses
import math
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from bench.interface import Task
from bench.plan.recipes import build, profile, recipe_names, resolve
from bench.plan.registry import manifest, of_group
from implementations._kernels.layout import Layout, linearised
from implementations.mlp import Mlp
from implementations.swag import SwagPosterior, Visits
from implementations.temperature import best_temperature, exact_temperature
from tests.close import DOUBLE, close
from tests.golden.fits import in_double
from tests.implementations.made_up import class_of, context_of, rows, whole_epochs

MNIST = Task("classification", n_outputs=10, n_train=300, n_inputs=784)
SMALL = Layout((3, 4, 4, 2))


def double_context(seed):
    return context_of(seed, torch.float64)


def module(name):
    """Return the module of an approach, whose library may be missing."""
    return sys.modules[class_of(name).__module__]


FIRST = {  # the hyper-parameters that leave the plain network alone, and the array with its weights
    "deep_ensemble": ({"epochs": 2}, "weights"),
    "swag": ({"epochs": 2, "swag_epochs": 0}, "mean"),
    "laplace": ({"epochs": 2}, "network"),
    "sghmc": ({"epochs": 0}, "weights"),  # takes steps of its own: only its start is the same
    "mc_dropout": ({"epochs": 2, "dropout": 0.0}, ""),
}


@pytest.mark.parametrize("name", FIRST)
def test_the_first_network_is_that_of_mlp_with_the_same_seed(name):
    """Therefore methods can be compared seed by seed."""
    options, key = FIRST[name]
    plain = Mlp(epochs=options["epochs"], learning_rate_divisor=1.1)
    train = in_double(rows(300, 784))
    wanted, found = (one.fit(train, MNIST, double_context(7)).arrays() for one in (plain, class_of(name)(**options)))
    wanted = torch.cat([value.flatten() for value in wanted.values()])
    found = found[key] if key else torch.cat([value.flatten() for value in found.values()])
    if name in ("deep_ensemble", "mc_dropout"):  # products in another order
        # tolerance: a gradient is off by less than 10^4 roundings of 2^-53 (784 + 400 + 400 + 128 + 10 terms a pass, of
        # sizes up to 3), d = 1e-12; Adam divides it by at least 1e-8, so that no weight is off by more than 4 steps of
        # .001 d / 1e-8
        torch.testing.assert_close(found.view(-1, len(wanted))[0], wanted, rtol=0, atol=4e-7)
    else:
        assert torch.equal(found.view(-1), wanted)


@pytest.mark.parametrize("name", of_group("methods"))
def test_every_method_has_the_shared_budget(name):
    recipe = class_of(name)()
    assert (recipe.epochs, recipe.batch_size) == (Mlp().epochs, Mlp().batch_size)


OWN_NETWORK = Task("classification", n_outputs=3, n_train=40, n_inputs=5, hidden=(6,))
N_WEIGHTS = 6 * 5 + 6 + 3 * 6 + 3  # of its two layers


@pytest.mark.parametrize("name", of_group("methods"))
def test_a_task_may_ask_for_its_own_network(name):
    train = rows(40, 5, n_outputs=3)
    posterior = class_of(name)(epochs=1).fit(train, OWN_NETWORK, whole_epochs(0))
    again = class_of(name)(epochs=1).rebuild(posterior.arrays(), OWN_NETWORK, 0)
    for one in (posterior, again):
        assert one.predict(train.x, range(1), train.rows).log_probs.shape == (1, 40, 3)
    sizes = [value.shape[-1] for value in posterior.arrays().values() if value.dim()]
    assert N_WEIGHTS in (*sizes, sum(value.numel() for value in posterior.arrays().values()))


DECAY = 1e6


def one_step(name, **options):
    """Return the weights of a method without a prior before and after one step under a large weight decay."""
    task, train = dataclasses.replace(OWN_NETWORK, weight_decay=DECAY), in_double(rows(40, 5, n_outputs=3))
    fits = [class_of(name)(epochs=n, batch_size=40, **options).fit(train, task, double_context(3)) for n in (0, 1)]
    found = [{name: value.flatten() for name, value in fit.arrays().items()} for fit in fits]
    return [one.get("mean", torch.cat(list(one.values()))) for one in found]


@pytest.mark.parametrize(("name", "options"), [("deep_ensemble", {}), ("swag", {"swag_epochs": 0}), ("mc_dropout", {})])
def test_a_task_may_ask_for_weight_decay(name, options):
    """Adam's first step has the length of its rate and the sign of the gradient, which is now that of the weight."""
    start, end = one_step(name, **options)
    # tolerance: Adam divides g by |g| + 1e-8, and |g| >= 10^6 |w| - 1 with |w| > 1e-5
    torch.testing.assert_close(end - start, -1e-3 * start.sign(), rtol=1e-8, atol=0)


def test_swags_steps_of_sgd_have_the_weight_decay():
    """At the rate 1 / decay, a step leaves -g / decay of w; g, a mean cross-entropy's gradient, is below 1 here."""
    start, end = one_step("swag", swag_epochs=1, swag_rate=1 / DECAY)
    # tolerance: a step that forgets the decay moves no weight by more than g / decay: it would end far above the bound
    assert end.abs().max() < 1 / DECAY < start.abs().max()


@given(st.integers(1, 30), st.integers(1, 500))
def test_weights_are_kept_as_often_as_asked_or_after_every_step(per_epoch, n_steps):
    visits = Visits(per_epoch)
    visits.begin(n_steps)
    due = [visits.is_due() for _ in range(n_steps)]
    assert sum(due) == min(per_epoch, n_steps)
    assert due[-1]
    visits.begin(0)
    assert not visits.is_due()


def test_the_temperature_makes_the_confidence_the_accuracy():
    """Ten rows of logits (3, 0), of which eight are of class 0: softmax(3 / T)_0 = .8 at T = 3 / log(.8 / .2)."""
    logits, y = torch.tensor([[3.0, 0.0]]).expand(10, 2), torch.tensor([0] * 8 + [1] * 2)
    # tolerance: the search of log T ends within 2 (xatol / 3 + 1.5e-8 |log T|) = 7e-7, and the minimum is flat to 5e-8
    assert best_temperature(logits, y) == pytest.approx(3 / math.log(4), rel=1e-6, abs=0)
    assert exact_temperature(logits.double(), y) == close(3 / math.log(4))


def test_a_temperature_without_a_minimum_is_the_smallest():
    """All rows are right, so that T goes to its bound, e^-5, in both searches."""
    logits, y = torch.tensor([[1e-3, 0.0]], dtype=torch.float64).expand(10, 2), torch.zeros(10, dtype=torch.int64)
    assert exact_temperature(logits, y) == best_temperature(logits, y)
    assert math.log(best_temperature(logits, y)) == pytest.approx(-5, abs=1e-5, rel=0)  # tolerance: as above


def test_a_swag_draw_has_the_mean_and_covariance_of_the_paper():
    """Covariance = diag(variance) / 2 + sum_i d_i d_i' / (2 (K - 1)), of K = 2 deviations and one row never filled.

    The mean of 4,000 products of normals with standard deviation s is off by more than 5 s / sqrt(4000) once in
    millions; the seed is fixed.
    """
    n = SMALL.n_weights
    source = torch.Generator().manual_seed(0)
    mean, variance = torch.randn(n, generator=source), torch.rand(n, generator=source)
    deviations = torch.cat([torch.randn(2, n, generator=source), torch.zeros(1, n)])
    arrays = {"mean": mean, "variance": variance, "deviations": deviations, "n_kept": torch.tensor(2)}
    posterior = SwagPosterior(SMALL, arrays, seed=3)
    draws = torch.stack([posterior.network(draw) for draw in range(4000)]) - mean
    wanted = torch.diag(variance / 2) + deviations.T @ deviations / 2
    scale = wanted.diagonal().sqrt()
    # tolerance: five standard errors of each mean
    assert bool((draws.mean(0).abs() < 5 * scale / 4000**0.5).all())
    bound = 5 * (torch.outer(scale, scale) ** 2 + wanted**2).sqrt() / 4000**0.5  # Isserlis: of a product of normals
    # tolerance: five standard errors of each product
    assert bool(((draws.T @ draws / 4000 - wanted).abs() < bound).all())


@pytest.mark.parametrize("first", [0, 1, 2])
def test_the_linearised_network_is_that_of_forward_differentiation(first):
    source = torch.Generator().manual_seed(1)
    flat, change, x = (
        torch.randn(*shape, generator=source, dtype=torch.float64)
        for shape in [(SMALL.n_weights,), (SMALL.n_weights,), (5, 3)]
    )
    n_fixed = sum(part.numel() for layer in SMALL.layers(flat)[:first] for part in layer)
    change[:n_fixed] = 0

    value, slope = torch.autograd.functional.jvp(lambda weights: forward(x, SMALL.layers(weights)), flat, change)
    found = linearised(x, SMALL.layers(flat), [SMALL.layers(change)], first)
    torch.testing.assert_close(found[0], value + slope, rtol=DOUBLE, atol=DOUBLE)


def forward(x, layers):
    for matrix, bias in layers[:-1]:
        x = torch.relu(x @ matrix.t() + bias)
    return x @ layers[-1][0].t() + layers[-1][1]


def test_a_laplace_draw_has_the_covariance_of_the_library():
    """Of the last layer alone: the precision times the covariance of 4,000 draws is the identity, up to sampling."""
    laplace = module("laplace")
    torch.manual_seed(0)
    outer, inner = torch.tensor([1.0, 4.0]), torch.arange(4.0)
    arrays = {
        "network": torch.zeros(SMALL.n_weights),
        "prior": torch.tensor([1.0, 3.0]),
        "factors/0/0": outer.diag(),
        "factors/0/1": inner.diag(),
        "factors/1/0": torch.diag(torch.tensor([0.0, 1.0])),
    }
    posterior = laplace.LaplacePosterior(SMALL, arrays, seed=5)
    draws = torch.stack([posterior.change(draw) for draw in range(4000)])
    # the last matrix: eigenvalues of the product plus prior 1; the last bias: plus prior 3
    precision = torch.cat([torch.outer(outer, inner).flatten() + 1, torch.tensor([3.0, 4.0])])
    assert not bool(draws[:, : -len(precision)].any())
    variance = draws[:, -len(precision) :].square().mean(0)
    # tolerance: five standard errors of the variance of 4,000 normals
    torch.testing.assert_close(variance * precision, torch.ones_like(precision), rtol=0, atol=5 * (2 / 4000) ** 0.5)


@pytest.mark.usefixtures("float64")
def test_the_log_posterior_of_a_batch_is_that_of_torchs_distributions():
    log_posterior = module("sghmc").log_posterior
    source = torch.Generator().manual_seed(1)
    flat, x, y = (
        torch.randn(SMALL.n_weights, generator=source, dtype=torch.float64),
        torch.randn(5, 3, generator=source, dtype=torch.float64),
        torch.arange(5) % 2,
    )
    found, logits = log_posterior(SMALL, 0.3, n_rows=50)(flat, (x, y))
    normal = torch.distributions.Normal(0.0, 0.3).log_prob(flat).sum()
    likelihood = torch.distributions.Categorical(logits=forward(x, SMALL.layers(flat))).log_prob(y).mean()
    assert found.item() == close((normal / 50 + likelihood).item())
    assert logits.shape == (5, 2)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("name", ["torchbnn_mlp", "bayesian_torch_mlp"])
def test_corrected_the_loss_is_the_cross_entropy_and_the_whole_kl_over_n(name):
    found = module(name)
    entry = manifest(name)
    recipe = build(entry, resolve(entry, "corrected"), profile("full"))
    learners = {"torchbnn_mlp": "BayesLinears", "bayesian_torch_mlp": "Reparameterised"}
    learner = getattr(found, learners[name])(recipe, MNIST, double_context(0))
    posterior = learner.posterior()
    x, y = torch.rand(20, 784), torch.arange(20) % 10
    torch.manual_seed(4)
    loss = learner.loss(x, y)
    torch.manual_seed(4)
    fit = torch.nn.functional.cross_entropy(learner.net(x), y)
    kl = sum(
        torch.distributions.kl_divergence(
            torch.distributions.Normal(m.mean, m.std), torch.distributions.Normal(0.0, recipe.prior_std)
        ).sum()
        for m in posterior.weights().values()
    )
    # tolerance: the KL is a sum of 478,410 terms of one sign, off by less than as many roundings
    assert loss.item() == pytest.approx((fit + kl / 300).item(), rel=478_410 * 2.0**-53, abs=0)


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
