"""linear_bbb: gradient written out = autograd, fused Adam = Adam, fit = the document's loop; a closed form."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bench.core.streams import StepNoise, generator, stream_seed
from bench.interface import Task
from benchmarks.documents import linear_bbb as document
from implementations._kernels.flat_adam import FUSE_FROM, FlatAdam
from implementations._kernels.layout import Layout
from implementations._kernels.sampled_mlp import Objective, SampledMlp, categorical_nll, sigma_of
from implementations.linear_bbb import LinearBbb
from tests.implementations.made_up import rows, whole_epochs

MNIST = Task("classification", n_outputs=10, n_train=60_000, n_inputs=784)
SQRT_6 = 2.449489742783178
SWITCHES = [(True, 6.0), (False, 6.0), (True, SQRT_6), (False, SQRT_6)]  # (detach_mu, prior_std)


def double(shape: tuple[int, ...], source: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=source, dtype=torch.float64)


@pytest.mark.parametrize(("detach_mu", "prior_std"), SWITCHES)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**31), n_rows=st.integers(1, 9), sizes=st.lists(st.integers(1, 6), min_size=2, max_size=4))
def test_loss_and_gradient_are_those_of_autograd(detach_mu, prior_std, seed, n_rows, sizes) -> None:
    source = torch.Generator().manual_seed(seed)
    layout = Layout((*sizes, 10))
    x, y = double((n_rows, sizes[0]), source), torch.randint(10, (n_rows,), generator=source)
    ours = SampledMlp(layout, Objective(prior_std, 468.75, detach_mu, categorical_nll), 9, dtype=torch.float64)
    for vector, scale, shift in ((ours.mu, 1, 0), (ours.rho, 2, -3), (ours.epsilon, 1, 0)):
        vector.copy_(scale * double((layout.n_weights,), source) + shift)
    replay = document.replayed_noise(layout.named(ours.epsilon.clone()).values())
    plain = document.GaussianNetwork(layout.sizes, prior_std, detach_mu=detach_mu, sample_noise=replay)
    document.in_double_precision(plain)
    document.set_parameters(plain, layout.named(ours.mu).values(), layout.named(ours.rho).values())
    loss = ours.loss_and_gradient(x, y)
    expected, _ = document.classifier_elbo(plain, x, y, 468.75, 1)
    expected.backward()
    torch.testing.assert_close(loss, expected.detach(), rtol=1e-10, atol=1e-10)
    gradient = torch.cat(document.get_parameters(plain, gradients=True))
    torch.testing.assert_close(ours.gradient, gradient, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("size", [10, FUSE_FROM])
def test_adam_is_adam(size) -> None:
    # Gradients down to 1e-12: at 1e-8 = eps a misplaced eps or bias correction would halve or double the step.
    source = torch.Generator().manual_seed(2)
    ours = double((size,), source)
    plain = ours.clone().requires_grad_()
    gradient = torch.zeros_like(ours)
    fast, slow = FlatAdam(ours, gradient, 0.05), torch.optim.Adam([plain], lr=0.05)
    scale = torch.logspace(-12, 2, size, dtype=torch.float64)
    for _ in range(25):
        gradient.copy_(double((size,), source) * scale)
        plain.grad = gradient.clone()
        fast.step()
        slow.step()
    torch.testing.assert_close(ours, plain.detach(), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("prior_std", "expected"), [(6.0, 10_422), (SQRT_6, 9_152)])
def test_loss_before_any_training(prior_std, expected) -> None:
    # Each weight has log q - log p = log(s/sigma) - e^2/2 + w^2/(2 s^2) with sigma = log(1 + e^-6) = 0.00247569 and
    # E w^2 = 0.6^2/3 + sigma^2 = 0.120006. For s = 6: 1.791759 + 6.001238 - 0.5 + 0.001667 = 7.294664; times
    # 669706 / 468.75 is 10421.97. For s^2 = 6: 0.895880 + 6.001238 - 0.5 + 0.010001 = 6.407118, which gives 9153.9.
    # The noise terms e^2/2 have standard deviation sqrt(669706 / 2) / 468.75 = 1.23.
    network = LinearBbb(prior_std=prior_std).network(MNIST, whole_epochs(0))
    StepNoise(0).normals_(network.epsilon)
    assert len(network.mu) == 669_706  # 784*512 + 512 + 512*512 + 512 + 512*10 + 10
    nothing = network.loss_and_gradient(torch.empty(0, 784), torch.empty(0, dtype=torch.int64))
    assert nothing.item() == pytest.approx(expected, abs=5)


@pytest.mark.parametrize("detach_mu", [True, False])
def test_a_small_fit_is_the_documents_loop(detach_mu) -> None:
    # 70 rows in batches of 16: four and a short one of 6; M = 70/16. Single precision here: 1e-4 is 5 % of one step.
    task = Task("classification", n_outputs=10, n_train=70, n_inputs=12)
    train = rows(70, 12)
    approach = LinearBbb(epochs=3, batch_size=16, hidden_units=8, detach_mu=detach_mu)
    context = whole_epochs(6)
    posterior = approach.fit(train, task, context)

    layout = Layout((12, 8, 8, 10))

    def noise_of_all_steps() -> Iterator[Tensor]:
        for epoch in (1, 2, 3):
            stream = StepNoise(stream_seed(6, "noise", epoch))
            for _ in range(5):
                yield from layout.named(stream.normals_(torch.empty(layout.n_weights))).values()

    plain = document.GaussianNetwork(
        layout.sizes, 6.0, detach_mu=detach_mu, sample_noise=document.replayed_noise(noise_of_all_steps())
    )
    start = torch.empty(layout.n_weights).uniform_(-0.6, 0.6, generator=generator(6, "init"))
    document.set_parameters(plain, layout.named(start).values(), layout.named(torch.full_like(start, -6.0)).values())
    adam, rate = document.document_adam(plain)
    for epoch in (1, 2, 3):
        order = torch.randperm(70, generator=generator(6, "shuffle", epoch))
        losses = [
            document.classifier_step(plain, adam, train.x[batch], train.y[batch], 70 / 16).item()
            for batch in order.split(16)
        ]
        rate /= 1.1
        trace = context.traces[epoch]
        assert trace == {"mnist/train60k/train_loss": pytest.approx(sum(losses) / 5, rel=1e-5)}
    mu, rho = document.get_parameters(plain)
    torch.testing.assert_close(posterior.arrays()["mu"], mu, rtol=0, atol=1e-4)
    torch.testing.assert_close(posterior.arrays()["sigma"], sigma_of(rho), rtol=1e-4, atol=0)
    assert rho.mean() > -6 + 0.01  # 15 steps of up to 0.001 were taken
