"""The approaches after Blundell et al. 2015: gradients by autograd, the KL, learning rates, masks, fits."""

import dataclasses
import math

import pytest
import torch
from torch.nn.functional import cross_entropy, linear, softplus

from bench.core.errors import Unsupported
from bench.core.streams import StepNoise
from bench.interface import Split, Task
from bench.measure.blundell2015 import LeavesNoise
from implementations import blundell_bbb, blundell_dropout, blundell_sgd
from implementations._kernels.layout import Layout
from implementations._kernels.mixture_mlp import MixtureMlp, TwoRates
from implementations._kernels.relu_network import ReluNetwork
from implementations._kernels.scale_mixture import ScaleMixture
from tests.close import DOUBLE, close
from tests.golden.fits import TraceContext

SIZES = Layout((30, 70, 60, 5))  # 6,735 weights: two blocks of the compiled pass, the last of them not whole
MIXTURE = ScaleMixture(0.8, 0.02, 0.3)
# tolerance: the largest terms that cancel in autograd's gradient are kl (w - mu) / sigma^2, kl = .01. A rounding of w
# moves them by 2^-53 kl |w| / sigma^2, which is 1.6e-13 at most for these weights; 25 roundings give 4e-12.
GRADIENT = 4e-12
# tolerance: a sum of 6,735 terms, in whatever order, rounds each of them 6,734 times at most, and the term itself
# fewer than 60 times; relative to the sum of absolute terms, and that is less than 2.5 times the sum
RATIO = 2.5 * (SIZES.n_weights + 60) * 2.0**-53
PRIORS = {"mixture": MIXTURE, "far": ScaleMixture(math.exp(-1), math.exp(-8), 0.25), "gaussian": ScaleMixture(0.7)}


def batch(n_rows=12, dtype=torch.float32):
    source = torch.Generator().manual_seed(5)
    x = torch.rand(n_rows, SIZES.sizes[0], generator=source).to(dtype)
    return x, torch.randint(SIZES.sizes[-1], (n_rows,), generator=source)


def network(prior, dtype=torch.float32, rho=-3.0):
    source = torch.Generator().manual_seed(7)
    mu = torch.randn(SIZES.n_weights, generator=source).mul_(0.1).to(dtype)
    spread = torch.randn(SIZES.n_weights, generator=source).to(dtype)
    return MixtureMlp(SIZES, prior, 20, mu, rho + spread)


def log_density(prior, w):
    """Return the log of the prior without (2 pi)^(-1/2), computed directly from its two densities."""
    stds = torch.tensor([prior.std, prior.narrow_std], dtype=w.dtype)
    wide, narrow = torch.distributions.Normal(torch.zeros_like(stds), stds).log_prob(w[:, None]).unbind(1)
    parts = (
        torch.stack([wide + math.log(prior.share), narrow + math.log1p(-prior.share)])
        if prior.share < 1
        else wide[None]
    )
    return (torch.logsumexp(parts, 0) + math.log(2 * math.pi) / 2).sum()


def loss_of(prior, mu, rho, epsilon, x, y, kl, scale):
    """The loss of the paper's equation, through torch.distributions and autograd."""
    sigma = softplus(rho)
    w = mu + sigma * epsilon
    hidden = x
    layers = SIZES.layers(w)
    for depth, (matrix, bias) in enumerate(layers):
        hidden = linear(hidden, matrix, bias)
        hidden = torch.relu(hidden) if depth < len(layers) - 1 else hidden
    log_q = (torch.distributions.Normal(mu, sigma).log_prob(w) + math.log(2 * math.pi) / 2).sum()
    ratio = log_q - log_density(prior, w)
    return kl * ratio + scale * cross_entropy(hidden, y, reduction="sum"), ratio


@pytest.mark.parametrize("name", PRIORS)
def test_the_gradient_is_autograds(name):
    prior, (x, y) = PRIORS[name], batch(dtype=torch.float64)
    made = network(prior, torch.float64)
    noise = StepNoise(3)
    made.draw(noise)
    nll = made.backpropagate(x, y, 0.5)
    gradient = torch.zeros_like(made.parameters)
    made.add_gradient(gradient, 0.01, 1.0)
    mu, rho = (value.clone().requires_grad_() for value in (made.mu, made.rho))
    loss, ratio = loss_of(prior, mu, rho, made.epsilon, x, y, 0.01, 0.5)
    loss.backward()
    torch.testing.assert_close(gradient, torch.cat([mu.grad, rho.grad]), rtol=DOUBLE, atol=GRADIENT)
    torch.testing.assert_close(made.log_density_ratio(), ratio.detach(), rtol=RATIO, atol=0)
    torch.testing.assert_close(0.01 * ratio.detach() + 0.5 * nll, loss.detach(), rtol=DOUBLE, atol=DOUBLE)


# --- the KL and learning rates ----------------------------------------------------------------------------------------


def test_the_kl_from_one_gaussian_is_torchs():
    made = network(PRIORS["gaussian"], torch.float64)
    prior = torch.distributions.Normal(torch.zeros_like(made.mu), torch.full_like(made.mu, 0.7))
    own = torch.distributions.Normal(made.mu, softplus(made.rho))
    expected = torch.distributions.kl_divergence(own, prior).sum().item()
    assert made.divergence(StepNoise(1), 1) == pytest.approx(expected, rel=RATIO)  # tolerance: as for the ratio


def test_the_kl_from_a_mixture_is_the_mean_of_draws():
    made = network(MIXTURE, torch.float64)
    ratios, noise = [], StepNoise(4)
    for _ in range(3):
        made.draw(noise)
        ratios.append(made.log_density_ratio().item())
    assert made.divergence(StepNoise(4), 3) == close(sum(ratios) / 3)
    assert len({*ratios}) == 3


def test_learning_rates_fall_by_one_factor_to_a_fiftieth_and_then_stay():
    recipe = blundell_bbb.BlundellBbb(learning_rate=0.5, optimiser="two-rates")
    rates = [recipe.rates(epoch) for epoch in (1, 251, 501, 502, 1000)]
    assert [of_mu for of_mu, _ in rates] == close([0.5, 0.5 / math.sqrt(50), 0.01, 0.01, 0.01])
    assert [of_rho for _, of_rho in rates] == close([5, 5 / math.sqrt(50), 0.1, 0.1, 0.1])
    for optimiser in ("sgd", "adam"):
        assert blundell_bbb.BlundellBbb(optimiser=optimiser).rates(600) == (1e-3, 1e-3)


@pytest.mark.parametrize("is_adam", [False, True], ids=["sgd", "adam"])
def test_steps_with_two_rates_are_torchs_and_go_on_from_a_state(is_adam):
    kind = torch.optim.Adam if is_adam else torch.optim.SGD
    mine, theirs = network(MIXTURE, torch.float64), network(MIXTURE, torch.float64)
    halves = [theirs.mu.requires_grad_(), theirs.rho.requires_grad_()]
    expected = kind([{"params": [half], "lr": rate} for half, rate in zip(halves, (0.25, 0.125), strict=True)])
    optimiser = TwoRates(mine.parameters, is_adam)
    for step in range(3):
        gradient = torch.linspace(-1, 1 + step, len(mine.parameters), dtype=torch.float64)
        if step == 2:  # another one goes on
            state = optimiser.state()
            mine.parameters.zero_()
            optimiser = TwoRates(mine.parameters, is_adam)
            optimiser.restore(state)
        optimiser.set_rates(0.25, 0.125)
        optimiser.gradient.copy_(gradient)
        optimiser.step()
        for half, of_half in zip(halves, gradient.chunk(2), strict=True):
            half.grad = of_half
        expected.step()
    torch.testing.assert_close(mine.parameters, torch.cat(halves).detach(), rtol=DOUBLE, atol=DOUBLE)


def test_a_fit_with_two_rates_keeps_its_kl_after_every_epoch():
    x, y = batch(40, torch.float64)
    train, task = Split("train50k", x, y, torch.arange(len(x))), Task("classification", 5, 40, 30)
    with_kl, without = (TraceContext(4) for _ in range(2))
    recipe = blundell_bbb.BlundellBbb(epochs=2, batch_size=16, hidden_units=7, prior="gaussian", optimiser="two-rates")
    fitted = recipe.fit(train, task, with_kl).arrays()
    dataclasses.replace(recipe, optimiser="adam").fit(train, task, without)
    own = torch.distributions.Normal(fitted["mu"], fitted["sigma"])
    prior = torch.distributions.Normal(torch.zeros_like(own.loc), torch.ones_like(own.loc))
    expected = torch.distributions.kl_divergence(own, prior).sum().item()
    # tolerance: fewer terms than above, each as there
    assert with_kl.traces[2]["mnist/train50k/kl"] == pytest.approx(expected, rel=RATIO)
    assert "mnist/train50k/kl" in with_kl.traces[1]
    assert without.traces[2].keys() == {"mnist/train50k/train_nll", "mnist/train50k/complexity"}


# --- masks, weights of the KL, fits -----------------------------------------------------------------------------------


def test_masks_scale_outputs_and_stop_gradients():
    """The gradient with masks equals autograd's of the masked network; the inputs' mask is multiplied into x."""
    x, y = batch(dtype=torch.float64)
    flat = torch.randn(SIZES.n_weights, generator=torch.Generator().manual_seed(9), dtype=torch.float64).mul_(0.2)
    gradient = torch.zeros_like(flat)
    source = torch.Generator().manual_seed(4)
    masks = [torch.randint(2, (len(x), width), generator=source).double() * 2 for width in SIZES.sizes[1:-1]]
    nll = ReluNetwork(SIZES, flat, gradient, 20).differentiate(x, y, 0.25, masks)
    leaf = flat.clone().requires_grad_()
    (a, a0), (b, b0), (c, c0) = SIZES.layers(leaf)
    hidden = torch.relu(linear(x, a, a0)) * masks[0]
    outputs = linear(torch.relu(linear(hidden, b, b0)) * masks[1], c, c0)
    expected = cross_entropy(outputs, y, reduction="sum")
    (0.25 * expected).backward()
    torch.testing.assert_close(nll, expected.detach(), rtol=DOUBLE, atol=DOUBLE)
    torch.testing.assert_close(gradient, leaf.grad, rtol=DOUBLE, atol=DOUBLE)


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5])
def test_a_mask_keeps_its_share_and_scales_it(rate):
    words = torch.randint(-(2**31), 2**31, (400 * 100,), generator=torch.Generator().manual_seed(1)).to(torch.int32)
    mask = blundell_dropout.mask_of(words, 100, rate, torch.float64)
    assert set(mask.unique().tolist()) <= {0.0, 1 / (1 - rate)}
    # tolerance: a share of 40,000 fair draws is off by more than 4.5 standard deviations, at most sqrt(.25 / 40000) =
    # .0025, once in 10^5 seeds; the words of this seed are the same on every machine
    assert abs((mask == 0).double().mean().item() - rate) < 4.5 * 0.0025


@pytest.mark.parametrize("kind", blundell_bbb.KL_WEIGHTS)
@pytest.mark.parametrize("n_batches", [1, 3, 391])
def test_the_weights_of_the_kl_sum_to_one(kind, n_batches):
    weights = [blundell_bbb.kl_weight(kind, number, n_batches) for number in range(1, n_batches + 1)]
    assert sum(weights) == close(1)


def test_halving_is_the_papers_formula():
    # M = 3: 2^(M-i) / (2^M - 1) = 4/7, 2/7, 1/7
    assert [blundell_bbb.kl_weight("halving", i, 3) for i in (1, 2, 3)] == close([4 / 7, 2 / 7, 1 / 7])


@pytest.mark.parametrize(
    "kind",
    [blundell_bbb.BlundellBbb, blundell_dropout.BlundellDropout, blundell_sgd.BlundellSgd],
    ids=lambda k: k.__name__,
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_shorter_fit_is_the_start_of_a_longer_one(kind, dtype):
    """`bench.judge.flatness` reads fits of fewer epochs from records of more."""
    x, y = batch(40, dtype)
    train = Split("train50k", x, y, torch.arange(len(x)))
    short, long = TraceContext(4), TraceContext(4)
    short.dtype = long.dtype = dtype
    ends = [
        kind(epochs=epochs, batch_size=16, hidden_units=7)
        .fit(train, Task("classification", 5, 40, 30), context)
        .arrays()
        for epochs, context in ((2, short), (3, long))
    ]
    first, other = (context.posteriors[1].arrays() for context in (short, long))
    assert all(torch.equal(first[name], other[name]) for name in ends[0])
    assert all(torch.equal(ends[0][name], value) for name, value in long.posteriors[2].arrays().items())
    assert not torch.equal(ends[0]["mu"], ends[1]["mu"])


def test_the_number_of_weights_is_that_of_the_paper():
    # (784 + 1) 400 + (400 + 1) 400 + (400 + 1) 10 = 478,410
    task = Task("classification", 10, 50_000, 784)
    assert blundell_bbb.BlundellBbb().layout(task).n_weights == 478_410
    assert blundell_bbb.BlundellBbb(hidden_units=1200).layout(task).n_weights == 2_395_210


def test_pruning_that_leaves_noise_keeps_the_kept_and_gives_the_others_no_mean():
    task = Task("classification", 5, 100, 30)
    recipe = blundell_bbb.BlundellBbb(hidden_units=7)
    n_weights = recipe.layout(task).n_weights
    posterior = recipe.rebuild({"mu": torch.full((n_weights,), 2.0), "sigma": torch.full((n_weights,), 0.125)}, task, 0)
    keep = {name: torch.zeros_like(one.used) for name, one in posterior.weights().items()}
    keep["output.bias"][:2] = True
    found = posterior.masked_with_noise(keep, 0.75).weights()
    assert found["output.bias"].mean.tolist() == [2, 2, 0, 0, 0]
    assert found["output.bias"].std.tolist() == [0.125, 0.125, 0.75, 0.75, 0.75]
    assert found["hidden1.weight"].std.unique().tolist() == [0.75]
    assert isinstance(posterior, LeavesNoise)
    with pytest.raises(Unsupported, match="no standard deviations"):
        posterior.mean_network().masked_with_noise(keep, 0.75)
