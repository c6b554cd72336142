"""How the KL is weighed: over how many draws and batches, and without nll=."""

import numpy as np
import pytest
import torch
from torch.nn import functional

import elbo_audit
from elbo_audit.least_squares import GradientFit, over_batches
from elbo_audit.likelihood import data_weight
from elbo_audit.names import gaussians
from elbo_audit.no_nll import counts_rows, seen_at_zero
from elbo_audit.objective import Case
from elbo_audit.torch_objective import TorchObjective
from elbo_audit.weighing import measure
from tests.elbo_audit.models import BATCH, N_TRAIN, PRIOR, STEPS, Model, audit, batches

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


FIRST = "first.weight_mu, first.weight_rho"


def scaled(model, of_data, of_kl):
    """Return a loss that weighs the summed NLL and the KL by functions of the rows."""
    return lambda x, y: of_data(len(x)) * model.nll(x, y) + of_kl(len(x)) * model.kl()


@pytest.mark.parametrize(
    ("data", "kl", "outcome", "words"),
    [
        # a mean over rows
        (lambda n: 1 / n, lambda n: 1 / N_TRAIN, "not measured", "counts 1 times in an epoch"),
        (lambda n: 1 / n, lambda n: 0.0, "fails", f"the KL of {FIRST}, second.weight_mu, second.weight_rho is missing"),
        (lambda n: 1 / n, lambda n: 1 / STEPS, "fails", "the KL is divided by the number of batches"),
        # a mean of squares beside noise of variance 4, which weighs the likelihood 8 times, and right
        (lambda n: 8 / n, lambda n: 8 / N_TRAIN, "not measured", "counts 8 times in an epoch"),
        # N is forgotten, or the loss is N times a mean and right: nobody can tell
        (lambda n: 1 / n, lambda n: 1.0, "not measured", "counts 60000 times in an epoch"),
        (lambda n: N_TRAIN / n, lambda n: 1.0, "not measured", "counts 60000 times in an epoch"),
        # a mean over rows and ten outputs, and right
        (lambda n: 0.1 / n, lambda n: 0.1 / N_TRAIN, "not measured", "counts 0.1 times in an epoch"),
        # a sum whose KL grows with the rows
        (lambda n: 1.0, lambda n: n / N_TRAIN, "not measured", "counts 1 times in an epoch"),
        (lambda n: 1.0, lambda n: n / BATCH, "fails", "every batch pays the whole KL"),
        (lambda n: 1.0, lambda n: 0.0, "fails", f"the KL of {FIRST}, second.weight_mu, second.weight_rho is missing"),
        # a sum whose KL does not
        (lambda n: 1.0, lambda n: 1 / STEPS, "passes", "counts 1 times in an epoch"),
        (lambda n: 1.0, lambda n: 1.0, "fails", "every batch pays the whole KL"),
    ],
)
def test_the_kl_without_nll(data, kl, outcome, words):
    model = Model().double()
    three = [(x.double(), y.double()) for x, y in batches()]
    loss = scaled(model, data, kl)
    report = elbo_audit.audit_torch(loss, model.named_parameters(), three, N_TRAIN)
    finding = report.of("kl-scale")
    assert finding.outcome == outcome, str(report)
    assert words in finding.detail.replace("6e+04", "60000"), str(report)
    assert report.judged is (outcome != "not measured")
    if outcome == "not measured":
        assert "give nll=" in str(report).splitlines()[0]


def test_where_zero_inputs_reach_every_weight_nothing_is_said_of_the_kl():
    model = Model()

    def nll(x, y):
        return model.nll(x + 1, y)

    for of_data, of_kl in ((1 / BATCH, 1.0), (1.0, 0.0), (1.0, BATCH / N_TRAIN)):
        grows = of_kl == BATCH / N_TRAIN

        def loss(x, y, of_data=of_data, of_kl=of_kl, grows=grows):
            return (of_data if of_data == 1 else 1 / len(x)) * nll(x, y) + (len(x) / N_TRAIN if grows else of_kl) * (
                model.kl()
            )

        report = audit(model, loss, nll=None)
        assert report.ok
        assert not report.judged
        assert "give nll=" in report.of("kl-scale").detail


def test_which_weights_zero_inputs_do_not_reach():
    model = Model()

    def case(loss):
        objective = TorchObjective(loss, model.named_parameters(), batches())
        pairs = [elbo_audit.Gaussian(f"{n}.weight_mu", f"{n}.weight_rho") for n in ("first", "second")]
        return Case(objective, [objective.group(pair) for pair in pairs], N_TRAIN, PRIOR, 8)

    mean, total = (case(scaled(model, of, lambda n: 1.0)) for of in (lambda n: 1 / n, lambda n: 1.0))
    assert not counts_rows(mean.objective)
    assert counts_rows(total.objective)
    # tanh(0) = 0: the second layer multiplies zeros too
    assert [group.name for group in seen_at_zero(mean, False)[0].groups] == [
        FIRST,
        "second.weight_mu, second.weight_rho",
    ]
    shifted = case(lambda x, y: functional.softplus(x @ model.first.draw()).sum() * model.second.draw().sum() + y.sum())
    assert seen_at_zero(shifted, True) is not None  # without a target, nothing shows which gradient is of data
    bent = case(lambda x, y: ((torch.cos(x @ model.first.draw()) @ model.second.draw() - y) ** 2).sum())
    assert [group.name for group in seen_at_zero(bent, True)[0].groups] == [FIRST]
