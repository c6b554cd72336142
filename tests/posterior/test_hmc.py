"""The sampler draws from the posterior: closed form, quadrature, and another library; planted samplers do not.

`benchmarks.posterior` has the rank calibration of many simulated data sets; a short form is here.
"""

import dataclasses
import math

import pytest
import torch
from scipy import stats

from bench.posterior import hmc
from bench.posterior.distance import effective_size
from bench.posterior.gradient import Target
from bench.posterior.hmc import sample
from bench.posterior.network import Network
from benchmarks.posterior import simulated_ranks

ERRORS = 5.0  # Monte Carlo standard errors that a mean of draws may be off; a normal number is with probability 6e-7


def in_errors(values, expected):
    """By how many standard errors the means of values [C, n, ...] miss the expected ones [...]."""
    values = values.double().flatten(2)
    error = values.flatten(0, 1).std(0) / effective_size(values).sqrt()
    return (values.mean((0, 1)) - expected.flatten()) / error


def problems(chains, values, expected):
    """What speaks against a sampler whose draws' `values` [C, n, ...] should have the `expected` means."""
    found = []
    if not (chains.acceptance.min() > 0.65 and chains.acceptance.max() < 0.95):
        found.append(f"acceptance {chains.acceptance.tolist()}")
    if not (effective_size(values.flatten(2)) > 400).all():
        found.append("few independent draws")
    # tolerance: Monte Carlo error, see ERRORS
    elif not in_errors(values, expected).abs().max() < ERRORS:
        found.append("wrong means")
    return found


LINEAR = Network(
    3,
    0,
    1,
    kind="regression",
    weight_sds=(0.7, 1.0),
    bias_sds=(0.5, 1.0),
    log_noise_mean=math.log(0.8),
    log_noise_sd=0.0,
)


def regression_data():
    source = torch.Generator().manual_seed(3)
    x = torch.randn(12, 3, generator=source)
    return x, x @ torch.tensor([0.5, -1.0, 0.2]) + 1 + 0.8 * torch.randn(12, generator=source)


def closed_form(x, y, temperature):
    """Mean [4] and second moments [4, 4] of the weights and the bias (Bishop 2006, equations 3.53 and 3.54)."""
    rows = torch.cat([x, torch.ones(len(x), 1)], 1).double()
    precision = rows.T @ rows / 0.8**2 + torch.diag(torch.tensor([0.7, 0.7, 0.7, 0.5], dtype=torch.float64) ** -2)
    mean = torch.linalg.solve(precision, rows.T @ y.double() / 0.8**2)
    return mean, temperature * torch.linalg.inv(precision) + mean[:, None] * mean


def linear_problems(network=LINEAR, temperature=1.0):
    """What speaks against the sampler on a linear model, whose posterior is normal."""
    x, y = regression_data()
    target = Target(network, x, y, temperature)

    def keep(z):
        ((matrix, bias),) = network.weights(z.double()).layers
        weights = torch.cat([matrix[:, 0], bias], 1)
        return torch.cat([weights, (weights[:, :, None] * weights[:, None]).flatten(1)], 1)

    mean, seconds = closed_form(x, y, temperature)
    chains = sample(target, chains=4, draws=600, warmup=100, seed=1, keep=keep)
    return problems(chains, chains.draws, torch.cat([mean, seconds.flatten()]))


SOFTMAX = Network(1, 0, 2, weight_sds=(1.5, 1.0), bias_sds=(0.5, 1.0))


def softmax_problems(network=SOFTMAX):
    """What speaks against the sampler on two classes and one input, where a grid gives the predictions' means."""
    x = torch.linspace(-1, 2, 8)[:, None]
    y = (torch.arange(8) > 2).long()
    at = torch.tensor([[-2.0], [0.3], [1.0]])
    # The likelihood knows the differences of both classes' weights and biases alone: normal, with twice the variance.
    slope = torch.linspace(-16, 16, 1001, dtype=torch.float64)[:, None] * 1.5
    shift = torch.linspace(-16, 16, 1001, dtype=torch.float64)[None] * 0.5
    density = -(slope**2 / (4 * 1.5**2) + shift**2 / (4 * 0.5**2))
    for row, label in zip(x[:, 0], y, strict=True):
        density += torch.nn.functional.logsigmoid((2 * label - 1) * (slope * row + shift))
    weights = (density - density.max()).exp()
    first = [((slope * row + shift).sigmoid() * weights).sum() / weights.sum() for row in at[:, 0].double()]
    second = [((slope * row + shift).sigmoid() ** 2 * weights).sum() / weights.sum() for row in at[:, 0].double()]

    def keep(z):
        found = network.predict(z, at)[..., 1].exp()
        return torch.cat([found, found**2], 1)

    chains = sample(Target(network, x, y), chains=4, draws=600, warmup=100, seed=2, keep=keep)
    return problems(chains, chains.draws, torch.tensor([*first, *second], dtype=torch.float64))


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_a_linear_model_has_its_closed_form(temperature):
    assert linear_problems(temperature=temperature) == []


def test_a_softmax_has_the_predictions_of_a_grid():
    assert softmax_problems() == []


@pytest.mark.parametrize("proof", [linear_problems, softmax_problems])
def test_without_a_metropolis_step_a_large_step_shows(proof, monkeypatch):
    monkeypatch.setattr(hmc, "accepts", lambda rise, *_: torch.ones_like(rise, dtype=torch.bool))
    monkeypatch.setattr(hmc, "ACCEPTANCE", 0.65)
    assert proof() != []


@pytest.mark.parametrize("proof", [linear_problems, softmax_problems])
def test_a_step_of_three_times_the_size_shows(proof, monkeypatch):
    averaged = hmc.DualAveraging.mean_step.fget
    monkeypatch.setattr(hmc.DualAveraging, "mean_step", property(lambda self: 3 * averaged(self)))
    assert proof() != []


@pytest.mark.parametrize(
    ("proof", "network", "changed"),
    [
        (linear_problems, LINEAR, {"weight_sds": (1.4, 1.0), "bias_sds": (1.0, 1.0)}),
        (softmax_problems, SOFTMAX, {"weight_sds": (3.0, 1.0), "bias_sds": (1.0, 1.0)}),
        (linear_problems, LINEAR, {"bias_sds": (5.0, 1.0)}),
        (softmax_problems, SOFTMAX, {"bias_sds": (5.0, 1.0)}),
    ],
    ids=["twice the prior", "twice the prior, softmax", "a bias without prior", "a bias without prior, softmax"],
)
def test_another_prior_shows(proof, network, changed):
    assert proof(dataclasses.replace(network, **changed)) != []


def test_ranks_of_simulated_parameters_are_uniform():
    """Simulation-based calibration (Talts et al. 2018): parameters drawn from the prior have any rank among the draws
    from the posterior of data that they simulate. False alarms: one in 10,000, shared by the statistics.
    """
    n_draws = 9
    ranks = simulated_ranks(Network(2, 3, 2, "tanh"), n_rows=8, data_sets=50, n_draws=n_draws, seed=1)
    for of_statistic in ranks.T:
        counts = torch.bincount(of_statistic, minlength=n_draws + 1)
        assert stats.chisquare(counts.numpy()).pvalue > 1e-4 / len(ranks.T)


def test_the_same_seed_gives_the_same_bits_on_any_number_of_threads():
    network = Network(5, 4, 3)
    x, y = torch.randn(20, 5, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 3

    def draws():
        return sample(Target(network, x, y), chains=5, draws=3, warmup=3, seed=4).draws

    expected, threads = draws(), torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert torch.equal(draws(), expected)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)


def test_a_target_outside_the_classes_is_refused():
    with pytest.raises(ValueError, match="a target is 2; the classes are 0 to 1"):
        Target(Network(3, 0, 2), torch.zeros(2, 3), torch.tensor([0, 2]))


@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_nuts_of_numpyro_agrees(kind):
    jax = pytest.importorskip("jax")
    infer = pytest.importorskip("numpyro.infer")
    jnp = jax.numpy
    network = Network(2, 3, 1 if kind == "regression" else 3, "tanh", (1.0, 1.5), (0.5, 1.0), kind, 0.3, 0.5)
    source = torch.Generator().manual_seed(5)
    x = torch.randn(15, 2, generator=source)
    y = torch.arange(15) % 3 if kind == "classification" else torch.sin(2 * x[:, 0])
    at = torch.randn(4, 2, generator=source)

    def energy(z):
        """The potential in JAX, from the description of the parameters' order."""
        hidden = jnp.tanh(x.numpy() @ z[:6].reshape(3, 2).T + 0.5 * z[6:9])
        k = network.n_outputs
        outputs = hidden @ (1.5 * z[9 : 9 + 3 * k].reshape(k, 3)).T + z[9 + 3 * k : 9 + 4 * k]
        if kind == "classification":
            terms = -jax.nn.log_softmax(outputs)[jnp.arange(15), y.numpy()]
        else:
            log_noise = 0.3 + 0.5 * z[-1]
            terms = ((outputs[:, 0] - y.numpy()) / jnp.exp(log_noise)) ** 2 / 2 + log_noise
        return terms.sum() + (z**2).sum() / 2

    def keep(z):
        found = network.predict(z, at)
        return found.exp() if kind == "classification" else torch.cat([found[0], found[1][:, None]], 1)

    kernel = infer.NUTS(potential_fn=energy)
    start = 0.5 * jax.random.normal(jax.random.PRNGKey(0), (4, network.n_parameters))
    other = infer.MCMC(
        kernel, num_warmup=200, num_samples=400, num_chains=4, chain_method="vectorized", progress_bar=False
    )
    other.run(jax.random.PRNGKey(1), init_params=start)
    theirs = torch.tensor(other.get_samples(group_by_chain=True).__array__())
    theirs = torch.stack([keep(draw) for draw in theirs.transpose(0, 1)], 1).double().flatten(2)
    ours = sample(Target(network, x, y), chains=4, draws=500, warmup=150, seed=3, keep=keep).draws.double().flatten(2)
    variances = [each.flatten(0, 1).var(0) / effective_size(each) for each in (theirs, ours)]
    assert min(effective_size(each).min() for each in (theirs, ours)) > 100
    difference = theirs.mean((0, 1)) - ours.mean((0, 1))
    # tolerance: Monte Carlo error, see ERRORS
    assert (difference.abs() < ERRORS * (variances[0] + variances[1]).sqrt()).all()
