"""The approaches after Blundell et al. 2015: gradients by autograd, the fused pass, masks, weights of the KL."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy, linear, softplus

from bench.core.errors import Unsupported
from bench.core.noise import LANES
from bench.core.streams import StepNoise
from bench.interface import Split, Task
from bench.measure.blundell2015 import LeavesNoise
from implementations import blundell_bbb, blundell_dropout, blundell_sgd
from implementations._kernels.layout import Layout
from implementations._kernels.mixture_mlp import MixtureMlp
from implementations._kernels.relu_network import ReluNetwork
from implementations._kernels.scale_mixture import ScaleMixture
from tests.close import DOUBLE, EXP, SLOPE, SOFTPLUS, close, normals_bound
from tests.close import UNIT as U
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


# --- the compiled pass, which computes in float32 only ----------------------------------------------------------------

TINY = 1e-30  # exp32 ends at e^-87 and e^88
KL, RATE = 0.5, 0.25  # exact in float32; the steps are so large that every term shows in the rounded parameters


def descent_bounds(prior, before, grad, weights, epsilon):
    """Return how far mu and rho may be from those of float64 after one compiled step, in `_descend`'s order.

    Each product and each sum rounds once, a quotient twice at most, and so do the constants of the prior.
    """
    mu, rho = before.chunk(2)
    # exponent of the share: square, two products, constant; offset; difference. Beyond 100 both shares are below TINY
    exponent = (prior.steepness * weights.square()).clamp(max=100)
    off = torch.expm1(5 * U * (exponent + abs(prior.offset)))
    share = torch.sigmoid(prior.offset - exponent)
    share_error = share * ((1 - share) * (off + EXP + off * EXP) + 3 * U) + TINY
    # wide + narrow share: two constants, a product, a sum
    wide, narrow = prior.std**-2, 2 * prior.steepness
    pull = wide + narrow * share
    pull_error = U * wide + narrow * (share_error + 2 * U * share) + U * pull
    # g = grad + kl w pull
    push = KL * weights * pull
    g = grad + push
    g_error = KL * weights.abs() * (pull_error + 2 * U * pull) + U * (grad.abs() + push.abs())
    mu_error = RATE * (g_error + U * g.abs()) + U * (mu.abs() + RATE * g.abs())
    # (g epsilon - kl / sigma) slope
    sigma, slope = softplus(rho), torch.sigmoid(rho)
    left, right = (g * epsilon).abs(), KL / sigma
    inner = epsilon.abs() * g_error + U * left + (SOFTPLUS + 2 * U) * right + U * (left + right)
    step = RATE * slope * (inner + (SLOPE + 2 * U) * (left + right))
    rho_error = step + U * (rho.abs() + RATE * slope * (left + right))
    return torch.cat([mu_error, rho_error])


def check_draw(fused, expected_noise):
    """Check the noise of the last compiled draw, and the weights that it gives."""
    size = len(fused.mu)
    epsilon, mu, rho = fused.epsilon.double(), fused.mu.double(), fused.rho.double()
    # tolerance: elementwise, derived in `normals_bound`
    assert bool(((epsilon - expected_noise[:size]).abs() <= normals_bound(expected_noise)[:size]).all())
    sigma = softplus(rho)
    weights = mu + sigma * epsilon
    bound = sigma * epsilon.abs() * (SOFTPLUS + U) + U * (mu.abs() + (sigma * epsilon).abs()) + TINY
    # tolerance: elementwise; the softplus, a product and a sum
    assert bool(((fused.weights.double() - weights).abs() <= bound).all())


def check_fused_pass(prior, loops=None):
    """Check two steps of the compiled pass, of other loops if given, against plain PyTorch in float64.

    Before each step, plain PyTorch gets the compiled state, which float64 holds exactly. So a difference is that of one
    step's roundings.
    """
    fused, plain = network(prior), network(prior, torch.float64)
    assert fused._loops is not None
    assert plain._loops is None
    fused._loops = loops or fused._loops
    sources = StepNoise(11), StepNoise(11)
    noise = torch.empty(-(-SIZES.n_weights // (4 * LANES)) * 4 * LANES, dtype=torch.float64)  # of whole blocks
    fused.draw(sources[0])
    check_draw(fused, sources[1].normals_(noise))
    for is_last in (False, True):
        fused.backpropagate(*batch(), 1.0)
        for vector in ("parameters", "epsilon", "weights", "from_data"):
            getattr(plain, vector).copy_(getattr(fused, vector))
        bounds = descent_bounds(prior, plain.parameters, plain.from_data, plain.weights, plain.epsilon)
        plain.descend(KL, RATE, None)
        fused.descend(KL, RATE, None if is_last else sources[0])
        # tolerance: elementwise, derived in `descent_bounds`
        assert bool(((fused.parameters.double() - plain.parameters).abs() <= bounds).all())
        if not is_last:
            check_draw(fused, sources[1].normals_(noise))
    assert torch.equal(fused.epsilon, plain.epsilon.float())  # copied from it: the last step draws nothing
    assert torch.equal(fused.weights, plain.weights.float())
    assert sources[0].take_step() == (11, 2)  # two rows of its stream are used


@pytest.mark.parametrize("name", PRIORS)
def test_the_fused_pass_takes_the_plain_steps(name):
    check_fused_pass(PRIORS[name])


def test_several_threads_take_the_same_steps(monkeypatch):
    monkeypatch.setattr("bench.core.noise_loops.SERIAL_BELOW", 100)  # so that two threads share even this small network
    results = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            made, source = network(MIXTURE), StepNoise(2)
            made.draw(source)
            made.from_data.copy_(torch.linspace(-1, 1, SIZES.n_weights))
            made.descend(0.05, 1e-3, source)
            results.append((made.parameters.clone(), made.weights.clone()))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, two) for one, two in zip(*results, strict=True))


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
    """`bench.judge.shorter` reads fits of fewer epochs from records of more."""
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
