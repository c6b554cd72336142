"""pyro_random_module: distributions, loss and training equal the document's, the KL's weight, the posterior."""

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.interface import Task
from tests.close import DOUBLE, LOG, SLOPE, SOFTPLUS, UNIT, added, assert_within, close
from tests.implementations.made_up import context_of, whole_epochs
from tests.implementations.made_up import rows as made_up

pyro = pytest.importorskip("pyro", reason="Pyro is not installed")

from pyro import poutine  # noqa: E402 - after the skip
from pyro.infer import SVI, Trace_ELBO  # noqa: E402
from torch.distributions import Normal  # noqa: E402
from torch.nn.functional import softplus  # noqa: E402

from bench.core.streams import normals_  # noqa: E402 - after the skip
from bench.judge.contract import CheckContext  # noqa: E402
from documents_code.pyro_random_module import DocumentNetwork  # noqa: E402 - after the skip
from implementations import pyro_random_module as approach  # noqa: E402
from implementations._kernels.gaussian_weights import GaussianWeights, StandardNormalWeights  # noqa: E402
from implementations._pyro import adam, isolated  # noqa: E402
from implementations.pyro_hidden_layer import PyroHiddenLayer  # noqa: E402
from implementations.pyro_random_module import PyroRandomModule  # noqa: E402 - after the skip
from tests.implementations.made_up import PyrosNoise  # noqa: E402

CPU = torch.device("cpu")
N_INPUTS, N_HIDDEN, BATCH, N_ROWS = 20, 12, 32, 80  # 80 rows: three batches, the last one short
SMALL = {"n_hidden": N_HIDDEN, "batch_size": BATCH}
TASK = Task("classification", 10, N_ROWS, N_INPUTS)


@pytest.fixture
def in_pyro():
    with isolated(CPU), approach._deprecation_is_known():
        yield


# --- the distributions ---------------------------------------------------------------------------------------------


@given(st.integers(0, 999), st.floats(-8, 30))
def test_gaussian_weights_are_normals(seed, rho):
    source = torch.Generator().manual_seed(seed)
    values = [torch.randn(5, 3, generator=source, dtype=torch.float64) for _ in range(3)]
    results = []
    for plain in (True, False):
        mu, rho_of_all = values[0].clone().requires_grad_(), (values[1] + rho).requires_grad_()
        q = Normal(mu, softplus(rho_of_all, threshold=100)) if plain else GaussianWeights(mu, rho_of_all)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            w = q.rsample()
        log_q = q.log_prob(w).sum()
        log_p = (Normal(0, 1) if plain else StandardNormalWeights(w.shape)).log_prob(w).sum()
        ((w * values[2]).sum() + 0.7 * log_q - 0.4 * log_p).backward()
        results.append((w.detach(), log_q.detach(), log_p.detach(), mu.grad, rho_of_all.grad))
    # tolerance: `Normal` computes the noise as (w - mu) / sigma, off by (|w| + |mu|) / sigma roundings, and squares it.
    # For the gradient of mu it divides by sigma once more; two such terms cancel. Each has a few dozen roundings
    sigma, (w, *_) = softplus(values[1] + rho, threshold=100), results[0]
    of_noise = DOUBLE * (1 + (w.abs() + values[0].abs()) / sigma)
    bounds = (of_noise * sigma, of_noise.sum(), DOUBLE * (1 + w.square()).sum(), of_noise * (1 + 1 / sigma), of_noise)
    for plain, ours, bound in zip(*results, bounds, strict=True):
        assert_within(plain, ours, bound)


@settings(max_examples=20)
@given(st.integers(0, 999), st.sampled_from([(7, 5), (61, 70)]), st.sampled_from([-5.0, -1.0, 0.0, 3.0]))
def test_compiled_draws_are_the_plain_ones_in_float64(seed, shape, shift):
    """The larger tensor has more weights than a block of the compiled passes."""
    source = torch.Generator().manual_seed(seed)
    mu, spread, noise, grad = (torch.randn(shape, generator=source) for _ in range(4))
    results = []
    for dtype in (torch.float32, torch.float64):
        leaves = [value.to(dtype, copy=True).requires_grad_() for value in (mu, spread + shift)]
        q = GaussianWeights(*leaves, lambda empty: empty.copy_(noise))
        w = q.rsample()
        assert (type(w.grad_fn).__name__ == "_DrawInOnePassBackward") == (dtype == torch.float32)
        log_q = q.log_prob(w)
        ((w * grad.to(dtype)).sum() + 0.75 * log_q).backward()
        results.append([value.detach() for value in (w, log_q, *(leaf.grad for leaf in leaves))])
    (fast_w, fast_log_q, fast_mu, fast_rho), (w, log_q, _, of_rho) = results
    noise, grad, rho = noise.double(), grad.double(), (spread + shift).double()
    sigma, slope = softplus(rho, threshold=100), rho.sigmoid()
    # tolerance: sigma's own error, a product and a sum
    assert_within(fast_w, w, (SOFTPLUS + UNIT) * (sigma * noise).abs() + UNIT * w.abs())
    # tolerance: a logarithm has the error of sigma and its own, a square a rounding; a block adds in float32, and the
    # blocks are added in float64
    block = UNIT * added(min(4096, noise.numel()))
    log_sigma, squares = sigma.log().abs(), noise.square() / 2
    of_terms = SOFTPLUS + (LOG + block) * log_sigma + (UNIT + block) * squares
    assert_within(fast_log_q, log_q, of_terms.sum() + UNIT * log_q.abs())
    assert torch.equal(fast_mu.double(), grad)
    # tolerance: grad noise has one rounding, the quotient (a product with an inverse) two and the error of sigma; the
    # sum and the product with the slope have one each
    data, entropy = (grad * noise).abs(), 0.75 / sigma
    parts = UNIT * data + (SOFTPLUS + 2 * UNIT) * entropy + (SLOPE + 2 * UNIT) * (data + entropy)
    assert_within(fast_rho, of_rho, slope * parts)


# --- the objective -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("in_pyro")
@pytest.mark.parametrize(("divide_kl", "weight"), [(False, 1.0), (True, 1 / 3)])
def test_loss_has_the_whole_kl_or_its_share_of_the_epochs_three_batches(divide_kl, weight):
    rows = made_up(BATCH, dtype=torch.float64)
    network = approach._Network(PyroRandomModule(divide_kl=divide_kl, **SMALL), TASK, context_of(0, torch.float64))
    torch.manual_seed(3)
    loss = SVI(network.model, network.guide, adam(0.01), loss=Trace_ELBO()).evaluate_loss(rows.x, rows.y)
    torch.manual_seed(3)
    guide = poutine.trace(network.guide).get_trace(rows.x, rows.y)
    model = poutine.trace(poutine.replay(network.model, guide)).get_trace(rows.x, rows.y)
    nll = -model.nodes["obs"]["fn"].logits.gather(1, rows.y[:, None]).sum()
    ratio = 0.0
    for name in approach.WEIGHTS:
        mu, rho = network._parameters(name)
        drawn = guide.nodes[f"module$$${name}"]["value"]
        ratio += (Normal(mu, softplus(rho)).log_prob(drawn) - Normal(0.0, 1.0).log_prob(drawn)).sum()
    assert loss == close((nll + weight * ratio).item())


def test_numbers_that_need_no_data():
    task = Task("classification", 10, 60_000, 784)
    with isolated(CPU):
        network = approach._Network(PyroRandomModule(), task, context_of(0, torch.float64))
        marginals = network.posterior(0).weights().values()
    n_weights = sum(marginal.mean.numel() for marginal in marginals)
    assert n_weights == 814_090
    kl = sum(((m.mean.square() + m.std.square() - 1) / 2 - m.std.log()).sum() for m in marginals)
    # E[(mu^2 + s^2 - 1) / 2 - log s] with mu, rho ~ N(0, 1) and s = log(1 + e^rho), by Gauss-Hermite quadrature
    nodes, shares = np.polynomial.hermite_e.hermegauss(60)
    sigma = np.log1p(np.exp(nodes))
    of_sigma = sigma**2 / 2 - np.log(sigma)
    expected = np.sum(shares / shares.sum() * of_sigma)
    assert round(expected, 2) == 0.90
    # mu^2 / 2 has the variance 1/2
    variance = 0.5 + np.sum(shares / shares.sum() * (of_sigma - expected) ** 2)
    # tolerance: five standard errors, .006, are exceeded with probability 6e-7
    assert kl.item() / n_weights == pytest.approx(expected, abs=5 * math.sqrt(variance / n_weights))


def test_training_equals_the_documents(float64, monkeypatch):
    monkeypatch.setattr(approach, "StepNoise", PyrosNoise)
    rows = made_up(N_ROWS, dtype=torch.float64)
    context = whole_epochs(4, torch.float64)
    with isolated(CPU):
        approach._Network(PyroRandomModule(**SMALL), TASK, context)
        start = {name: value.detach().clone() for name, value in pyro.get_param_store().items()}
    posterior = PyroRandomModule(epochs=2, **SMALL).fit(rows, TASK, context)
    with isolated(CPU), approach._deprecation_is_known():
        document = DocumentNetwork(N_HIDDEN, N_INPUTS)
        document.guide(None, None)
        document.start = torch.zeros_like  # no draws but those of the weights
        store = pyro.get_param_store()
        for name, value in start.items():
            store[name.replace("/mu", "_mu").replace("/rho", "_sigma")] = value
        for epoch in (1, 2):
            torch.manual_seed(context.stream("noise", epoch))
            order = torch.randperm(N_ROWS, generator=context.generator("shuffle", epoch))
            loss = sum(document.training_step(rows.x[batch], rows.y[batch]) for batch in order.split(BATCH))
            trace = context.traces[epoch]["mnist/train60k/train_loss_per_image"]
            assert trace == close(loss / N_ROWS)
        for name, marginal in posterior.weights().items():
            std = softplus(store[f"{name}_sigma"])
            torch.testing.assert_close(marginal.mean, store[f"{name}_mu"].detach(), rtol=DOUBLE, atol=DOUBLE)
            torch.testing.assert_close(marginal.std, std.detach(), rtol=DOUBLE, atol=DOUBLE)


# --- fitting -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("approach_of_pyro", [PyroHiddenLayer, PyroRandomModule])
def test_fit_leaves_globals_alone_and_silences_one_warning_only(approach_of_pyro):
    pyro.clear_param_store()
    pyro.param("mine", torch.tensor(3.0))
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    filters = list(warnings.filters)
    with pyro.validation_enabled(True):
        approach_of_pyro(epochs=1, **SMALL).fit(made_up(N_ROWS), TASK, CheckContext(0))
        assert pyro.infer.util.is_validation_enabled()
    assert list(pyro.get_param_store()) == ["mine"]
    assert torch.rand(1) == expected
    assert warnings.filters == filters
    with approach._deprecation_is_known(), pytest.raises(FutureWarning, match="another"):
        warnings.warn("another", FutureWarning, stacklevel=1)
    pyro.clear_param_store()


# --- the posterior -------------------------------------------------------------------------------------------------


def made_up_posterior(seed=0):
    source = torch.Generator().manual_seed(3)
    size = N_HIDDEN * (N_INPUTS + 1) + 10 * (N_HIDDEN + 1)
    mu, sigma = torch.randn(size, generator=source).double(), torch.rand(size, generator=source).double()
    arrays = {"mu": 0.5 * mu, "sigma": 0.3 * sigma + 0.01}
    return PyroRandomModule(**SMALL).rebuild(arrays, TASK, seed)


def test_prediction_is_the_documents_network_with_drawn_weights():
    posterior, rows = made_up_posterior(seed=9), made_up(7, dtype=torch.float64)
    predicted = posterior.predict(rows.x, range(3, 5), rows.rows).log_probs
    net = DocumentNetwork(N_HIDDEN, N_INPUTS).net.double()
    size = N_HIDDEN * (N_INPUTS + 1) + 10 * (N_HIDDEN + 1)
    for index, draw in enumerate(range(3, 5)):
        noise = normals_(torch.empty(size, dtype=torch.float64), 9, "draw", draw)
        start = 0
        for (name, parameter), marginal in zip(net.named_parameters(), posterior.weights().values(), strict=True):
            assert name in approach.WEIGHTS
            normal = noise[start : start + parameter.numel()].view_as(parameter)
            parameter.data.copy_(marginal.mean + marginal.std * normal)
            start += parameter.numel()
        expected = torch.log_softmax(net(rows.x), 1).detach()
        torch.testing.assert_close(predicted[index], expected, rtol=DOUBLE, atol=DOUBLE)


# --- the document's prediction loops -------------------------------------------------------------------------------


@pytest.mark.usefixtures("in_pyro")
def test_documents_loops_predict_and_refuse():
    document = DocumentNetwork(N_HIDDEN, N_INPUTS)
    document.guide(None, None)
    store = pyro.get_param_store()
    images = made_up(6).x
    for name in list(store):
        store[name] = torch.full_like(store[name], 0.0 if name.endswith("_mu") else -20.0)
    store["out.bias_mu"] = torch.eye(10)[4] * 3
    # logits 3 for class 4 and 0 for nine others: p = e^3 / (e^3 + 9) = 0.69
    assert document.predict(images, 3).tolist() == [4] * 6
    assert document.predict_or_refuse(images, 5) == [4] * 6
    store["out.bias_mu"] = torch.eye(10)[4] * 0.5  # p = 0.15: no candidate
    assert document.predict_or_refuse(images, 5) == [None] * 6
