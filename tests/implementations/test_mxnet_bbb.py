"""mxnet_bbb: its step equals the document's, its predictions MXNet's, and numbers before training a derivation."""

import importlib
import importlib.util
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.core.errors import MissingFramework, Unsupported
from bench.core.streams import normals_
from bench.interface import Task
from bench.judge.contract import CheckContext
from bench.run.remote.opening import cores

try:
    from implementations import _mxnet
except MissingFramework as absent:
    pytest.skip(str(absent), allow_module_level=True)

from benchmarks.documents import mxnet_bbb as document
from implementations._kernels.layout import Layout
from implementations._mxnet import Prior, TrainingStep, layer_views, mx, mxnet_logits, nd, to_ndarray, to_tensor
from implementations.mxnet_bbb import MxnetBbb, moving_average
from tests.implementations.made_up import rows

MNIST = Task("classification", n_outputs=10, n_train=60_000, n_inputs=784)
SMALL = Layout((7, 5, 5, 3))
BATCHES = 469
MIXTURE = Prior(0.75, 0.1, 0.25)
CASES = {
    "published": (False, Prior(1.0), document.gaussian_prior),
    "second-hidden-layer": (True, Prior(1.0), document.gaussian_prior),
    "scale-mixture": (False, MIXTURE, document.scale_mixture_prior),
    "narrow-prior": (True, Prior(0.3), lambda x: document.gaussian_prior(x, 0.3)),
}


def document_arrays(layout, flat):
    """The flat vector as the document keeps it: one array a parameter, matrices [in, out]."""
    return [
        nd.from_numpy(np.ascontiguousarray(array.T.numpy() if array.dim() == 2 else array.numpy()), zero_copy=False)
        for layer in layout.layers(flat)
        for array in layer
    ]


def flatten(arrays):
    return torch.cat([torch.from_numpy(array.asnumpy().T.reshape(-1).copy()) for array in arrays])


def both(layout, case, dtype, learning_rate=0.001):
    """Our step and the document's model, started from the same parameters."""
    use_second_hidden, prior, log_prior = CASES[case]
    source = torch.Generator().manual_seed(1)
    mu = torch.randn(layout.n_weights, generator=source, dtype=dtype) * 0.1
    rho = torch.randn(layout.n_weights, generator=source, dtype=dtype) * 0.1 - 3
    ours = TrainingStep(layout, (True, use_second_hidden, True), prior, BATCHES, learning_rate, mu, rho)
    theirs = document.DocumentBbb(
        document_arrays(layout, mu),
        document_arrays(layout, rho),
        BATCHES,
        learning_rate=learning_rate,
        log_prior=log_prior,
        use_second_hidden=use_second_hidden,
    )
    return mu, rho, ours, theirs, source


@pytest.mark.parametrize("case", CASES)
def test_steps_are_the_documents_in_float64(case):
    mu, rho, ours, theirs, source = both(SMALL, case, torch.float64)
    losses = []
    for _ in range(3):
        x = torch.rand(6, 7, generator=source, dtype=torch.float64) * 2
        y = torch.randint(3, (6,), generator=source)
        noise = torch.randn(SMALL.n_weights, generator=source, dtype=torch.float64)
        ours(to_ndarray(x), to_ndarray(y), noise)
        losses.append(theirs.step(to_ndarray(x), to_ndarray(y), document_arrays(SMALL, noise)))
    # An operator of MXNet keeps its scalars (learning rate, 1/M) as float32: each is off by 2^-24 at most. Two of them
    # scale a gradient, and the parameters of a later step inherit that.
    float32_scalars = 4 * 2.0**-24
    assert ours.losses() == pytest.approx(losses, rel=float32_scalars)
    found = ours.parameters()
    for name, start, arrays in (("mu", mu, theirs.mus), ("rho", rho, theirs.rhos)):
        moved = flatten(arrays) - start
        assert moved.abs().max() > 0
        gap = (found[name] - start - moved).abs().max()
        assert gap < float32_scalars * moved.abs().max()


@pytest.mark.parametrize("case", ["published", "second-hidden-layer", "scale-mixture"])
def test_one_step_of_full_size_in_float32(case):
    """The operators of oneDNN, which serve float32 only, give the document's loss and gradient."""
    layout = Layout((784, 400, 400, 10))
    # a large rate, so that the rounding of mu and rho does not hide the gradient
    mu, rho, ours, theirs, source = both(layout, case, torch.float32, learning_rate=1.0)
    x = torch.rand(96, 784, generator=source) * 2
    y = torch.randint(10, (96,), generator=source)
    noise = torch.randn(layout.n_weights, generator=source)
    ours(to_ndarray(x), to_ndarray(y), noise)
    loss = theirs.step(to_ndarray(x), to_ndarray(y), document_arrays(layout, noise))
    # The document's float32 sum of 478,410 terms is 1.4 million nats, where numbers are 2^-3 apart, and divided by 469.
    assert ours.losses() == pytest.approx([loss], rel=1e-5)
    for name, start, arrays in (("mu", mu, theirs.mus), ("rho", rho, theirs.rhos)):
        moved = flatten(arrays) - start
        # sigma of oneDNN's softplus is good to 1.8e-5 for rho between -4 and -2; sums over 784 inputs to a few 1e-6
        assert (ours.parameters()[name] - start - moved).abs().max() < 5e-5 * moved.abs().max()


def test_rho_learns_at_its_own_rate():
    """With a factor, one step moves rho that many times as far as without it, and mu just as far."""
    moved = {}
    for factor in (1.0, 8.0):
        source = torch.Generator().manual_seed(4)
        mu = torch.randn(SMALL.n_weights, generator=source, dtype=torch.float64)
        rho = torch.full_like(mu, -3.0)
        step = TrainingStep(SMALL, (True, True, True), Prior(1.0), BATCHES, 2.0**-10, mu, rho, factor)
        x, y = torch.rand(6, 7, generator=source, dtype=torch.float64), torch.randint(3, (6,), generator=source)
        step(to_ndarray(x), to_ndarray(y), torch.randn(SMALL.n_weights, generator=source, dtype=torch.float64))
        moved[factor] = {
            name: value - start for (name, value), start in zip(step.parameters().items(), (mu, rho), strict=True)
        }
    torch.testing.assert_close(moved[8.0]["mu"], moved[1.0]["mu"], rtol=0, atol=0)
    assert moved[1.0]["rho"].abs().max() > 0
    torch.testing.assert_close(moved[8.0]["rho"], 8 * moved[1.0]["rho"], rtol=1e-9, atol=1e-15)


@settings(max_examples=30, deadline=None)
@given(
    share=st.floats(0.05, 1.0),
    std=st.floats(0.3, 3.0),
    ratio=st.floats(0.02, 0.9),
    largest=st.sampled_from([0.01, 0.3, 2.0, 100.0]),
)
def test_prior_in_mxnet_is_the_one_in_torch(share, std, ratio, largest):
    prior = Prior(std, std * ratio, share)
    weights = (torch.linspace(-1, 1, 21, dtype=torch.float64) * largest).requires_grad_()
    minus_log_p = -prior.log_density(weights)
    minus_log_p.backward()
    array = to_ndarray(weights).copy()
    energy = prior.energy_and_gradient(array, nd.ones(21, dtype="float64"), 0.5)
    assert energy.asscalar() + prior.constant(21) == pytest.approx(minus_log_p.item(), rel=1e-9, abs=1e-9)
    torch.testing.assert_close(to_tensor(array), 0.5 * weights.grad, rtol=1e-9, atol=1e-9)


def test_prior_far_out_is_finite():
    """Both densities underflow to zero at w = 60, which is 80 standard deviations of the wide one."""
    assert math.isfinite(MIXTURE.log_density(torch.tensor([60.0])).item())
    assert not math.isfinite(nd.sum(document.scale_mixture_prior(nd.full((1,), 60.0))).asscalar())


def start(recipe=None, seed=0):
    """The posterior before any training."""
    approach = MxnetBbb(epochs=0, **(recipe or {}))
    return approach.fit(rows(4, 784), MNIST, CheckContext(seed))


def test_kl_at_the_start():
    """AUDIT of the document: KL / M = 2581.35 at the start.

    E[log q - log p] of a weight = -log sigma - 1/2 + (0.1^2 + sigma^2) / 2 with sigma = log(1 + e^-3) = 0.0485874:
    3.0244 - 0.5 + 0.0062 = 2.53057; times 478,410 weights / 469 batches.
    """
    sigma = math.log1p(math.exp(-3))
    expected = 478_410 / 469 * (-math.log(sigma) - 0.5 + (0.01 + sigma**2) / 2)
    assert expected == pytest.approx(2581.35, abs=0.005)
    draws = 16
    found = start().log_density_ratio(range(draws)) / 469
    # a weight's eps^2 / 2 has variance 1/2: the mean of 16 draws is within four of its standard errors
    assert found.mean().item() == pytest.approx(expected, abs=4 * math.sqrt(478_410 / 2 / draws) / 469)


@pytest.mark.parametrize("use_second_hidden", [False, True])
def test_mxnet_predicts_the_same_logits(use_second_hidden):
    approach = MxnetBbb(epochs=1, use_second_hidden=use_second_hidden)
    posterior = approach.fit(rows(300, 784), MNIST, CheckContext(0))
    x = rows(50, 784, seed=1).x
    mu, sigma = posterior.arrays()["mu"], posterior.arrays()["sigma"]
    layout, used = Layout((784, 400, 400, 10)), (True, use_second_hidden, True)
    drawn = torch.cat([marginal.used.flatten() for marginal in posterior.weights().values()])
    noise = torch.zeros_like(mu)
    noise[drawn] = normals_(torch.empty(int(drawn.sum())), 0, "draw", 2)
    for weights, predicted in (
        (mu + sigma * noise, posterior.predict(x, range(2, 3), torch.arange(50))),
        (mu, posterior.mean_network().predict(x, range(1), torch.arange(50))),
    ):
        layers = [
            layer for layer, is_used in zip(layer_views(layout, to_ndarray(weights)), used, strict=True) if is_used
        ]
        logits = mxnet_logits(to_ndarray(x) * (255 / 126), layers)
        expected = to_tensor(nd.log_softmax(logits))
        # float32 sums of 784 products in another order
        torch.testing.assert_close(
            predicted.log_probs[0], expected, rtol=1e-5, atol=1e-5 * logits.abs().max().asscalar()
        )


def test_moving_average_by_hand():
    # 10; .99 x 10 + .01 x 20 = 10.1; .99 x 10.1 + .01 x 0 = 9.999
    assert moving_average(None, [10.0, 20.0, 0.0], 0.01) == pytest.approx(9.999)
    assert moving_average(moving_average(None, [10.0], 0.01), [20.0, 0.0], 0.01) == pytest.approx(9.999)
    assert math.isnan(moving_average(10.0, [math.nan, 1.0], 0.01))


def test_document_predicts_with_drawn_weights():
    """Without spread (rho = -40) each draw is the network of means; with it, one network for all batches."""
    layout = Layout((4, 3, 3, 2))
    source = torch.Generator().manual_seed(4)
    mus = document_arrays(layout, torch.randn(layout.n_weights, generator=source))
    x = to_ndarray(torch.rand(6, 4, generator=source))
    for rho in (-40.0, 0.0):
        mx.random.seed(0)
        model = document.DocumentBbb(mus, [nd.full(mu.shape, rho) for mu in mus], 469)
        networks = model.draw_networks(3)
        found = np.concatenate([model.predict(part, networks) for part in (x[:4], x[4:], x[:4])], axis=1)
        assert found.shape == (3, 10, 2)
        np.testing.assert_array_equal(found[:, :4], found[:, 6:])
        means = nd.log_softmax(model.forward(x, mus)).asnumpy()
        assert np.allclose(found[:, :6], means, atol=1e-6) == (rho == -40.0)


def test_memory_is_shared():
    tensor = torch.zeros(3)
    array = to_ndarray(tensor)
    tensor[1] = 2
    assert array.asnumpy().tolist() == [0, 2, 0]
    array *= 3
    array.wait_to_read()
    assert tensor.tolist() == [0, 6, 0]
    assert to_tensor(array).data_ptr() == tensor.data_ptr()


def test_mxnet_that_is_not_there_or_does_not_import_says_what_to_do(monkeypatch):
    def fail(name):
        raise AttributeError("module 'numpy' has no attribute 'product'")

    before = vars(np).get("bool")  # which the import of MXNet needs in another form
    assert _mxnet.import_mxnet() is mx
    assert vars(np).get("bool") is before
    with monkeypatch.context() as patch:
        patch.setattr(importlib, "import_module", fail)
        with pytest.raises(MissingFramework, match=r"'product'.*NumPy < 2"):
            _mxnet.import_mxnet()
    assert vars(np).get("bool") is before
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingFramework, match=r"bnn-uncertainty-bench\[mxnet\]"):
        _mxnet.import_mxnet()


def test_a_gpu_is_refused():
    context = CheckContext(0)
    context.device = torch.device("cuda")
    with pytest.raises(Unsupported, match="--device cpu"):
        MxnetBbb().fit(rows(4, 784), MNIST, context)


COUNT_THREADS = """
import os, torch
torch.set_num_threads(1)
os.environ.update(OMP_NUM_THREADS="1", MXNET_OMP_MAX_THREADS="{threads}")
from implementations._mxnet import mx
inputs, weights, bias = (mx.nd.ones(shape) for shape in ((128, 784), (400, 784), 400))
mx.nd.FullyConnected(inputs, weights, bias, num_hidden=400).wait_to_read()
print(len(os.listdir("/proc/self/task")), os.environ["OMP_NUM_THREADS"])
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists() or cores() < 2, reason="needs Linux and two cores")
def test_mxnet_obeys_a_limit_of_threads_that_is_set_after_pytorch_has_started_openmp():
    """If MXNet saw OMP_NUM_THREADS, it would use all processors, and both counts would be equal."""
    unset = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "MXNET_"))}

    def count(threads):
        code = COUNT_THREADS.format(threads=threads)
        done = subprocess.run([sys.executable, "-c", code], env=unset, capture_output=True, text=True, check=True)
        n_threads, openmp = done.stdout.split()
        assert openmp == "1"  # other frameworks still see it
        return int(n_threads)

    assert count(1) < count(2)
