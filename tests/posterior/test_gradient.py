"""The posterior's energy and gradient: plain PyTorch against SciPy's densities."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from bench.posterior.network import Network, energy_and_gradient
from tests.close import close


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
    assert found.tolist() == close(network.log_likelihood(z, x.double(), y).tolist())


def test_a_regression_has_one_output():
    with pytest.raises(ValueError, match="a regression has one output, not 2"):
        Network(3, 4, 2, kind="regression")
