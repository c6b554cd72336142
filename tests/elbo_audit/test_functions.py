"""The audit of a function that returns a loss and its gradient: with NumPy alone, and its arguments."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest

import elbo_audit
from elbo_audit.errors import AuditError
from elbo_audit.factors import TRANSFORMS, Gaussian, Transform
from elbo_audit.functions import FunctionObjective
from tests.elbo_audit import quadratic
from tests.elbo_audit.quadratic import N_TRAIN, batches, kl, loss_with, nll, parameters

# tolerance: the KL's gradient is a thousandth of the loss's or more, so that rounding of 1e-16 leaves 1e-13 of it; the
# two directions of the fit, which lie 10 degrees apart or more, make that at most 1e-12
EXACT = 1e-9


def audit(loss=None, values=None, given=None, n_train=N_TRAIN, **options):
    given = batches() if given is None else given
    values = parameters() if values is None else values
    return elbo_audit.audit(loss or loss_with(1.0), values, given, n_train, **{"nll": nll, **options})


def test_numpy_alone_is_enough():
    done = subprocess.run([sys.executable, quadratic.__file__], capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    # Loss and gradient are exact in float64, and so are weight, prior and the data's weight but for rounding.
    assert answer["numbers"] == pytest.approx({"data_weight": 1.0, "kl_per_epoch": 3.0, "prior_std": 1.0}, rel=EXACT)
    assert answer["fails"] == ["kl-scale"]
    assert "multiply the KL by 0.333" in answer["text"]
    assert answer["refused"] == [  # and a star imports every name
        "audit_jax needs jax: pip install jax",
        "audit_numpyro needs jax: pip install jax",
        "audit_prediction needs torch: pip install torch",
        "audit_pyro needs pyro: pip install pyro-ppl",
        "audit_tensorflow needs tensorflow: pip install tensorflow",
        "audit_torch needs torch: pip install torch",
        "entropy_of needs torch: pip install torch",
    ]


def test_a_right_objective_is_clean_and_its_arguments_stay_as_they_are():
    values, three = parameters(), batches()
    report = audit(values=values, given=three, prior_std=1.0)
    assert report.ok, str(report)
    assert report.of("repeated-noise").outcome == "passes"
    assert all(np.array_equal(values[name], same) for name, same in parameters().items())
    pairs = zip(sum(three, ()), sum(batches(), ()), strict=True)
    assert all(np.array_equal(one, two) for one, two in pairs)


def test_a_loss_that_writes_into_its_parameters_changes_nothing():
    def loss(values, batch, seed):
        found = loss_with(1.0)(values, batch, seed)
        values["w_mu"] += 1.0
        return found

    assert audit(loss).ok


def test_the_function_gets_the_types_that_were_given():
    seen = set()

    def loss(values, batch, seed):
        assert 0 <= seed < 2**31
        seen.update(str(value.dtype) for value in values.values())
        value, slopes = loss_with(1.0)(values, batch, seed)
        return np.float32(value), {name: slope.astype(np.float32) for name, slope in slopes.items()}

    report = audit(loss, parameters(np.float32), prior_std=1.0)
    assert seen == {"float32"}
    assert report.ok, str(report)
    # tolerance: as `EXACT` with float32's rounding of 6e-8 in the place of 1e-16
    assert report.numbers["kl_per_epoch"] == pytest.approx(1, abs=1e-3)
    assert FunctionObjective(loss, parameters(np.float32), batches()).epsilon == np.finfo(np.float32).eps


def test_a_gradient_that_is_not_the_slope_fails():
    def loss(values, batch, seed):
        value, slopes = loss_with(1.0)(values, batch, seed)
        return value, {**slopes, "w_mu": slopes["w_mu"] / 2}

    finding = audit(loss, nll=None).of("detached-gradient")
    assert finding.outcome == "fails"
    assert "w_mu" in finding.detail
    assert "w_rho" not in finding.detail


def test_own_kl_and_own_names():
    report = audit(loss_with(5.0), kl=kl, factors=[])
    assert report.kl_weights == pytest.approx({"w_mu": 5.0, "w_rho": 5.0}, rel=EXACT)
    names = {"w_mu": "place", "w_rho": "raw"}
    back = {other: name for name, other in names.items()}

    def renamed(function):
        def call(values, batch, seed):
            value, slopes = function({back[name]: part for name, part in values.items()}, batch, seed)
            return value, {names[name]: slope for name, slope in slopes.items()}

        return call

    values = {names[name]: part for name, part in parameters().items()}
    options = {"values": values, "nll": renamed(nll)}
    assert audit(renamed(loss_with(2.0)), **options).of("kl-scale").outcome == "not applicable"
    report = audit(renamed(loss_with(2.0)), factors=[Gaussian("place", "raw")], **options)
    assert report.kl_weights == pytest.approx({"place, raw": 2.0}, rel=EXACT)


def test_without_the_nll_a_batch_is_given_twice_over():
    assert audit(loss_with(2.0), nll=None).numbers["kl_per_epoch"] == pytest.approx(2.0, rel=EXACT)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_the_derivative_of_a_transform_is_its_slope(name):
    value, slope = TRANSFORMS[name]
    at, step = np.linspace(-3, 3, 7), 1e-5
    # tolerance: a central difference is off by step^2 / 6 x third derivative (at most e^3 = 20), and 20 eps / step
    assert slope(at) == pytest.approx((value(at + step) - value(at - step)) / (2 * step), abs=1e-8)


def test_a_sigma_that_weights_share_gets_the_sum_of_their_slopes():
    values = {"m": np.array([[1.0, 2.0], [3.0, 4.0]]), "s": np.array([math.log(2.0), 0.0])}
    group = Gaussian("m", "s", "exp").group(values.__getitem__, values)  # columns have sigma 2 and 1
    assert group.spread().tolist() == [[2.0, 1.0], [2.0, 1.0]]
    # tolerance: exp(log 2) is 2 but for two roundings. d(-log sigma) / d s = -1, of two weights
    assert group.entropy()["s"] == pytest.approx(np.array([-2.0, -2.0]), rel=1e-15)
    # tolerance: the same. d(sigma^2 / 2) / d s = sigma^2, of two weights
    assert group.second_moment()["s"] == pytest.approx(np.array([8.0, 2.0]), rel=4e-15)
    assert np.array_equal(group.second_moment()["m"], values["m"])
    assert (group.means, group.scales) == ({"m"}, {"s"})
    own = Gaussian("m", "s", Transform(np.square, lambda raw: 2 * raw)).group(values.__getitem__, {"m": ()})
    assert np.array_equal(own.std(), values["s"] ** 2)
    assert not own.scales  # s is not trained


def gives(value=1.0, **slopes):
    """Return a function whose answer is this value, and these slopes in the place of the right ones."""
    return lambda values, batch, seed: (value, {**{name: 0 * part for name, part in values.items()}, **slopes})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": {}}, "parameters are nothing; give a mapping"),
        ({"values": [("w", 1.0)]}, "parameters are list; give a mapping"),
        ({"values": {"w": "text"}}, "parameter 'w' has numbers of type <U4"),
        ({"given": batches()[:1]}, "1 batch given"),
        ({"given": batches()[:2]}, "2 batches given; the audit compares batches: give 3 or more"),
        ({"given": [{"x": x} for x, _ in batches()]}, "begins with dict"),
        ({"n_train": 3}, "n_train is 3"),
        ({"loss": lambda values, batch, seed: 1.0}, "loss returned float; it must return a number, and its gradient"),
        ({"loss": lambda values, batch, seed: (1.0, [2.0])}, "loss returned float, list; it must return a number"),
        ({"loss": gives(math.nan)}, "loss of a batch is nan; audit where training works"),
        ({"loss": gives(np.ones(3))}, r"the value of loss has shape \(3,\); give one number"),
        ({"loss": gives(w_mu=np.ones(4))}, r"by w_mu has shape \(4,\); the parameter has \(5,\)"),
        ({"loss": gives(w_mu=np.full(5, math.inf))}, "gradient of loss by w_mu is not finite"),
        ({"loss": gives(other=1.0)}, "the gradient of loss has other; give one by each of w_mu, w_rho"),
        ({"loss": lambda values, batch, seed: (1.0, {"w_mu": values["w_mu"]})}, "the gradient of loss lacks w_rho"),
        ({"nll": "cross-entropy"}, "nll is a str; give a function"),
        ({"factors": [("w_mu", "w_rho")]}, "factors hold a tuple; give Gaussian"),
        (
            {"factors": [Gaussian("w_mu", "w_sigma")]},
            "factors name 'w_sigma', which is no parameter; known: w_mu",
        ),
    ],
)
def test_what_cannot_be_audited_is_said(change, message):
    with pytest.raises(AuditError, match=message) as raised:
        audit(**change)
    assert "\n" not in str(raised.value)


def test_an_unknown_transform_is_said():
    with pytest.raises(AuditError, match=r"unknown transform 'softplush'.*did you mean 'softplus'"):
        Gaussian("w_mu", "w_rho", "softplush")


def noisy(seed_of_step):
    """Return a loss of weights w = mu + sigma x noise for rows x in float64, and its gradient; sigma = exp(raw).

    Squared error of 20 rows and KL to N(0, 1) as in an ELBO of 60 rows: -log sigma + (sigma^2 + mu^2) / 2, a third.
    """

    def loss(values, batch, seed):
        (x,), mu, sigma = batch, values["mu"], np.exp(values["log_sigma"])
        noise = np.random.default_rng(seed_of_step(seed)).normal(size=mu.shape)
        left = x @ (mu + sigma * noise) - 1
        by_weight = x.T @ left
        kl = (-np.log(sigma) + (sigma**2 + mu**2) / 2).sum()
        slopes = {"mu": by_weight + mu / 3, "log_sigma": sigma * (by_weight * noise + (sigma - 1 / sigma) / 3)}
        return (left**2).sum() / 2 + kl / 3, slopes

    return loss


def without_noise(values, batch, seed):
    """The same expectation in closed form: E |x w - 1|^2 = |x mu - 1|^2 + sum x^2 sigma^2."""
    (x,), mu, sigma = batch, values["mu"], np.exp(values["log_sigma"])
    left, squares = x @ mu - 1, (x**2).sum(0)
    kl = (-np.log(sigma) + (sigma**2 + mu**2) / 2).sum()
    slopes = {"mu": x.T @ left + mu / 3, "log_sigma": sigma * (squares * sigma + (sigma - 1 / sigma) / 3)}
    return ((left**2).sum() + (squares * sigma**2).sum()) / 2 + kl / 3, slopes


@pytest.mark.parametrize(
    ("loss", "outcome"),
    [(noisy(lambda seed: seed), "passes"), (noisy(lambda seed: 0), "fails"), (without_noise, "not measured")],
)
def test_the_same_noise_in_every_step_is_told_from_no_noise(loss, outcome):
    values = {"mu": np.linspace(-1, 1, 8), "log_sigma": np.full(8, -1.0)}
    source = np.random.default_rng(0)
    report = audit(loss, values, [source.normal(size=(20, 8)) for _ in range(3)], 60, nll=None)
    assert report.of("repeated-noise").outcome == outcome


def test_of_unlike_batches_those_of_the_commonest_size_count():
    short = tuple(part[:5] for part in batches()[0])
    assert audit(given=[short, *batches()]).numbers == audit().numbers
    with pytest.raises(AuditError, match="give three of one size"):
        audit(given=[short, tuple(part[:4] for part in batches()[1]), batches()[2]])
