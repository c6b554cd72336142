"""The Gaussian posterior: both kinds of draws equal plain loops in float64; noise, groups, densities, marginals."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Normal

from bench.core.errors import Unsupported
from bench.core.streams import normals_
from bench.measure.metrics.draws import reduce_draws
from bench.measure.metrics.evaluate import evaluate_classification
from implementations._kernels import gaussian_posterior as kernel
from implementations._kernels.gaussian_posterior import Family, GaussianPosterior, gaussian_log_prior, log_probabilities
from implementations._kernels.layout import Layout
from implementations._kernels.network_draws import ROWS_AT_A_TIME
from implementations._kernels.sums import CHUNK, GROUP, sum_of_logs, sum_of_squares
from tests.close import DOUBLE, close

PLAIN = {torch.sigmoid_: torch.sigmoid, torch.relu_: torch.relu}
SIGMOID = {"layout": Layout((5, 4, 3, 10)), "activation": torch.sigmoid_}
RELU = {"layout": Layout((5, 4, 3, 10)), "activation": torch.relu_, "input_scale": 2.5}
ONE_HIDDEN = {"layout": Layout((5, 4, 10)), "activation": torch.relu_, "names": ("fc1", "out")}
LEFT_OUT = {"layout": Layout((5, 4, 4, 10)), "activation": torch.relu_, "used": (True, False, True)}
CASES = {"sigmoid": SIGMOID, "relu": RELU, "one-hidden": ONE_HIDDEN, "layer-left-out": LEFT_OUT}


def posterior_of(seed=0, case=SIGMOID, dtype=torch.float32, prior_std=6.0):
    source = torch.Generator().manual_seed(seed)
    family = Family(log_prior=partial(gaussian_log_prior, prior_std), read_out=log_probabilities, seed=seed, **case)
    size = family.layout.n_weights
    mu = torch.randn(size, generator=source, dtype=dtype)
    return GaussianPosterior(family, mu, 0.4 * torch.rand(size, generator=source, dtype=dtype) + 0.05)


def rows_of(n, seed=1, dtype=torch.float64, width=5):
    x = torch.rand(n, width, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    x[0] = 0  # an image may be black: v is then the bias's variance alone
    return x


def predict(posterior, x, draws):
    return posterior.predict(x, draws, torch.arange(len(x))).log_probs


def used_layers(case, flat):
    """The (matrix, bias) of the layers that the forward pass goes through."""
    layers = case["layout"].layers(flat)
    return [layer for layer, used in zip(layers, case.get("used", [True] * len(layers)), strict=True) if used]


def flatten(layers):
    return torch.cat([part.flatten() for layer in layers for part in layer])


def unflatten(flat, like):
    parts = iter(flat.split([part.numel() for layer in like for part in layer]))
    return [tuple(next(parts).view(part.shape) for part in layer) for layer in like]


def normals(posterior, stream, draw, count):
    return normals_(torch.empty(count, dtype=torch.float64), posterior._family.seed, stream, draw)


def finish(case, a, layers):
    """The plain network from the first layer's pre-activations on."""
    for matrix, bias in layers:
        a = PLAIN[case["activation"]](a) @ matrix.T + bias
    return a.log_softmax(-1)


# --- fast path = plain path, given the same noise -------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_whole_networks_are_the_plain_loop(case):
    posterior, x = posterior_of(3, case, torch.float64), rows_of(ROWS_AT_A_TIME + 3)
    found = predict(posterior, x, range(2, 5))
    mu, sigma = (used_layers(case, posterior.arrays()[name]) for name in ("mu", "sigma"))
    for position, draw in enumerate(range(2, 5)):
        noise = unflatten(normals(posterior, "draw", draw, len(flatten(mu))), mu)
        weights = [
            (m + s * e, b + t * d) for (m, b), (s, t), (e, d) in zip(mu, sigma, noise, strict=True)
        ]  # each w = mu + sigma epsilon
        (first, bias), *later = weights
        expected = finish(case, case.get("input_scale", 1.0) * x @ first.T + bias, later)
        torch.testing.assert_close(found[position], expected, rtol=DOUBLE, atol=DOUBLE)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_shared_draws_are_the_plain_loop(case):
    posterior, x = posterior_of(3, case, torch.float64), rows_of(ROWS_AT_A_TIME + 3)
    found = predict(posterior.per_row(), x, range(2, 5))
    mu, sigma = (used_layers(case, posterior.arrays()[name]) for name in ("mu", "sigma"))
    scaled = case.get("input_scale", 1.0) * x
    m = scaled @ mu[0][0].T + mu[0][1]
    v = scaled.square() @ sigma[0][0].square().T + sigma[0][1].square()
    width = m.shape[1]
    for position, draw in enumerate(range(2, 5)):
        noise = normals(posterior, "shared-draw", draw, width + len(flatten(mu[1:])))
        weights = flatten(mu[1:]) + flatten(sigma[1:]) * noise[width:]
        expected = finish(case, m + v.sqrt() * noise[:width], unflatten(weights, mu[1:]))
        torch.testing.assert_close(found[position], expected, rtol=DOUBLE, atol=DOUBLE)


# --- what a posterior says of its draws ------------------------------------------------------------------------------


def test_a_shared_posterior_says_what_it_cannot_tell():
    posterior = posterior_of(8)
    alone = posterior.per_row()
    assert (posterior.noise, alone.noise, alone.n_draws) == ("weights", "shared", None)
    assert alone.per_row() is alone
    assert posterior.mean_network().per_row().noise == "none"
    assert alone.masked({}).noise == "shared"
    assert alone.mean_network().noise == "none"
    pruned = posterior.masked({"output.bias": torch.zeros(10, dtype=torch.bool)})
    for without, why in ((alone, "single rows"), (posterior.mean_network(), "no noise"), (pruned, "no noise")):
        with pytest.raises(Unsupported, match=why):
            without.log_density_ratio(range(1))
    log_probs = predict(alone, rows_of(6, dtype=torch.float32), range(3))
    _, missing, _ = evaluate_classification(reduce_draws(log_probs), torch.arange(6), np.arange(3), alone.noise)
    assert missing["draw_accuracy_std"].kind == "shared-noise"


# --- groups and memory ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("per_row", [False, True])
def test_draws_do_not_depend_on_the_groups_they_are_drawn_in(per_row, monkeypatch):
    posterior, x = posterior_of(10), rows_of(7, dtype=torch.float32)
    posterior = posterior.per_row() if per_row else posterior
    whole, ratios = predict(posterior, x, range(9)), None if per_row else posterior.log_density_ratio(range(9))
    assert torch.equal(predict(posterior, x, range(3, 5)), whole[3:5])  # not the draws that were kept
    assert torch.equal(predict(posterior, x, range(9)), whole)
    monkeypatch.setattr(kernel, "GROUP_NUMBERS", 200)
    assert torch.equal(predict(posterior, x, range(9)), whole)
    # (4 + 1) 3 + (3 + 1) 10 later weights, and 4 normals or (5 + 1) 4 weights of the first layer
    n_numbers = 55 + (4 if per_row else 24)
    assert posterior._drawn[2].numel() <= 200
    assert posterior._drawn[2].shape[1] == n_numbers
    if not per_row:
        assert torch.equal(posterior.log_density_ratio(range(9)), ratios)


def test_log_probabilities_are_normalised_in_place(monkeypatch):
    monkeypatch.setattr(kernel, "READ_OUT_NUMBERS", 50)  # one draw at a time
    logits = torch.randn(5, 7, 10, generator=torch.Generator().manual_seed(0))
    expected = logits.log_softmax(2)
    answer = log_probabilities(logits)
    assert torch.equal(answer.log_probs, expected)
    assert answer.log_probs.data_ptr() == logits.data_ptr()


# --- densities ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [SIGMOID, LEFT_OUT], ids=["all-used", "layer-left-out"])
def test_log_density_ratio_is_that_of_the_two_normals(case):
    posterior = posterior_of(12, case, torch.float64, prior_std=2.5)
    mu, sigma = posterior.arrays()["mu"], posterior.arrays()["sigma"]
    found = posterior.log_density_ratio(range(3, 5))
    layout = case["layout"]
    for position, draw in enumerate((3, 4)):
        weights = torch.empty_like(mu)
        used = used_layers(case, torch.arange(len(mu)))
        where = flatten(used)
        rest = torch.tensor([i for i in range(layout.n_weights) if i not in set(where.tolist())], dtype=torch.int64)
        for part, index in ((where, ()), (rest, (1,))):
            noise = normals_(mu.new_empty(len(part)), 12, "draw", draw, *index)
            weights[part] = torch.addcmul(mu[part], sigma[part], noise)
        std = torch.tensor(2.5, dtype=torch.float64)
        expected = (
            Normal(mu, sigma).log_prob(weights).sum() - Normal(torch.zeros_like(std), std).log_prob(weights).sum()
        )
        assert found[position].item() == close(expected.item())


@given(st.lists(st.floats(1e-8, 1e8), max_size=23))
def test_a_sum_of_logs_of_any_size_stays_finite(values):
    tensor = torch.tensor(values, dtype=torch.float32)
    logs = tensor.double().log()
    # tolerance: in float32, a product of GROUP values rounds GROUP - 1 times, and its logarithm is off by as much; a
    # logarithm is good to 2 2^-24 relative; the sum of up to 8 logarithms rounds fewer than 8 times
    bound = ((GROUP - 1) * (len(values) // GROUP) + 10 * logs.abs().sum().item()) * 2.0**-24
    # tolerance: the bound above
    assert abs(sum_of_logs(tensor).item() - logs.sum().item()) <= bound


@given(st.integers(0, 5 * CHUNK), st.integers(0, 99), st.floats(1e-6, 1e6))
def test_sum_of_squares_is_as_good_as_it_says(n, seed, scale):
    values = scale * torch.randn(n, generator=torch.Generator().manual_seed(seed))
    exact = math.fsum(value**2 for value in values.double().tolist())
    found = sum_of_squares(values)
    assert found.dtype == torch.float64
    # tolerance: the one that `sum_of_squares` states and derives
    assert abs(found.item() - exact) <= (CHUNK + 1) * 2.0**-24 * exact


# --- marginals ------------------------------------------------------------------------------------------------------


def test_marginals_come_in_the_order_of_the_layers():
    posterior = posterior_of(17, LEFT_OUT)
    marginals = posterior.weights()
    assert list(marginals) == [
        f"{layer}.{part}" for layer in ("hidden1", "hidden2", "output") for part in ("weight", "bias")
    ]
    assert torch.equal(torch.cat([m.mean.flatten() for m in marginals.values()]), posterior.arrays()["mu"])
    assert torch.equal(torch.cat([m.std.flatten() for m in marginals.values()]), posterior.arrays()["sigma"])
    assert [bool(m.used.all()) for m in marginals.values()] == [True, True, False, False, True, True]
    assert [bool(m.used.any()) for m in marginals.values()] == [True, True, False, False, True, True]
    assert list(posterior_of(17, ONE_HIDDEN).weights()) == ["fc1.weight", "fc1.bias", "out.weight", "out.bias"]
