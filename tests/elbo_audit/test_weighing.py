"""Over how many draws is the KL's weight averaged, and are weights that differ between batches told from noise?"""

import numpy as np
import pytest
import torch
from torch.nn import functional

from elbo_audit.least_squares import GradientFit, over_batches
from elbo_audit.likelihood import data_weight
from elbo_audit.names import gaussians
from elbo_audit.objective import Case
from elbo_audit.torch_objective import TorchObjective
from elbo_audit.weighing import measure

ROWS, N = 10, 1000


def weight_of_three(sampled):
    """Audit a right objective of three weights, q = N(mu, softplus(rho)^2) and p = N(0, 1); return the KL's weight."""
    values = {
        "w_mu": torch.tensor([0.3, -0.2, 0.5], dtype=torch.float64, requires_grad=True),
        "w_rho": torch.tensor([-1.0, -1.5, -2.0], dtype=torch.float64, requires_grad=True),
    }

    def parts(x, y):
        sigma = functional.softplus(values["w_rho"])
        noise = torch.randn(3, dtype=torch.float64)
        w = values["w_mu"] + sigma * noise
        drawn = w.square().sum() / 2 - noise.square().sum() / 2
        known = (sigma.square() + values["w_mu"].square()).sum() / 2
        return (x @ w - y).square().sum() / 2, (drawn if sampled else known) - sigma.log().sum()

    def loss(x, y):
        nll, kl = parts(x, y)
        return nll + kl * ROWS / N

    source = torch.Generator().manual_seed(0)
    rows = [torch.randn(ROWS, 4, generator=source, dtype=torch.float64) for _ in range(3)]
    batches = [(part[:, :3], part[:, 3]) for part in rows]
    objective = TorchObjective(loss, values.items(), batches, lambda x, y: parts(x, y)[0])
    pairs = gaussians(objective.parameters, objective.shapes)
    case = Case(objective, [objective.group(pair) for pair in pairs], N, None, 8)
    return measure(case, data_weight(objective, 8)).tensors[0].per_epoch


def test_few_weights_with_noise_get_more_draws():
    # 250 numbers are 84 draws of three weights: 76 more than 8, and so 78, in which each of three batches has as many
    found = weight_of_three(sampled=True)
    assert found.freedom + 1 == 8 + 78
    assert abs(found.value - 1) < 4 * found.error


def test_a_kl_without_noise_gets_no_more_draws():
    found = weight_of_three(sampled=False)
    assert found.freedom + 1 == 8
    assert found.value == pytest.approx(1, abs=1e-9)


def of_two_batches(draws):
    column = np.array(draws)[:, None]
    return over_batches(GradientFit(column, np.zeros(1), [], []), 1.0, 2)


def test_the_shares_of_batches_are_no_noise():
    # batch 1: 3, 3.2, 3, 3.2; batch 2: 1, 1.2, 1, 1.2. Within: 8 x .1^2 / 6 = .0133; error sqrt(.0133 / 4 x 2) / 2
    weight, by_batch = of_two_batches([3.0, 1.0, 3.2, 1.2, 3.0, 1.0, 3.2, 1.2])
    assert by_batch == pytest.approx([3.1, 1.1])
    assert weight.value == pytest.approx(2.1)
    assert weight.error == pytest.approx((0.08 / 6 / 2) ** 0.5 / 2)
    weight, by_batch = of_two_batches([3.0, 3.1, 3.2, 3.1, 3.1, 3.2, 3.1, 3.0])  # alike: the error is that of all draws
    assert not by_batch
    assert weight.freedom == 7
