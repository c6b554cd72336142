"""The compiled pass with a mixture prior is the plain one in float64; a change inside any compiled pass is found."""

import importlib.util
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.nn.functional import softplus

pytest.importorskip("bench.core.noise_loops", reason="numba is not installed")

from bench.core import noise_loops
from bench.core.noise import LANES
from bench.core.streams import StepNoise
from implementations._kernels import layer_loops, mixture_loops, sampled_mlp, weight_loops
from implementations._kernels.mixture_mlp import TwoRates
from tests.close import EXP, SLOPE, SOFTPLUS, assert_within, normals_bound
from tests.close import UNIT as U
from tests.core.test_noise import test_compiled_numbers_are_the_plain_ones as numbers
from tests.implementations.test_blundell import MIXTURE, PRIORS, SIZES, batch, network
from tests.implementations.test_weight_loops import test_a_compiled_step_is_the_float64_one as a_step_of_adam

MOMENTS = ("exp_avg", "exp_avg_sq")
TINY = 1e-30  # exp32 ends at e^-87 and e^88
KL = 0.5  # exact in float32, as the rates are; the steps are so large that every term shows in the rounded parameters
RATES = 0.25, 0.125  # of mu and rho


def gradient_bounds(prior, before, grad, weights, epsilon):
    """Return how far the compiled gradient of mu and rho [2 P] may be from that of float64, and the size of its terms.

    Each product and each sum rounds once, a quotient twice at most, and so do the constants of the prior.
    """
    rho = before.chunk(2)[1]
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
    # (g epsilon - kl / sigma) slope
    sigma, slope = softplus(rho), torch.sigmoid(rho)
    left, right = (g * epsilon).abs(), KL / sigma
    inner = epsilon.abs() * g_error + U * left + (SOFTPLUS + 2 * U) * right + U * (left + right)
    of_rho = slope * (inner + (SLOPE + U) * (left + right))
    return torch.cat([g_error, of_rho]), torch.cat([g.abs(), slope * (left + right)])


def descent_bounds(plain, bounds, sizes):
    """Return how far the parameters may be from those of float64 after a step of SGD: a product and a sum."""
    before, (of_mu, of_rho) = plain.parameters.abs(), RATES
    rates = torch.cat([torch.full_like(plain.mu, of_mu), torch.full_like(plain.rho, of_rho)])
    return rates * (bounds + U * sizes) + U * (before + rates * sizes)


def adam_bounds(adam, before, of_gradient, rate, parameter):
    """Return how far a half of the parameters may be from that of float64 after a step of Adam, and its moments.

    `before` has the moments before the step; the roundings are those of `check_step` in test_weight_loops.py.
    """
    state, gradient = adam._adam.state[adam._parameters], adam._parameters.grad.abs()
    of_first = 0.1 * of_gradient + 4 * U * (before[0].abs() + 0.1 * gradient)
    of_second = 4 * U * before[1] + 0.001 * (2 * gradient * of_gradient + of_gradient**2 + 4 * U * gradient**2)
    step = float(state["step"])
    scaled = rate / (1 - 0.9**step) / ((state["exp_avg_sq"] / (1 - 0.999**step)).sqrt() + 1e-8)
    move = scaled * state["exp_avg"].abs()
    of_move = scaled * of_first + move * (of_second / (2 * state["exp_avg_sq"]) + 8 * U)
    return of_move + U * (parameter.abs() + move), of_first, of_second


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


def check_fused_pass(prior, loops=None, is_adam=False):
    """Check two steps of the compiled pass, of other loops if given, against plain PyTorch in float64.

    Before each step, plain PyTorch gets the compiled state, which float64 holds exactly. So a difference is that of one
    step's roundings.
    """
    fused, plain = network(prior), network(prior, torch.float64)
    by_pass, by_torch = (TwoRates(one.parameters, is_adam) for one in (fused, plain))
    for optimiser in (by_pass, by_torch):
        optimiser.set_rates(*RATES)
    assert fused._loops is not None
    assert plain._loops is None
    fused._loops = loops or fused._loops
    sources = StepNoise(11), StepNoise(11)
    noise = torch.empty(-(-SIZES.n_weights // (4 * LANES)) * 4 * LANES, dtype=torch.float64)  # of whole blocks
    fused.draw(sources[0])
    check_draw(fused, sources[1].normals_(noise))
    for is_last in (False, True):
        fused.backpropagate(*batch(), 1.0)
        by_torch.restore({name: value.double() for name, value in by_pass.state().items()})
        for vector in ("epsilon", "weights", "from_data"):
            getattr(plain, vector).copy_(getattr(fused, vector))
        descend = partial(fused.descend, KL, by_pass, None if is_last else sources[0])
        check_step(plain, by_torch, descend, by_pass)
        if not is_last:
            check_draw(fused, sources[1].normals_(noise))
    assert torch.equal(fused.epsilon, plain.epsilon.float())  # copied from it: the last step draws nothing
    assert torch.equal(fused.weights, plain.weights.float())
    assert sources[0].take_step() == (11, 2)  # two rows of its stream are used


def check_step(plain, by_torch, descend, by_pass):
    """Take a step of both and assert that parameters and moments agree up to the rounding of float32."""
    before = plain.parameters.clone()
    bounds, sizes = gradient_bounds(plain.prior, before, plain.from_data, plain.weights, plain.epsilon)
    of_sgd = descent_bounds(plain, bounds, sizes)
    moments = [[by_torch.state()[name].chunk(2)[half] for name in MOMENTS] for half in (0, 1)] if by_torch.adams else []
    plain.descend(KL, by_torch, None)
    descend()
    state, found = by_torch.state(), by_pass.state()
    if not moments:
        assert_within(found["parameters"], state["parameters"], of_sgd)
        return
    for half, (adam, rate, old) in enumerate(zip(by_torch.adams, RATES, moments, strict=True)):
        own = adam_bounds(adam, old, bounds.chunk(2)[half], rate, before.chunk(2)[half])
        for name, bound in zip(("parameters", *MOMENTS), own, strict=True):
            assert_within(found[name].chunk(2)[half], state[name].chunk(2)[half], bound)


@pytest.mark.parametrize("is_adam", [False, True], ids=["sgd", "adam"])
@pytest.mark.parametrize("name", PRIORS)
def test_the_fused_pass_takes_the_plain_steps(name, is_adam):
    check_fused_pass(PRIORS[name], is_adam=is_adam)


def test_several_threads_take_the_same_steps(monkeypatch):
    monkeypatch.setattr("bench.core.noise_loops.SERIAL_BELOW", 100)  # so that two threads share even this small network
    results = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            made, source = network(MIXTURE), StepNoise(2)
            optimiser = TwoRates(made.parameters, is_adam=True)
            optimiser.set_rates(1e-3, 1e-2)
            made.draw(source)
            made.from_data.copy_(torch.linspace(-1, 1, SIZES.n_weights))
            made.descend(0.05, optimiser, source)
            results.append((made.parameters.clone(), made.weights.clone()))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, two) for one, two in zip(*results, strict=True))


# --- planted changes -------------------------------------------------------------------------------------------------

PLANTED = {
    "nothing": (weight_loops, "float32(0.999)", "float32(0.999)"),
    "nothing, in the normals": (noise_loops, "float32(1.6666654611e-1)", "float32(1.6666654611e-1)"),
    "nothing, with a mixture": (mixture_loops, "kl / sigma", "kl / sigma"),
    "nothing, in a layer": (layer_loops, "scale = free * dropout", "scale = free * dropout"),
    "the variance": (layer_loops, "variance[i] = scale * scale", "variance[i] = scale * scale * float32(0.999)"),
    "the gradient": (
        layer_loops,
        "product[0, i] + weight) - weight",
        "product[0, i] + weight) - weight * float32(0.999)",
    ),
    "a coefficient of the sine": (noise_loops, "float32(1.6666654611e-1)", "float32(1.6665e-1)"),
    "Adam's beta2": (weight_loops, "second[i] * float32(0.999)", "second[i] * float32(0.998)"),
    "the prior's pull": (weight_loops, "weights[i] * pull", "weights[i] * pull * float32(0.999)"),
    "the slope of sigma": (weight_loops, "(g * noise[i] - push * inverse) * slope", "(g * noise[i] - push * inverse)"),
    "the sum of log sigma": (weight_loops, "log_sigma += log32(sigma)", "log_sigma += log32(sigma) * float32(0.999)"),
    "the narrow prior's share": (mixture_loops, "wide + narrow * share", "wide + narrow * share * float32(0.999)"),
    "the entropy": (mixture_loops, "kl / sigma", "kl / sigma * float32(0.999)"),
    "the rate of rho": (mixture_loops, "v_rho[a:b], rates[2]", "v_rho[a:b], rates[2] * float32(0.999)"),
}


@pytest.fixture
def planted(request, tmp_path):
    """Return a module of loops, compiled from a copy of its file in which one piece is another."""
    module, before, after = PLANTED[request.param]
    text = Path(module.__file__).read_text()
    assert text.count(before) == 1
    copy = tmp_path / "planted_loops.py"
    copy.write_text(text.replace(before, after))
    spec = importlib.util.spec_from_file_location("planted_loops", copy)
    found = sys.modules["planted_loops"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    yield found
    del sys.modules["planted_loops"]


@pytest.mark.parametrize("planted", ["nothing"], indirect=True)
def test_an_unchanged_copy_passes(planted, monkeypatch):
    monkeypatch.setattr(sampled_mlp, "loops_for", lambda value: planted if value.element_size() == 4 else None)
    a_step_of_adam(False, 1, 1, monkeypatch)


@pytest.mark.parametrize("planted", ["nothing, with a mixture"], indirect=True)
def test_an_unchanged_copy_of_the_mixtures_pass_passes(planted):
    for is_adam in (False, True):
        check_fused_pass(MIXTURE, planted, is_adam)


@pytest.mark.parametrize("planted", ["nothing, in a layer", "the variance", "the gradient"], indirect=True)
def test_in_a_layer(planted, monkeypatch, request):
    pytest.importorskip("pyro", reason="Pyro is not installed")
    from implementations._kernels import hidden_layer
    from tests.implementations.test_weight_loops import test_compiled_layer_is_the_plain_one_in_float64 as layer

    monkeypatch.setattr(hidden_layer, "loops_for", lambda value, _: planted if value.element_size() == 4 else None)
    with nullcontext() if "nothing" in request.node.name else pytest.raises(AssertionError):
        layer(0.75)


@pytest.mark.parametrize("planted", ["nothing, in the normals", "a coefficient of the sine"], indirect=True)
def test_in_the_normals(planted, monkeypatch, request):
    monkeypatch.setattr(noise_loops, "fill_normals", planted.fill_normals)
    with nullcontext() if "nothing" in request.node.name else pytest.raises(AssertionError):
        numbers()


@pytest.mark.parametrize(
    "planted", ["Adam's beta2", "the prior's pull", "the slope of sigma", "the sum of log sigma"], indirect=True
)
def test_in_a_step_of_adam(planted, monkeypatch):
    monkeypatch.setattr(sampled_mlp, "loops_for", lambda value: planted if value.element_size() == 4 else None)
    with pytest.raises(AssertionError):
        a_step_of_adam(False, 1, 1, monkeypatch)


@pytest.mark.parametrize("planted", ["the narrow prior's share", "the entropy"], indirect=True)
def test_in_a_step_of_sgd(planted):
    with pytest.raises(AssertionError):
        check_fused_pass(MIXTURE, planted)


@pytest.mark.parametrize("planted", ["the narrow prior's share", "the entropy", "the rate of rho"], indirect=True)
def test_in_a_step_of_adam_with_a_mixture(planted):
    with pytest.raises(AssertionError):
        check_fused_pass(MIXTURE, planted, is_adam=True)
