"""The approaches after Blundell et al. 2015: gradients by autograd, the fused pass, masks, weights of the KL."""

import math

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy, linear, softplus

from bench.core.errors import Unsupported
from bench.core.streams import StepNoise
from bench.interface import Split, Task
from bench.measure.blundell2015 import LeavesNoise
from implementations import blundell_bbb, blundell_dropout, blundell_sgd
from implementations._kernels.layout import Layout
from implementations._kernels.mixture_mlp import MixtureMlp
from implementations._kernels.relu_network import ReluNetwork
from implementations._kernels.scale_mixture import ScaleMixture
from tests.golden.fits import TraceContext

SIZES = Layout((30, 70, 60, 5))  # 6,735 weights: two blocks of the compiled pass, the last of them not whole
MIXTURE = ScaleMixture(0.8, 0.02, 0.3)
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
    # in float64 both are exact up to some 1e-16 of the largest terms
    torch.testing.assert_close(gradient, torch.cat([mu.grad, rho.grad]), rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(made.log_density_ratio(), ratio.detach(), rtol=1e-12, atol=0)
    torch.testing.assert_close(0.01 * ratio.detach() + 0.5 * nll, loss.detach(), rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", PRIORS)
def test_the_fused_pass_takes_the_plain_steps(name):
    """The compiled pass in float32 against plain PyTorch in float64; each step starts anew from the compiled state."""
    fused, plain = network(PRIORS[name]), network(PRIORS[name], torch.float64)
    assert fused._loops is not None
    assert plain._loops is None
    sources = StepNoise(11), StepNoise(11)
    for made, source in zip((fused, plain), sources, strict=True):
        made.draw(source)
    for step in range(3):
        np.testing.assert_allclose(fused.epsilon, plain.epsilon, rtol=0, atol=2e-6)
        np.testing.assert_allclose(fused.weights, plain.weights, rtol=1e-6, atol=1e-6)
        fused.backpropagate(*batch(), 1.0)
        for vector in ("parameters", "epsilon", "weights", "from_data"):
            getattr(plain, vector).copy_(getattr(fused, vector))
        for made, source in zip((fused, plain), sources, strict=True):
            made.descend(0.05, 1e-3, None if step == 2 else source)
        # float32 keeps seven digits of parameters up to 6, and of steps up to 0.5
        np.testing.assert_allclose(fused.parameters, plain.parameters, rtol=1e-6, atol=1e-6)
    assert torch.equal(fused.epsilon, plain.epsilon.float())  # copied from it: the last step draws nothing
    assert sources[0].take_step() == (11, 3)  # three rows of its stream are used


def test_several_threads_take_the_same_steps():
    results = []
    before = torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        made, source = network(MIXTURE), StepNoise(2)
        made.draw(source)
        made.from_data.copy_(torch.linspace(-1, 1, SIZES.n_weights))
        made.descend(0.05, 1e-3, source)
        results.append((made.parameters.clone(), made.weights.clone()))
    torch.set_num_threads(before)
    assert all(torch.equal(one, two) for one, two in zip(*results, strict=True))


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
    torch.testing.assert_close(nll, expected.detach())
    torch.testing.assert_close(gradient, leaf.grad)


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5])
def test_a_mask_keeps_its_share_and_scales_it(rate):
    words = torch.randint(-(2**31), 2**31, (400 * 100,), generator=torch.Generator().manual_seed(1)).to(torch.int32)
    mask = blundell_dropout.mask_of(words, 100, rate, torch.float32)
    assert set(mask.unique().tolist()) <= {0.0, torch.tensor(1 / (1 - rate)).item()}
    # 40,000 fair draws: a share is off by more than 4.5 standard deviations, sqrt(.25 / 40000) = .0025, once in 10^5
    assert abs((mask == 0).double().mean().item() - rate) < 4.5 * 0.0025


@pytest.mark.parametrize("kind", blundell_bbb.KL_WEIGHTS)
@pytest.mark.parametrize("n_batches", [1, 3, 391])
def test_the_weights_of_the_kl_sum_to_one(kind, n_batches):
    weights = [blundell_bbb.kl_weight(kind, number, n_batches) for number in range(1, n_batches + 1)]
    assert sum(weights) == pytest.approx(1, abs=1e-12)


def test_halving_is_the_papers_formula():
    # M = 3: 2^(M-i) / (2^M - 1) = 4/7, 2/7, 1/7
    assert [blundell_bbb.kl_weight("halving", i, 3) for i in (1, 2, 3)] == pytest.approx([4 / 7, 2 / 7, 1 / 7])


@pytest.mark.parametrize(
    "kind",
    [blundell_bbb.BlundellBbb, blundell_dropout.BlundellDropout, blundell_sgd.BlundellSgd],
    ids=lambda k: k.__name__,
)
def test_a_shorter_fit_is_the_start_of_a_longer_one(kind):
    """`bench.judge.shorter` reads fits of fewer epochs from records of more."""
    x, y = batch(40)
    train = Split("train50k", x, y, torch.arange(len(x)))
    short, long = TraceContext(4), TraceContext(4)
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
    posterior = recipe.rebuild({"mu": torch.full((n_weights,), 2.0), "sigma": torch.full((n_weights,), 0.1)}, task, 0)
    keep = {name: torch.zeros_like(one.used) for name, one in posterior.weights().items()}
    keep["output.bias"][:2] = True
    found = posterior.masked_with_noise(keep, 0.7).weights()
    assert found["output.bias"].mean.tolist() == [2, 2, 0, 0, 0]
    assert found["output.bias"].std.tolist() == pytest.approx([0.1, 0.1, 0.7, 0.7, 0.7])
    assert found["hidden1.weight"].std.unique().tolist() == pytest.approx([0.7])
    assert isinstance(posterior, LeavesNoise)
    with pytest.raises(Unsupported, match="no standard deviations"):
        posterior.mean_network().masked_with_noise(keep, 0.7)
