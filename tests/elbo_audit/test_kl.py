"""How often does the KL count, with which sign, and how wide is the prior?"""

import math

import pytest
import torch
from torch import nn
from torch.distributions import Normal
from torch.nn import functional

import elbo_audit
from elbo_audit.audits import DRAWS
from elbo_audit.errors import AuditError
from elbo_audit.factors import Factor
from elbo_audit.least_squares import MeanOfDraws
from elbo_audit.prior import judge_width
from tests.elbo_audit.models import (
    BATCH,
    N_TRAIN,
    PRIOR,
    STEPS,
    Single,
    audit,
    batches,
    elbo_of,
    outcomes,
    sampled_loss,
)


def test_the_right_objective_is_clean(model):
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    generator = torch.get_rng_state()
    report = audit(model, model.elbo, prior_std=PRIOR)
    assert report.ok
    assert report.numbers["kl_per_epoch"] == pytest.approx(1, rel=1e-3)
    assert report.numbers["prior_std"] == pytest.approx(PRIOR, rel=1e-3)
    assert report.numbers["data_weight"] == pytest.approx(1, rel=1e-4)
    assert torch.equal(torch.get_rng_state(), generator)
    assert all(torch.equal(before[name], value) for name, value in model.named_parameters())


def test_a_mean_over_rows_needs_the_nll_and_then_is_measured(model):
    # mean NLL + KL / N: a = 1/B, b = 1/N, so M b / a = (N/B)(1/N) B = 1
    def mean_loss(x, y):
        return model.nll(x, y) / len(x) + model.kl() / N_TRAIN

    report = audit(model, mean_loss)
    assert report.numbers["kl_per_epoch"] == pytest.approx(1, rel=0.01)
    assert report.numbers["data_weight"] == pytest.approx(1 / BATCH, rel=1e-3)
    blind = audit(model, mean_loss, nll=None)
    assert blind.of("kl-scale").outcome == "not measured"
    assert "give nll=" in blind.of("kl-scale").detail


def test_a_sum_is_measured_without_the_nll(model):
    report = audit(model, lambda x, y: model.nll(x, y) + model.kl(), nll=None)
    assert report.numbers["kl_per_epoch"] == pytest.approx(STEPS, rel=0.02)


@pytest.mark.parametrize("weight", [1.0, 0.88])
@pytest.mark.parametrize(("draws", "rel"), [(None, 1e-3), (32, 0.1)], ids=["exact", "sampled"])
def test_priors_of_unlike_width_do_not_move_the_weight(model, weight, draws, rel):
    # A fit with one prior for both layers gave 1.14 for the right weight, and 1.00 for .88.
    priors = {model.first: 0.5, model.second: 1.0}
    with torch.no_grad():
        model.first.weight_rho.fill_(-5.0)
        model.second.weight_rho.fill_(0.0)

    def sampled(layer, w):
        return (Normal(layer.weight_mu, layer.sigma()).log_prob(w) - Normal(0.0, priors[layer]).log_prob(w)).sum()

    def loss(x, y):
        first, second = model.first.draw(), model.second.draw()
        drawn = sampled(model.first, first) + sampled(model.second, second)
        exact = sum(layer.kl(prior) for layer, prior in priors.items())
        nll = -Normal(torch.tanh(x @ first) @ second, 1.0).log_prob(y).sum()
        return nll + weight * (drawn if draws else exact) / STEPS

    report = audit(model, loss, draws=draws or DRAWS)
    finding = report.of("kl-scale")
    assert finding.outcome == ("passes" if weight == 1 else "fails")
    assert abs(finding.measured["kl_per_epoch"] - weight) < 4 * finding.measured["standard error"] + rel * weight


@pytest.mark.parametrize(
    ("loss", "wanted", "words"),
    [
        (lambda m: lambda x, y: m.nll(x, y) - m.kl() / STEPS, {"kl-scale": "passes", "kl-sign": "fails"}, ""),
        # without a KL there is no sign and no prior
        (
            lambda m: m.nll,
            {"kl-scale": "fails"} | dict.fromkeys(("kl-sign", "variance-as-std"), "not measured"),
            "the KL is missing: add it to the loss",
        ),
        (lambda m: lambda x, y: m.nll(x, y) + m.first.kl() / STEPS, {"kl-scale": "fails"}, "second.weight_mu"),
    ],
    ids=["wrong sign", "no KL", "a layer left out"],
)
def test_a_kl_of_another_sign_and_a_missing_one(model, loss, wanted, words):
    report = audit(model, loss(model), prior_std=PRIOR)
    assert wanted.items() <= outcomes(report).items()
    assert words in report.of("kl-scale").detail
    if wanted["kl-scale"] == "passes":
        assert report.numbers["kl_per_epoch"] == pytest.approx(-1, rel=0.01)


def test_a_sampled_kl_is_measured_within_its_noise(model):
    report = audit(model, sampled_loss(model, detach=False), draws=64)
    assert report.numbers["kl_per_epoch"] == pytest.approx(1, abs=0.1)
    assert report.of("detached-gradient").outcome == "passes"


def test_library_kl(model):
    report = audit(model, lambda x, y: model.nll(x, y) + 5 * model.kl() / STEPS, kl=model.kl, factors=[])
    assert report.numbers["kl_per_epoch"] == pytest.approx(5, rel=1e-3)
    with pytest.raises(AuditError, match=r"kl\(\) returned float"):
        audit(model, model.nll, kl=lambda: 3.0)


def test_a_given_kl_that_the_loss_does_not_hold_is_not_judged():
    # The loss leaves out one weight of 35: the KL seemed to count .97 times, within 5 % of 1.
    net = Single()

    def part(n):
        mean, sigma = net.weight_mu.flatten()[:n], functional.softplus(net.weight_rho.flatten()[:n])
        return ((sigma**2 + mean**2) / 2 - sigma.log()).sum()

    for n, outcome in ((35, "passes"), (34, "not measured")):
        report = audit(net, lambda x, y, n=n: net.nll(x, y) + part(n) / STEPS, kl=net.analytic, factors=[])
        assert report.of("kl-scale").outcome == outcome
    assert "is not that of kl=" in report.of("kl-scale").detail


NOT_GAUSSIAN = {
    "scale mixture": (lambda net, w: torch.stack([Normal(0, s).log_prob(w) for s in (1.0, 0.05)]).logsumexp(0), {}),
    "Laplace": (lambda net, w: torch.distributions.Laplace(0.0, 1.0).log_prob(w), {"start": 1.0}),
    "Student's t": (lambda net, w: torch.distributions.StudentT(2.0, 0.0, 0.1).log_prob(w), {"start": 0.0}),
    "another mean": (lambda net, w: Normal(0.5, 1.0).log_prob(w), {}),
    "another transform": (None, {"scale": "weight_sigma", "start": 0.1}),
}


@pytest.mark.parametrize("name", NOT_GAUSSIAN)
def test_a_kl_that_is_not_of_gaussians_around_zero_is_not_judged(name):
    # All are right objectives. Fitted as if they were of Gaussians, they counted .3 to 1.2 times, surely.
    prior, options = NOT_GAUSSIAN[name]
    net = Single(prior, **options)
    report = audit(net, elbo_of(net), nll=net.nll, draws=32)
    assert report.ok
    for rule in ("kl-scale", "kl-sign", "variance-as-std"):
        assert report.of(rule).outcome == "not measured", report.of(rule).detail
    assert "give kl=, or factors=" in report.of("kl-scale").detail
    assert "kl_per_epoch" not in report.numbers


@pytest.mark.parametrize(
    ("decay", "smoothing", "message"),
    [(1.0, 0.0, "a further term"), (0.0, 0.2, "another likelihood")],  # neither is "too noisy"
    ids=["weight decay", "label smoothing"],
)
def test_what_is_no_kl_is_not_taken_for_one(decay, smoothing, message):
    # Beside a right KL: a pull on the means alone, and a part of the likelihood that is not proportional to it.
    net = Single()
    labels = {"label_smoothing": smoothing}

    def loss(x, y):
        w = net.draw()
        return net._nll(x, y, w, **labels) + net.analytic() / STEPS + decay * (net.weight_mu**2).sum()

    report = audit(net, loss, nll=net.nll)
    for rule in ("kl-scale", "kl-sign", "variance-as-std"):
        assert report.of(rule).outcome == "not measured"
        assert message in report.of(rule).detail


def test_a_kl_that_the_user_samples_is_measured_without_its_noise():
    # Wide noise in one draw of log q - log p: least squares against one such draw counts the KL too few times.
    net = Single(start=0.5)

    def exact(x, y):
        return net.nll(x, y) + net.analytic() / STEPS

    for loss, error in ((exact, 0.6), (elbo_of(net), 1e-3)):  # the second has the noise of kl=
        report = audit(net, loss, nll=net.nll, kl=lambda: net.terms(*batches()[0])[1], draws=16, factors=[])
        found = report.of("kl-scale").measured
        assert found["standard error"] < error
        assert abs(found["kl_per_epoch"] - 1) < 4 * found["standard error"] + 1e-3


@pytest.mark.parametrize(("n_train", "times"), [(2 * BATCH + 32, 1.0), (2 * BATCH + 32, 2.0), (3 * BATCH - 32, 0.5)])
def test_an_epoch_may_end_with_a_short_batch(model, n_train, times):
    # 288 rows are 2.25 batches of 128, so that len(loader) is 3, and KL / 3 in each of them is one KL an epoch, though
    # it counts .75 times in 2.25 batches. Twice or half of it is no ELBO.
    report = elbo_audit.audit_torch(
        lambda x, y: model.nll(x, y) + times * model.kl() / 3,
        model.named_parameters(),
        batches(),
        n_train,
        nll=model.nll,
    )
    assert report.of("kl-scale").outcome == ("passes" if times == 1 else "fails")
    if times == 1:
        assert report.numbers["kl_per_epoch"] == pytest.approx(1, rel=0.01)
        assert "3 batches in an epoch, a short last one kept" in report.of("kl-scale").detail


def test_a_sigma_that_is_a_parameter_is_moved_within_what_it_may_be():
    # A shift that suits a softplus's argument would make .05 negative, and its logarithm no number.
    net = Single(scale="weight_sigma", start=0.05, transform=lambda raw: raw)
    report = audit(net, net.elbo, nll=net.nll)
    assert report.numbers["kl_per_epoch"] == pytest.approx(1, rel=1e-3)
    assert report.numbers["prior_std"] == pytest.approx(1, rel=0.01)


def test_weights_that_share_a_sigma_have_an_entropy_each():
    net = Single()
    net.weight_rho = nn.Parameter(torch.tensor(-2.0))

    def loss(x, y):
        sigma = functional.softplus(net.weight_rho)
        whole = (sigma**2 + net.weight_mu**2).sum() / 2 - sigma.log() * net.weight_mu.numel()
        return net.nll(x, y) + whole / STEPS

    both = [Factor("w", lambda: net.weight_mu, lambda: functional.softplus(net.weight_rho))]
    assert audit(net, loss, nll=net.nll, factors=both).numbers["kl_per_epoch"] == pytest.approx(1, rel=0.01)
    wrong = [Factor("w", lambda: net.weight_mu, lambda: functional.softplus(net.weight_rho) * torch.ones(3))]
    with pytest.raises(AuditError, match="give a std for each mean"):
        audit(net, loss, nll=net.nll, factors=wrong)


def test_a_variance_in_the_place_of_a_standard_deviation(model):
    report = audit(model, lambda x, y: model.nll(x, y) + model.kl(prior=6.0) / STEPS, prior_std=math.sqrt(6))
    finding = report.of("variance-as-std")
    assert finding.outcome == "fails"
    assert "whose square it is" in finding.detail
    assert "square root" in finding.remedy
    assert report.numbers["prior_std"] == pytest.approx(6, rel=0.02)


@pytest.mark.parametrize(("prior", "outcome"), [(PRIOR, "passes"), (1.0, "fails")])
@pytest.mark.parametrize("weights", [(1, 0), (0, 1), (3, 1)])
def test_a_prior_is_that_of_the_layers_with_a_kl(model, weights, prior, outcome):
    # A layer without a KL has no prior: together with it, the prior seemed wider than any.
    def loss(x, y):
        first, second = weights
        return model.nll(x, y) + (first * model.first.kl(prior) + second * model.second.kl(prior)) / STEPS

    report = audit(model, loss, prior_std=PRIOR)
    finding = report.of("variance-as-std")
    assert report.of("kl-scale").outcome == "fails"
    assert finding.outcome == outcome
    assert finding.detail.startswith("of second." if weights[0] == 0 else "of first.")
    assert report.numbers["prior_std"] == pytest.approx(prior, rel=0.02)


def test_a_prior_that_the_error_covers_is_no_other_prior():
    # 1.089 +- .04 is 2.2 errors off: within 5 % + 2 errors of 1; with an error of .005 it is not
    def prior(error, meant):  # d precision = 2 d std / std^3
        return judge_width(MeanOfDraws(1.089**-2, 2 * error * 1.089**-3), 0.1, meant)

    assert prior(0.04, 1.0).outcome == "passes"
    assert prior(0.005, 1.0).outcome == "fails"
    assert prior(0.04, 2.0).outcome == "fails"
    assert prior(0.005, 2.0).advised  # 1.089 is not the square of 2: nobody handed a variance over
    assert "is 1.089 (standard error 0.005); meant is 2" in prior(0.005, 2.0).detail


def test_a_prior_that_pulls_nothing_is_named(model):
    # The KL takes the means as constants, so that the prior does not pull them: its standard deviation would be 1e8.
    # In float32 the slope of the loss does not show this, because the KL's part of it is below rounding.
    def loss(x, y):
        whole = 0.0
        for layer in (model.first, model.second):
            sigma = layer.sigma()
            whole = whole + (-sigma.log() + (sigma**2 + layer.weight_mu.detach() ** 2) / (2 * PRIOR**2)).sum()
        return model.nll(x, y) + whole / STEPS

    for meant in (PRIOR, None):
        report = audit(model, loss, prior_std=meant)
        assert report.of("variance-as-std").outcome == "fails"
        assert "but no mean^2 / 2: it is left out, or detached" in report.of("variance-as-std").detail
        assert "prior_std" not in report.numbers
    model.double()
    three = [(x.double(), y.double()) for x, y in batches()]
    report = elbo_audit.audit_torch(loss, model.named_parameters(), three, N_TRAIN, nll=model.nll)
    assert report.of("detached-gradient").outcome == "fails"  # in float64 the slope tells, and stands alone
    assert report.of("variance-as-std").outcome == "not measured"
    assert not report.ok
