"""linear_bbb: gradient written out = autograd, fused Adam = Adam, fit = the document's loop; its one printed update."""

import csv
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bench.core.streams import StepNoise, generator, stream_seed, uniforms
from bench.interface import Task
from documents_code import linear_bbb as document
from implementations._kernels.flat_adam import FUSE_FROM, FlatAdam
from implementations._kernels.layout import Layout
from implementations._kernels.sampled_mlp import Objective, SampledMlp, categorical_nll, sigma_of
from implementations.linear_bbb import LinearBbb
from implementations.worked_example import worked_example
from tests.close import DOUBLE, close
from tests.golden.fits import TraceContext, in_double
from tests.implementations.made_up import rows

MNIST = Task("classification", n_outputs=10, n_train=60_000, n_inputs=784)
SQRT_6 = 2.449489742783178
# tolerance: a gradient is rounded fewer than 100 times, relative to terms e / (sigma M) up to 4 / (.0025 70/16) = 370,
# so it is off by less than d = 4e-12. With d added to or subtracted from every gradient of every step, by chance,
# the means end up to .41 d away, and sigmas .009 d of their size, alike for d = 1e-9 and 1e-11.
ADAM = 2e-12
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
    for vector, scale, shift in ((ours.mu, 0.3, 0), (ours.rho, 1, -1), (ours.epsilon, 1, 0)):
        vector.copy_(scale * double((layout.n_weights,), source) + shift)
    ours.rho.clamp_(min=-4)  # sigma is .018 at least: autograd's terms w / (sigma^2 M), which cancel, stay below 50
    replay = document.replayed_noise(layout.named(ours.epsilon.clone()).values())
    plain = document.GaussianNetwork(layout.sizes, prior_std, detach_mu=detach_mu, sample_noise=replay)
    document.in_double_precision(plain)
    document.set_parameters(plain, layout.named(ours.mu).values(), layout.named(ours.rho).values())
    loss = ours.loss_and_gradient(x, y)
    expected, _ = document.classifier_elbo(plain, x, y, 468.75, 1)
    expected.backward()
    torch.testing.assert_close(loss, expected.detach(), rtol=DOUBLE, atol=DOUBLE)
    gradient = torch.cat(document.get_parameters(plain, gradients=True))
    torch.testing.assert_close(ours.gradient, gradient, rtol=DOUBLE, atol=DOUBLE)


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
    torch.testing.assert_close(ours, plain.detach(), rtol=DOUBLE, atol=DOUBLE)


@pytest.mark.parametrize(("prior_std", "expected"), [(6.0, 10_421.93), (SQRT_6, 9_153.89)])
def test_loss_before_any_training(prior_std, expected) -> None:
    # Each weight has log q - log p = log(s/sigma) - e^2/2 + w^2/(2 s^2) with sigma = log(1 + e^-6) = 0.00247569 and
    # E w^2 = 0.6^2/3 + sigma^2 = 0.120006. For s = 6: 1.791759 + 6.001238 - 0.5 + 0.001667 = 7.294664; times
    # 669706 / 468.75 is 10421.93. For s^2 = 6: 0.895880 + 6.001238 - 0.5 + 0.010001 = 6.407118, which gives 9153.89.
    sigma = math.log1p(math.exp(-6))
    terms = math.log(prior_std / sigma) - 0.5 + (0.6**2 / 3 + sigma**2) / (2 * prior_std**2)
    assert round(terms * 669_706 / 468.75, 2) == expected
    network = LinearBbb(prior_std=prior_std).network(MNIST, TraceContext(0))
    StepNoise(0).normals_(network.epsilon)
    assert len(network.mu) == 669_706  # 784*512 + 512 + 512*512 + 512 + 512*10 + 10
    nothing = network.loss_and_gradient(torch.empty(0, 784).double(), torch.empty(0, dtype=torch.int64))
    # tolerance: the noise terms e^2/2 have standard deviation sqrt(669706 / 2) / 468.75 = 1.234, and with those of w^2,
    # .107 sqrt(669706) / (12 468.75) = .016, it is 1.235. 5 is 4.05 of them, exceeded by one seed in 20,000.
    assert nothing.item() == pytest.approx(expected, rel=0, abs=5)


@pytest.mark.usefixtures("float64")  # for the document's learning rate
@pytest.mark.parametrize("detach_mu", [True, False])
def test_a_small_fit_is_the_documents_loop(detach_mu) -> None:
    # 70 rows in batches of 16: four and a short one of 6; M = 70/16
    task = Task("classification", n_outputs=10, n_train=70, n_inputs=12)
    train = in_double(rows(70, 12))
    approach = LinearBbb(epochs=3, batch_size=16, hidden_units=8, detach_mu=detach_mu)
    context = TraceContext(6)
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
    document.in_double_precision(plain)
    start = uniforms(layout.n_weights, 0.6, generator(6, "init"), torch.float64)
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
        assert trace == {"mnist/train60k/train_loss": close(sum(losses) / 5)}
    mu, rho = document.get_parameters(plain)
    torch.testing.assert_close(posterior.arrays()["mu"], mu, rtol=0, atol=ADAM)
    torch.testing.assert_close(posterior.arrays()["sigma"], sigma_of(rho), rtol=ADAM, atol=0)
    assert rho.mean() > -6 + 0.01  # 15 steps of up to 0.001 were taken


PUBLISHED = Path(__file__).parents[2] / "results" / "reference" / "published.csv"


def printed_values() -> dict[str, tuple[float, float]]:
    """Return metric -> (printed value, size of its last printed digit)."""
    with PUBLISHED.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["id"].startswith("feldman2018.worked_example.")]
    return {row["metric"]: (float(row["value"]), float(row["precision"])) for row in rows}


def test_every_printed_number_is_met_to_its_last_digit() -> None:
    printed = printed_values()
    ours = worked_example()
    assert set(ours) == set(printed)
    assert len(printed) == 9
    for metric, (value, last_digit) in printed.items():
        assert round(ours[metric] / last_digit) == round(value / last_digit), metric


def test_the_four_printed_digits_of_epsilon_are_not_enough() -> None:
    # d(rho grad)/d(epsilon) is about 100, so that rounding epsilon by 3.45e-5 moves it by more than 0.001
    assert abs(worked_example(1.9070)["rho_grad"] - printed_values()["rho_grad"][0]) > 0.001


@given(st.floats(-3, 3, width=32))
def test_gradients_are_the_closed_forms(epsilon: float) -> None:
    # w = mu + s e, s = log(1 + e^2) = 2.126928. L = -log s - e^2/2 + w^2/2 + (3 - 2 w)^2 / (2 * 0.25) + constants, so
    # dL/dw = w - 8 (3 - 2 w) = 17 w - 24 = dL/dmu, and dL/drho = (e dL/dw - 1/s) / (1 + e^-2);
    # the last factor is 0.880797.
    ours = worked_example(epsilon)
    s, slope = math.log1p(math.exp(2)), 1 / (1 + math.exp(-2))
    w = 0.5 + s * epsilon
    of_mu = 17 * w - 24
    of_rho = (epsilon * of_mu - 1 / s) * slope
    # Each bound adds up what the roundings of single precision, u of a result, leave in the result.
    u = 1.001 * 2.0**-24  # and the products of two roundings
    # 1 + e^2 has a rounding of each of its terms and of the sum, .88 u + u; its logarithm, with its own, 4.1 u = 2 u s
    of_w = 3 * u * s * abs(epsilon) + u * abs(w)
    # products with 2 and quotients by 1/4 are exact; 3 - 2 w is rounded, and so is the difference
    bound = 17 * of_w + 8 * u * abs(3 - 2 * w) + u * abs(of_mu)
    # tolerance: `bound`
    assert abs(ours["mu_grad"] - of_mu) <= bound
    top = abs(epsilon) * bound + u * abs(epsilon * of_mu) + 3 * u / s + u * abs(epsilon * of_mu - 1 / s)
    # tolerance: `top`, then 1 + e^-2 (a rounding of a term and of the sum) and the quotient
    assert abs(ours["rho_grad"] - of_rho) <= slope * top + 3 * u * abs(of_rho)
    step = 0.01 * ours["rho_grad"]
    # tolerance: roundings of the number 0.01, of the product and of the difference
    assert abs(ours["new_rho"] - (2 - step)) <= 2 * u * abs(step) + u * abs(2 - step)
