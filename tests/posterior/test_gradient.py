"""The posterior's energy and gradient: plain PyTorch against SciPy's densities, compiled passes against plain ones."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from bench.posterior.gradient import Target
from bench.posterior.network import Network
from tests.close import EXP, LOG, UNIT, added, assert_within, close

TANH = (
    12 * UNIT
)  # absolute: (1 - s) / (1 + s) with s = e^-2x < 1, which is off by `EXP` of s: twice that, and 3 roundings
FLOOR = 1e-26  # the exponential's smallest value, e^-60


@st.composite
def networks(draw):
    kind = draw(st.sampled_from(["classification", "regression"]))
    sds = st.tuples(*[st.sampled_from([0.3, 1.0, 3.0])] * 2)
    return Network(
        n_inputs=draw(st.integers(1, 9)),
        n_hidden=draw(st.integers(0, 9)),
        n_outputs=1 if kind == "regression" else draw(st.integers(2, 5)),
        activation=draw(st.sampled_from(["relu", "tanh"])),
        weight_sds=draw(sds),
        bias_sds=draw(sds),
        kind=kind,
        log_noise_mean=draw(st.sampled_from([-1.0, 0.0])),
        log_noise_sd=draw(st.sampled_from([0.0, 0.5])),
    )


def rows(network, n_rows, seed):
    source = torch.Generator().manual_seed(seed)
    x = torch.randn(n_rows, network.n_inputs, generator=source)
    if network.kind == "regression":
        return x, torch.randn(n_rows, generator=source)
    return x, torch.randint(network.n_outputs, (n_rows,), generator=source)


def log_joint(network, z, x, y):
    """The logarithm of likelihood and prior, of weights that are not whitened, by SciPy; one chain, z [P]."""
    weights = network.weights(z[None])
    h, log_density = x.numpy(), 0.0
    for depth, layer in enumerate(weights.layers):
        matrix, bias = (part[0].numpy() for part in layer)
        log_density += stats.norm.logpdf(matrix, scale=network.weight_sds[depth]).sum()
        log_density += stats.norm.logpdf(bias, scale=network.bias_sds[depth]).sum()
        if depth:
            h = np.maximum(h, 0) if network.activation == "relu" else np.tanh(h)
        h = h @ matrix.T + bias
    if network.kind == "classification":
        return log_density + special.log_softmax(h, -1)[np.arange(len(y)), y.numpy()].sum()
    noise = weights.log_noise[0].item()
    if network.log_noise_sd:
        log_density += stats.norm.logpdf(noise, network.log_noise_mean, network.log_noise_sd)
    return log_density + stats.norm.logpdf(y.numpy(), h[:, 0], np.exp(noise)).sum()


def log_likelihood(network, z, x, y):
    """The summed log-likelihood of rows x [B, n] with targets y [B] by plain PyTorch, nats, [C]; z [C, P]."""
    weights = network.weights(z)
    outputs = network.outputs(weights, x)
    if weights.log_noise is None:
        return outputs.log_softmax(-1)[:, torch.arange(len(y)), y].sum(-1)
    residuals = (y.to(z) - outputs.squeeze(-1)) * torch.exp(-weights.log_noise)[:, None]
    return -(residuals.square() / 2 + weights.log_noise[:, None] + np.log(2 * np.pi) / 2).sum(-1)


def energy_and_gradient(network, x, y, z, temperature=1.0):
    """What `Target.energy_and_gradient` returns, by plain PyTorch and autograd."""
    leaf = z.detach().requires_grad_()
    energy = (leaf.square().sum(-1) / 2 - log_likelihood(network, leaf, x, y)) / temperature
    (gradient,) = torch.autograd.grad(energy.sum(), leaf)
    return energy.detach().double(), gradient


@given(network=networks(), n_rows=st.integers(1, 20), seed=st.integers(0, 99))
def test_the_energy_is_the_negative_log_joint_up_to_a_constant(network, n_rows, seed):
    x, y = rows(network, n_rows, seed)
    x, y = x.double(), y.double() if network.kind == "regression" else y
    z = torch.randn(2, network.n_parameters, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    if network.kind == "regression" and not network.log_noise_sd:
        z[:, -1] = 0.5  # it has a prior in whitened space, but no meaning
    first, second = energy_and_gradient(network, x, y, z)[0]
    found = [log_joint(network, each, x, y) for each in z]
    assert (second - first).item() == close(found[0] - found[1])


@given(network=networks(), seed=st.integers(0, 99))
def test_the_gradient_is_that_of_the_energy_at_any_temperature(network, seed):
    x, y = rows(network, 7, seed)
    z = torch.randn(2, network.n_parameters, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    whole, gradient = energy_and_gradient(network, x, y, z)
    cold, steeper = energy_and_gradient(network, x, y, z, temperature=0.25)
    assert cold.tolist() == close((4 * whole).tolist())
    assert steeper.numpy() == close(4 * gradient.numpy())


@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_a_prediction_has_the_likelihood_of_the_energy(kind):
    network = Network(3, 4, 1 if kind == "regression" else 3, kind=kind)
    x, y = rows(network, 5, 0)
    z = torch.randn(2, network.n_parameters, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    predicted = network.predict(z, x.double())
    if kind == "classification":
        found = predicted[:, torch.arange(5), y].sum(1)
    else:
        means, sds = predicted
        found = torch.distributions.Normal(means, sds[:, None]).log_prob(y.double()).sum(1)
    assert found.tolist() == close(log_likelihood(network, z, x.double(), y).tolist())


def test_a_regression_has_one_output():
    with pytest.raises(ValueError, match="a regression has one output, not 2"):
        Network(3, 4, 2, kind="regression")


class Bounds:
    """By how much float32 may miss the energy and the gradient of z float64 [C, P].

    A sum of n products is off by `added(n)` units of the sum of the products' sizes, and by what its terms are off.
    """

    def __init__(self, network, x, y, z):
        self.network, self.x, self.y = network, x.double(), y
        weights = network.weights(z)
        self.scales = network.scales()
        value = self.x.mT.expand(len(z), -1, -1)  # rows last, [C, n, B]
        off = torch.zeros_like(value)
        self.layers = []
        for depth, (matrix, bias) in enumerate(weights.layers):
            flowing, is_near = value, torch.zeros_like(value)
            if depth and network.activation == "tanh":
                flowing, off = value.tanh(), off + TANH
            elif depth:
                # tolerance: an input this near to 0 may fall on the other side of the kink
                flowing, is_near = value.relu(), value.abs() <= off
            self.layers.append((matrix, flowing, off, is_near))
            value = matrix @ flowing + bias[..., None]
            sizes = matrix.abs() @ flowing.abs() + bias.abs()[..., None]
            # 3 roundings of a weight: its prior's standard deviation, their product, and one for the sum with the bias
            off = matrix.abs() @ off + (added(matrix.shape[2]) + 4) * UNIT * sizes
        self.log_noise = weights.log_noise
        self.energy, self.gradient = self._outputs(value, off)
        self.energy += 4 * UNIT * z.square().sum(-1)
        # the slope for z: two products and a sum with z, whose parts are off by the scale's rounding and their own
        exact = energy_and_gradient(network, self.x, y, z)[1]
        self.gradient = self.gradient * self.scales + 4 * UNIT * (exact.abs() + 2 * z.abs())

    def _outputs(self, value, off):
        if self.log_noise is None:
            flowing, off, energy = self._classes(value, off)
            noise = []
        else:
            flowing, off, energy, noise = self._normal(value, off)
        parts = []
        for depth in reversed(range(len(self.layers))):
            matrix, below, off_below, is_near = self.layers[depth]
            n = added(below.shape[2])
            total = flowing.abs()
            of_matrix = off @ below.abs().mT + total @ off_below.mT + n * UNIT * total @ below.abs().mT
            parts = [of_matrix.flatten(1), (off + n * UNIT * (total + (depth + 1 == len(self.layers)))).sum(-1), *parts]
            if depth:
                down = matrix.mT @ flowing
                sizes = matrix.abs().mT @ total
                off = matrix.abs().mT @ off + (added(matrix.shape[1]) + 3) * UNIT * sizes
                if self.network.activation == "tanh":
                    slope = 1 - below.square()
                    flowing, off = down * slope, off * slope + down.abs() * (2 * off_below + off_below**2 + 4 * UNIT)
                else:
                    is_on = below > 0
                    flowing, off = down * is_on, torch.where(is_on, off, 0) + (down.abs() + off) * is_near
        return energy, torch.cat([*parts, *noise], 1)

    def _classes(self, logits, off):
        off = off + 3 * UNIT * logits.abs()  # rounding of the difference to the largest
        largest = 2 * off.amax(1, keepdim=True)
        log_probs = logits.log_softmax(1)
        n = added(len(logits[0]))
        of_total = EXP + (n + 3) * UNIT
        probs = log_probs.exp()
        flowing = probs.clone()
        flowing[:, self.y, torch.arange(len(self.y))] -= 1
        relative = torch.expm1(largest) + EXP + of_total
        # log of a total up to K
        of_rows = largest.squeeze(1) + of_total + LOG * np.log(len(logits[0])) + 2 * UNIT * logits.abs().amax(1)
        return flowing, probs * relative + UNIT + FLOOR, of_rows.sum(-1) + len(logits[0]) * len(self.y) * FLOOR

    def _normal(self, means, off):
        y = self.y.double()
        residuals, n = means - y, added(len(y))
        off = off + 2 * UNIT * (means.abs() + y.abs())
        precision = torch.exp(-2 * self.log_noise)[:, None, None]
        # the logarithm: of its scale, product and sum with the centre; the precision is rounded once
        of_log = 3 * UNIT * (self.log_noise.abs() + 2 * abs(self.network.log_noise_mean))
        relative = torch.expm1(2 * of_log)[:, None, None] + 3 * UNIT
        of_squares = (2 * residuals.abs() * off + off**2 + (n + 2) * UNIT * residuals**2).sum(-1, keepdim=True)
        of_squares = precision * (of_squares * (1 + relative) + relative * residuals.square().sum(-1, keepdim=True))
        of_noise = of_squares.squeeze(1) + UNIT * len(y)
        energy = of_squares[:, 0, 0] / 2 + len(y) * of_log
        return (
            residuals * precision,
            precision * (off * (1 + relative) + residuals.abs() * relative),
            energy,
            [of_noise],
        )


@given(
    network=networks(),
    n_rows=st.integers(1, 1200),
    seed=st.integers(0, 99),
    chains=st.integers(1, 5),
    empty=st.sets(st.integers(0, 8)),
)
def test_compiled_passes_give_the_plain_energy_and_gradient(network, n_rows, seed, chains, empty):
    x, y = rows(network, n_rows, seed)
    x[:, [column for column in empty if column < network.n_inputs]] = 0
    z = torch.randn(chains, network.n_parameters, generator=torch.Generator().manual_seed(seed))
    energy, gradient = Target(network, x, y).energy_and_gradient(z)
    plain = energy_and_gradient(network, x.double(), y, z.double())
    bounds = Bounds(network, x, y, z.double())
    assert_within(energy, plain[0], bounds.energy)
    assert_within(gradient, plain[1], bounds.gradient)


BITS = """
import hashlib, torch
from bench.posterior.gradient import Target
from bench.posterior.network import Network
x, z = torch.randn(1000, 5, generator=torch.Generator().manual_seed(0)), torch.linspace(-1, 1, 75)[None]
energy, gradient = Target(Network(5, 8, 3), x, torch.arange(1000) % 3).energy_and_gradient(z)
print(hashlib.sha256(energy.numpy().tobytes() + gradient.numpy().tobytes()).hexdigest())
"""


def test_passes_that_are_compiled_now_or_read_from_the_cache_give_the_same_bits(tmp_path):
    """Else a sampling that goes on after a kill would not get the bits of one that was not ended."""

    def bits():
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        return subprocess.run([sys.executable, "-c", BITS], capture_output=True, text=True, check=True, env=environment)

    first = bits().stdout
    assert list(tmp_path.rglob("passes._classify*"))
    assert bits().stdout == first
