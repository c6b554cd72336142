"""The KL has two parts, the entropy and the prior's pull: which of them is wrong, and does the advice say so?"""

import math

import pytest
import torch
from torch.distributions import Normal

from elbo_audit.kl_weight import Pulls, TensorWeight
from elbo_audit.least_squares import MeanOfDraws
from elbo_audit.patterns import Setting, advice
from tests.elbo_audit.models import PRIOR, STEPS, Model, Single, audit, elbo_of, outcomes


def of_parts(net, entropy, pull):
    """Return a loss with weights of its own for -sum log sigma and for sum (sigma^2 + mu^2) / 2."""

    def loss(x, y):
        sigma = net.transform(net.weight_rho)
        kl = -entropy * sigma.log().sum() + pull * (sigma**2 + net.weight_mu**2).sum() / 2
        return net.nll(x, y) + kl / STEPS

    return loss


@pytest.mark.parametrize(("entropy", "factor"), [(2.0, "0.5"), (0.5, "2"), (3.0, "0.3333")])
def test_an_entropy_that_counts_otherwise_than_the_prior_is_named(entropy, factor):
    # -log sigma^2 + (sigma^2 + mu^2) / 2 has the entropy twice: half of the KL would have half of the pull
    net = Single()
    finding = audit(net, of_parts(net, entropy, 1.0), prior_std=1.0).of("kl-scale")
    assert finding.outcome == "fails"
    assert f"multiply the entropy by {factor}; no factor of the whole KL mends it" in finding.detail
    assert finding.advice.part == "entropy"
    report = audit(net, of_parts(net, entropy, 1.0), prior_std=1.0)
    assert report.of("variance-as-std").outcome == "passes"  # the pull is that of the prior that is meant


def near_prior(report, std):
    """Return whether the measured prior is as near as its error says."""
    measured = report.of("variance-as-std").measured
    # tolerance: three standard errors, which rounding of float32 gives here
    return abs(measured["prior_std"] - std) <= 3 * measured["standard error"]


@pytest.mark.parametrize("std", [1.0, 0.3])
@pytest.mark.parametrize(("entropy", "factor"), [(2.0, "0.5"), (0.5, "2")])
def test_log_sigma_for_log_sigma_squared_shows_by_the_priors_digits(entropy, factor, std):
    net = Single()
    report = audit(net, of_parts(net, entropy, std**-2))
    finding = report.of("kl-scale")
    assert finding.outcome == "fails"
    assert finding.advice.part == "entropy"
    assert f"the prior's pull once if its standard deviation is {std:g}" in finding.detail
    assert f"multiply the entropy by {factor}; if {std * entropy**0.5:.3g} is meant" in finding.detail
    assert near_prior(report, std)


@pytest.mark.parametrize("std", [1.0, 0.3])
@pytest.mark.parametrize("times", [2.0, 0.5])
def test_a_whole_kl_that_counts_half_or_twice_is_no_wrong_entropy(times, std):
    net = Single()
    report = audit(net, of_parts(net, times, times * std**-2))
    assert report.of("kl-scale").advice.part == "KL"
    assert near_prior(report, std)


def test_with_the_prior_wrong_as_well_each_is_said():
    # entropy twice, and a pull of four: the KL counts twice, of a prior of variance 2 / 4
    net = Single()
    report = audit(net, of_parts(net, 2.0, 4.0), prior_std=1.0)
    assert report.of("kl-scale").advice.part == "KL"
    # tolerance: rounding of float32 leaves 1e-7 of a gradient that is 500 times the KL's, and so 1e-4 of the KL's
    assert report.numbers["prior_std"] == pytest.approx(math.sqrt(0.5), rel=1e-3)
    assert outcomes(report)["variance-as-std"] == "fails"


def of_pulls(means, scales):
    """Return the terms of a KL whose prior pulls the means and the sigmas so many times."""
    return lambda mu, sigma: (-sigma.log() + (scales * sigma**2 + means * mu**2) / 2).sum()


@pytest.mark.parametrize("raw", [-2.0, 0.5])
@pytest.mark.parametrize("times", [1.0, 3.0])
@pytest.mark.parametrize("meant", [1.0, None])
@pytest.mark.parametrize(
    ("means", "scales", "cause", "words"),
    [
        (0.0, 1.0, "prior", "of the prior, but no mean^2 / 2"),
        (-1.0, 1.0, "sign", "pushes the means away from zero"),
        (-1.0, -1.0, "sign", "pushes the means away from zero"),
    ],
)
def test_a_prior_that_does_not_pull_the_means_is_named(means, scales, cause, words, meant, times, raw):
    net, kl = Single(start=raw), of_pulls(means, scales)

    def loss(x, y):
        return net.nll(x, y) + times * kl(net.weight_mu, net.transform(net.weight_rho)) / STEPS

    report = audit(net, loss, nll=net.nll, prior_std=meant)
    finding = report.of("variance-as-std")
    assert finding.outcome == "fails", str(report)
    assert finding.advice[:2] == (cause, "prior")
    assert words in finding.detail
    # tolerance: float32 leaves 1e-4 of the KL's gradient, beside a likelihood's that is hundreds of times as large
    assert report.numbers["kl_per_epoch"] == pytest.approx(times, rel=1e-2)


@pytest.mark.parametrize(
    "prior",
    [None, lambda net, w: Normal(0.0, 30.0).log_prob(w), lambda net, w: -3 * torch.log1p(w**2)],
    ids=["unit", "wide", "heavy tails"],
)
def test_a_prior_that_pulls_weakly_or_by_no_square_is_not_called_missing(prior):
    net = Single(prior)
    report = audit(net, elbo_of(net), nll=net.nll, draws=16)
    assert report.ok, str(report)


@pytest.mark.parametrize("meant", [1.0, None])
def test_an_entropy_of_the_wrong_sign_is_no_kl_of_the_wrong_sign(meant):
    net = Single()
    report = audit(net, of_parts(net, -1.0, 1.0), prior_std=meant)
    assert [(entry["rule"], entry["part"], entry["multiply"]) for entry in report.advice] == [
        ("kl-sign", "entropy", {"all": -1.0})
    ]


@pytest.mark.parametrize("draws", [8, 32])
def test_a_prior_that_may_be_no_gaussian_is_not_blamed_on_the_draws_alone(draws):
    net = Single(mixture(False))
    report = audit(net, elbo_of(net), nll=net.nll, draws=draws)
    assert report.ok
    assert "give" in str(report).splitlines()[0]
    assert "kl=" in str(report).splitlines()[0]


@pytest.mark.parametrize("meant", [PRIOR, None])
@pytest.mark.parametrize("absent", ["first", "second"])
def test_one_layer_without_its_entropy_is_no_layer_without_a_kl(absent, meant):
    model = Model()

    def loss(x, y):
        kl = 0.0
        for name in ("first", "second"):
            layer = getattr(model, name)
            whole = layer.kl() + (layer.sigma().log().sum() if name == absent else 0.0)
            kl = kl + whole
        return model.nll(x, y) + kl / STEPS

    finding = audit(model, loss, prior_std=meant).of("kl-scale")
    assert finding.outcome == "fails"
    assert f"sum of log sigma, of {absent}.weight_mu, {absent}.weight_rho is missing" in finding.detail
    assert "add it" not in finding.detail
    assert list(finding.advice.add) == [f"{absent}.weight_mu, {absent}.weight_rho"]
    # The entropy is to count once, B / N in each step.
    # tolerance: the weight of the likelihood is fitted to losses of float32
    assert list(finding.advice.add.values()) == pytest.approx([1 / STEPS], rel=1e-3)


@pytest.mark.parametrize("factors", [None, []], ids=["names", "no factors"])
@pytest.mark.parametrize("std", [0.3, 3.0])
def test_another_prior_than_that_of_a_given_kl(std, factors):
    # kl= has a prior of 1: the means are pulled 1 / std^2 times, so that no one factor fits them and the scales
    net = Single()
    options = {} if factors is None else {"factors": factors}
    report = audit(net, of_parts(net, 1.0, std**-2), kl=net.analytic, **options)
    assert report.of("kl-scale").outcome == "passes"
    finding = report.of("variance-as-std")
    assert finding.outcome == "fails"
    assert f"another prior: the prior's standard deviation is {std:g} times that of kl=" in finding.detail
    assert "no factor of the KL mends it" in finding.detail
    assert finding.advice == ("prior", "prior", {}, {}, ())


def mixture(added):
    """Return log p of a mixture of N(0, 1) and N(0, .1^2); `added`: the share is added instead of multiplied."""

    def log_p(net, w):
        parts = [Normal(0.0, std).log_prob(w).exp() for std in (1.0, 0.1)]
        return torch.log(sum(0.5 + part if added else 0.5 * part for part in parts))

    return log_p


@pytest.mark.parametrize("added", [True, False])
def test_a_drawn_kl_of_another_mixture(added):
    # As one direction, the wrong prior counted 1.13 times, surely. The entropy is in both, once.
    net, right = Single(mixture(added)), mixture(False)

    def kl():
        w = net.draw()
        return (Normal(net.weight_mu, net.sigma).log_prob(w) - right(net, w)).sum()

    report = audit(net, elbo_of(net), nll=net.nll, kl=kl, draws=32)
    assert report.of("kl-scale").outcome == "passes"
    assert report.of("variance-as-std").outcome == ("fails" if added else "not measured")
    assert report.ok is not added


def reverse(net, sigma, prior=1.0):
    """Return KL(p || q) of p = N(0, prior^2)."""
    return (sigma.log() + (prior**2 + net.weight_mu**2) / (2 * sigma**2)).sum()


@pytest.mark.parametrize(
    "other",
    [
        reverse,
        lambda net, sigma: (sigma**2 + (net.weight_mu - 1) ** 2).sum() / 2 - sigma.log().sum(),  # a prior around 1
        lambda net, sigma: net.weight_mu.abs().sum() - sigma.log().sum() + sigma.sum(),  # of no Gaussian
    ],
    ids=["reverse", "another mean", "absolute values"],
)
@pytest.mark.parametrize("factors", [None, []], ids=["names", "no factors"])
def test_another_kl_than_the_given_one_has_no_factor(other, factors):
    net = Single()
    options = {} if factors is None else {"factors": factors}

    def loss(x, y):
        return net.nll(x, y) + other(net, net.transform(net.weight_rho)) / STEPS

    finding = audit(net, loss, kl=net.analytic, **options).of("kl-scale")
    assert finding.outcome == "fails"
    assert finding.detail.startswith("another KL")
    assert finding.detail.endswith("no factor mends it")
    assert finding.advice == ("another KL", "KL", {}, {}, ())


@pytest.mark.parametrize("prior", [1.0, 0.3])
@pytest.mark.parametrize("raw", [-2.0, 0.5])
@pytest.mark.parametrize("gives_kl", [True, False])
def test_the_reverse_kl_is_named(gives_kl, raw, prior):
    net = Single(start=raw)

    def kl():
        return reverse(net, net.transform(net.weight_rho), prior)

    report = audit(net, lambda x, y: net.nll(x, y) + kl() / STEPS, nll=net.nll, **({"kl": kl} if gives_kl else {}))
    finding = report.of("kl-scale")
    assert finding.outcome == "fails", str(report)
    assert "is KL(p || q) of prior p and posterior q: swap them; no factor mends it" in finding.detail
    assert finding.advice.cause == "another KL"


@pytest.mark.parametrize(
    ("std", "meant", "outcome"), [(0.1, 0.1, "passes"), (0.316, 0.1, "fails"), (2.0, 4.0, "fails")]
)
@pytest.mark.parametrize("times", [1.0, 5.0])
def test_the_prior_of_a_given_kl_is_compared_with_the_one_that_is_meant(std, meant, outcome, times):
    net = Single()

    def kl():
        sigma = net.transform(net.weight_rho)
        return ((sigma**2 + net.weight_mu**2) / (2 * std**2) - sigma.log()).sum()

    report = audit(net, lambda x, y: net.nll(x, y) + times * kl() / STEPS, nll=net.nll, kl=kl, prior_std=meant)
    finding = report.of("variance-as-std")
    assert finding.outcome == outcome
    assert f"standard deviation is {std:g} in kl=" in finding.detail
    assert report.of("kl-scale").outcome == ("passes" if times == 1 else "fails")


def words_of(weight, data_weight=1.0, error=1e-6, n_weights=0):
    tensors = [TensorWeight("a", n_weights, MeanOfDraws(weight, error))] if n_weights else []
    return advice(tensors, TensorWeight("all", n_weights, MeanOfDraws(weight, error)), Setting(1000, 50, data_weight))[
        0
    ]


@pytest.mark.parametrize(
    ("weight", "data_weight", "words"),
    [
        # N = 1000, B = 50, 20 batches
        (0.05, 1.0, "divided by the number of batches twice: divide once"),
        (0.0767, 1.0, "multiply the KL by 13.04"),  # within a tenth of no list, and far outside its error of .05
        (0.0525, 1.0, "multiply the KL by 19.05"),  # 5 % off, where the error is 1e-6
        (20.0, 1.0, "every batch pays the whole KL"),
        (20.0, 0.02, "divided by the batch size: the loss is a mean"),
        (20.0, 7.0, "multiply the KL by 0.05"),  # neither a sum nor a mean: no list
        (1000.0, 0.02, "N is forgotten"),
        (1000.0, 1.0, "multiply the KL by 0.001"),  # a list for means, and the loss is a sum
    ],
)
def test_a_mistake_is_named_only_if_it_fits_within_the_error(weight, data_weight, words):
    assert words in words_of(weight, data_weight)


def test_a_vague_weight_names_no_mistake():
    # .06 +- .02: both 1/20 (batches twice) and 1/13 lie in its interval
    assert "multiply the KL by 16.67" in words_of(0.06, error=0.01)
    assert "there were 16,667 training rows" in words_of(0.06, error=0.01)


def test_a_pull_of_means_that_no_parameter_moves_is_not_judged():
    """As of a posterior and a prior that learn one mean together."""
    entropy, scales = MeanOfDraws(1.0, 0.01), MeanOfDraws(1.0, 0.01)
    assert Pulls(entropy, MeanOfDraws(0.0, 0.0), scales).odd(1.0) == ""
    assert Pulls(entropy, MeanOfDraws(0.0, 0.001), scales).odd(1.0) == "missing"
