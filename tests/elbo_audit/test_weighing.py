"""How the KL is weighed: over how many draws and batches, without nll=; the least squares for gradients behind it."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

import elbo_audit
from elbo_audit.least_squares import GradientFit, common, fit, fit_drawn, over_batches, students_t
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


@pytest.mark.parametrize(
    ("level", "freedom", "t"),
    [  # 1: tan(.475 pi). 2: .95 sqrt(2 / (1 - .95^2)). The others: Abramowitz and Stegun, table 26.10
        (0.95, 1, math.tan(0.475 * math.pi)),
        (0.95, 2, 0.95 * math.sqrt(2 / (1 - 0.95**2))),
        (0.95, 3, 3.182),
        (0.99, 7, 3.499),
        (0.95, 30, 2.042),
        (0.95, 120, 1.980),
        (0.95, math.inf, 1.960),
    ],
)
def test_intervals_are_those_of_students_t(level, freedom, t):
    # tolerance: the table has three decimals
    assert students_t(level, freedom) == pytest.approx(t, abs=5e-4)


def gradients(seed, n_draws, n=12, noise=0.5):
    """b (1, .., 1) + c (1, .., n) with noise, b = 2 and c = 1: its directions and its draws."""
    columns = [{"w": np.ones(n)}, {"w": np.arange(1.0, n + 1)}]
    source = np.random.default_rng(seed)
    whole = 2 * columns[0]["w"] + columns[1]["w"]
    draws = [{"w": whole + noise * source.standard_normal(n)} for _ in range(n_draws)]
    return draws, columns


def test_the_errors_of_a_fit_are_as_large_as_they_say():
    # A t of 7 degrees of freedom has variance 7/5; of 300 the mean square has standard error sqrt(2.6/300) 7/5 = .13
    # (kurtosis 5): three of them are .4.
    ratios, alone = [], []
    for seed in range(300):
        found = fit(*gradients(seed, 8))
        for kept, estimate, true in ((alone, found.coefficient(1), 1.0), (ratios, found.ratio(1, 0), 0.5)):
            kept.append((estimate.value - true) / estimate.error)
    for kept in (alone, ratios):
        assert np.square(kept).mean() == pytest.approx(7 / 5, abs=0.4)


def test_an_error_that_all_draws_share_counts():
    # The NLL's weight is off alike in every draw: averaging does not take it away.
    draws, columns = gradients(0, 8)
    doubt = {"w": 3 * columns[1]["w"]}
    assert fit(draws, columns, doubt).coefficient(1).error == pytest.approx(3, rel=0.01)
    assert fit(draws, columns).coefficient(1).error < 0.1


def test_what_no_direction_explains_is_seen_beyond_the_noise():
    # w^2 beside 1 and w: after the fit (1, .., 12)^2 leaves 12 numbers of variance (n^2 - 1)(n^2 - 4) / 180 = 111
    draws, columns = gradients(0, 8)
    assert fit(draws, columns).missed("w", 0.0) == 0.0
    bent = [{"w": draw["w"] + 0.2 * columns[1]["w"] ** 2} for draw in draws]
    found = fit(bent, columns)
    rest = 0.2 * math.sqrt(12 * 143 * 140 / 180)  # 7.3
    explained = found.draws.mean(0) @ np.stack([column["w"] for column in columns])
    assert found.missed("w", 0.0) == pytest.approx(rest / math.hypot(rest, float(np.linalg.norm(explained))), rel=0.1)
    assert found.missed("w", 10.0) == 0.0  # as rounding may leave


def test_the_noise_of_one_tensor_is_no_misfit_of_another():
    # The noise of one tensor makes an error in c, which leaves a residual in the exact tensor. That is no misfit.
    # At 3 jackknife errors of 8 draws one right fit in 1,000 is marked: 3 or more of 200 have probability .001.
    ones, steps = np.ones(12), np.arange(1.0, 13)
    columns = [{"noisy": 0 * ones, "exact": ones}, {"noisy": steps, "exact": 0.3 * steps}]
    marked = 0
    for seed in range(200):
        source = np.random.default_rng(seed)
        noise = [source.standard_normal(12) for _ in range(8)]
        found = fit([{"noisy": steps + 60 * part, "exact": 20 * ones + 0.3 * steps} for part in noise], columns)
        marked += found.missed("exact", 1e-9) > 0
    assert marked <= 2


def test_what_draws_have_in_common_is_unbiased():
    # |(3, 4)|^2 = 25 however large the noise is; the mean of 400 estimates has standard error sd / 20
    source = np.random.default_rng(0)
    found = [common(np.array([3.0, 4.0]) + 5 * source.standard_normal((8, 2))).value for _ in range(400)]
    values = np.array(found)
    assert abs(float(values.mean()) - 25) < 4 * float(values.std(ddof=1)) / 20


def test_a_drawn_direction_loses_nothing_to_its_noise():
    # Signal 1 and noise 3 in 400 numbers: least squares against one draw counts a target of 2 about 2 / (1 + 9) times.
    source = np.random.default_rng(0)
    columns = [{"w": 1 + 3 * source.standard_normal(400)} for _ in range(32)]
    exact = fit_drawn([{"w": 2 * column["w"]} for column in columns], [columns]).coefficient(0)
    assert exact.value == pytest.approx(2, rel=1e-9)
    assert exact.error < 1e-9  # target and direction have the same noise
    found = fit_drawn([{"w": np.full(400, 2.0)}] * 32, [columns]).coefficient(0)
    assert abs(found.value - 2) < 3 * found.error
    assert found.error < 0.1
