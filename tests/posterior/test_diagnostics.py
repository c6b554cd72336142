"""Split R-hat and effective size: worked numbers, plain loops, and an autoregressive process, whose size is known."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.posterior.diagnostics import effective_size, split_r_hat
from tests.close import close


def ar1(rho, chains, n, numbers, seed):
    """Draws of x_t = rho x_(t-1) + noise, stationary, [C, n, numbers]."""
    source = np.random.default_rng(seed)
    x = source.standard_normal((chains, n, numbers))
    for t in range(1, n):
        x[:, t] = rho * x[:, t - 1] + math.sqrt(1 - rho**2) * x[:, t]
    return torch.from_numpy(x)


def test_r_hat_of_worked_numbers():
    """Halves have the means 1, 1, 5, 5 and the variance 2: all together 2 / 2 + 16 / 3."""
    values = torch.tensor([[0.0, 2.0, 0.0, 2.0], [4.0, 6.0, 4.0, 6.0]])
    assert split_r_hat(values).item() == close(math.sqrt((1 + 16 / 3) / 2))


def test_a_drift_within_one_chain_is_seen():
    drifting = ar1(0.0, 1, 400, 1, 0) + torch.linspace(-2, 2, 400)[None, :, None]
    assert split_r_hat(drifting).item() > 1.2 > split_r_hat(ar1(0.0, 1, 400, 1, 0)).item()


def test_constant_numbers():
    never, by_chain = torch.full((2, 10), 0.1), torch.tensor([[0.0], [1.0]]).expand(2, 10)
    assert split_r_hat(torch.stack([never, by_chain], 2)).tolist() == [1.0, math.inf]
    assert effective_size(never).item() == 20


def plain(values):
    """R-hat and size of one number, values [C, n], by loops over the definitions."""
    n = len(values[0]) // 2
    halves = [half for chain in values for half in (chain[:n], chain[len(chain) - n :])]
    within = sum(half.var(ddof=1) for half in halves) / len(halves)
    together = (n - 1) / n * within + np.var([half.mean() for half in halves], ddof=1)
    correlation = [1.0]
    for lag in range(1, n):
        product = [sum((half[:-lag] - half.mean()) * (half[lag:] - half.mean())) / (n - 1) for half in halves]
        correlation.append(1 - (within - sum(product) / len(halves)) / together)
    total, lowest = 0.0, math.inf
    for first in range(0, n - 1, 2):
        pair = correlation[first] + correlation[first + 1]
        if pair <= 0:
            break
        lowest = min(lowest, pair)
        total += lowest
    size = len(halves) * n
    return math.sqrt(together / within), size / max(2 * total - 1, 1 / math.log10(size))


@given(
    rho=st.floats(-0.95, 0.95),
    chains=st.integers(1, 5),
    n=st.integers(4, 40),
    shift=st.floats(-3, 3),
    seed=st.integers(0, 99),
)
def test_both_are_those_of_plain_loops(rho, chains, n, shift, seed):
    values = ar1(rho, chains, n, 3, seed)
    values[0] += shift
    found = [plain(values[..., number].numpy()) for number in range(3)]
    assert split_r_hat(values).tolist() == close([each[0] for each in found])
    assert effective_size(values).tolist() == close([each[1] for each in found])


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.5, 0.9])
def test_the_size_of_an_autoregressive_process(rho):
    """It is n (1 - rho) / (1 + rho)."""
    chains, n = 4, 5000
    found = effective_size(ar1(rho, chains, n, 50, 1)) / (chains * n)
    # Geyer's sum ends where correlations are those of noise, about N^-1/2.
    lag = 1 if rho == 0 else math.log(chains * n) / (-2 * math.log(abs(rho)))
    error = 5 * math.sqrt(2 * (2 * lag + 1) / (chains * n))
    expected = (1 - rho) / (1 + rho)
    # tolerance: 5 errors; summed up to lag M, the time has the relative one sqrt(2 (2 M + 1) / N) (Sokal 1997, 3.19)
    assert (found / expected - 1).abs().max() < error


def test_few_numbers_at_a_time_are_all_of_them(monkeypatch):
    values = ar1(0.5, 2, 20, 12, 2)
    whole = split_r_hat(values), effective_size(values)
    monkeypatch.setattr("bench.posterior.diagnostics.NUMBERS", 5)
    assert split_r_hat(values.view(2, 20, 3, 4)).flatten().tolist() == close(whole[0].tolist())
    assert effective_size(values.view(2, 20, 3, 4)).flatten().tolist() == close(whole[1].tolist())


def test_too_few_draws_are_refused():
    with pytest.raises(ValueError, match="a chain has 3 draws; at least 4 are judged"):
        split_r_hat(torch.zeros(2, 3))
