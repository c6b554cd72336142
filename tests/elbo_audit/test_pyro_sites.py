"""The audit of Pyro models. The scale of every site is known, and so is how often the KL counts."""

import pytest
import torch

import elbo_audit
from elbo_audit.errors import AuditError

pyro = pytest.importorskip("pyro")
from pyro import distributions, poutine  # noqa: E402 - after the check that Pyro is there
from pyro.infer import JitTrace_ELBO, Trace_ELBO, TraceMeanField_ELBO, TraceTailAdaptive_ELBO  # noqa: E402 - likewise
from pyro.infer.autoguide import AutoNormal  # noqa: E402 - likewise

N_TRAIN, BATCH = 6_000, 60
STEPS = N_TRAIN / BATCH  # 100


@pytest.fixture(autouse=True)
def _own_store():
    with pyro.get_param_store().scope(), torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def batches():
    source = torch.Generator().manual_seed(9)
    return [(torch.randn(BATCH, 4, generator=source), torch.randn(BATCH, generator=source)) for _ in range(3)]


def model_with(scale_data=1.0, scale_kl=1.0, prior=1.5):
    def model(x, y):
        with poutine.scale(scale=scale_kl):
            w = pyro.sample("w", distributions.Normal(torch.zeros(4), prior).to_event(1))
        with poutine.scale(scale=scale_data), pyro.plate("data", len(x)):
            pyro.sample("y", distributions.Normal(x @ w, 1.0), obs=y)

    def guide(x, y):
        mu = pyro.param("w_mu", torch.tensor([0.3, -0.2, 0.5, 0.1]))
        rho = pyro.param("w_rho", torch.full((4,), -2.0))
        with poutine.scale(scale=scale_kl):
            pyro.sample("w", distributions.Normal(mu, torch.nn.functional.softplus(rho)).to_event(1))

    return model, guide


@pytest.mark.parametrize(
    ("scale_data", "scale_kl", "factor", "estimator"),
    [
        (1.0, 1.0, STEPS, TraceMeanField_ELBO),
        (STEPS, 1.0, 1.0, TraceMeanField_ELBO),
        (STEPS, 1.0, 1.0, Trace_ELBO),
        (1.0, 1 / STEPS, 1.0, TraceMeanField_ELBO),
        (1.0, 1 / STEPS, 1.0, Trace_ELBO),
        (STEPS, 1 / STEPS, 1 / STEPS, TraceMeanField_ELBO),
    ],
)
def test_scales(scale_data, scale_kl, factor, estimator):
    model, guide = model_with(scale_data, scale_kl)
    report = elbo_audit.audit_pyro(model, guide, batches(), N_TRAIN, loss=estimator(), draws=30)
    error = report.of("kl-scale").measured["standard error"]
    assert error < 0.5 * factor
    assert report.numbers["kl_per_epoch"] == pytest.approx(factor, abs=4 * error + 0.02 * factor)
    if estimator is TraceMeanField_ELBO:  # one draw's log q - log p of four weights is mostly noise
        assert error < 0.01 * factor
        assert report.of("kl-scale").outcome == ("passes" if factor == 1 else "fails")
        if factor > 0.1:  # a KL of a hundredth beside a hundredfold likelihood loses the prior in float32's rounding
            assert report.numbers["prior_std"] == pytest.approx(1.5, rel=0.02)


def test_a_subsampling_plate_is_an_elbo():
    def model(x, y):
        w = pyro.sample("w", distributions.Normal(torch.zeros(4), 1.0).to_event(1))
        with pyro.plate("data", N_TRAIN, subsample=torch.arange(len(x))):
            pyro.sample("y", distributions.Normal(x @ w, 1.0), obs=y)

    guide = AutoNormal(model)
    report = elbo_audit.audit_pyro(model, guide, batches(), N_TRAIN, loss=TraceMeanField_ELBO())
    assert report.ok
    assert report.numbers["kl_per_epoch"] == pytest.approx(1, rel=0.02)
    assert report.numbers["data_weight"] == pytest.approx(STEPS, rel=1e-3)


def test_sites_stand_in_for_names():
    model, _ = model_with(scale_data=1.0, scale_kl=1.0)

    def guide(x, y):
        flat = pyro.param("everything", torch.tensor([0.3, -0.2, 0.5, 0.1, -2.0, -2.0, -2.0, -2.0]))
        pyro.sample("w", distributions.Normal(flat[:4], flat[4:].exp()).to_event(1))

    report = elbo_audit.audit_pyro(model, guide, batches(), N_TRAIN, draws=50)
    assert report.numbers["kl_per_epoch"] == pytest.approx(STEPS, rel=0.2)
    assert report.of("kl-scale").outcome == "fails"


@pytest.mark.parametrize("estimator", [Trace_ELBO, TraceMeanField_ELBO])
def test_a_guide_whose_scale_is_a_constant(estimator):
    # The KL of the sites is drawn: against the mean of 8 draws it counted .5 to .9 times, and failed.
    model, _ = model_with(scale_data=STEPS)

    def guide(x, y, scale=0.5):
        loc = pyro.param("w_loc", torch.tensor([0.3, -0.2, 0.5, 0.1]))
        pyro.sample("w", distributions.Normal(loc, scale).to_event(1))

    report = elbo_audit.audit_pyro(model, guide, batches(), N_TRAIN, loss=estimator())
    assert report.of("sigma-frozen").outcome == "fails"
    assert "scale of w is a constant" in report.of("sigma-frozen").detail
    assert report.of("kl-scale").outcome == ("passes" if estimator is Trace_ELBO else "not measured")  # too noisy


def test_a_prior_that_is_no_gaussian_is_measured_from_the_sites():
    def model(x, y):
        w = pyro.sample("w", distributions.Laplace(torch.zeros(4), 1.0).to_event(1))
        with pyro.plate("data", N_TRAIN, subsample=torch.arange(len(x))):
            pyro.sample("y", distributions.Normal(x @ w, 1.0), obs=y)

    _, guide = model_with()
    finding = elbo_audit.audit_pyro(model, guide, batches(), N_TRAIN, draws=600).of("kl-scale")  # its KL is noisy
    assert finding.outcome == "not measured"
    assert finding.detail.endswith("give factors=[], which takes the KL from the latent sites")  # there is no kl=
    assert elbo_audit.audit_pyro(model, guide, batches(), N_TRAIN, factors=[]).of("kl-scale").outcome == "passes"


def hierarchical(x, y):
    tau = pyro.sample("tau", distributions.HalfCauchy(1.0))
    w = pyro.sample("w", distributions.Normal(torch.zeros(4), tau).to_event(1))
    with pyro.plate("data", N_TRAIN, subsample=torch.arange(len(x))):
        pyro.sample("y", distributions.Normal(x @ w, 1.0), obs=y)


def test_a_latent_scale_of_the_prior_is_not_unused():
    # No data reach tau but through the prior of w. Its two numbers say nothing of a KL of their own.
    report = elbo_audit.audit_pyro(hierarchical, AutoNormal(hierarchical), batches(), N_TRAIN)
    assert report.ok
    assert "AutoNormal.locs.tau" in report.of("unused-layer").detail


@pytest.mark.parametrize("width", [3, 12, 16])
def test_a_standard_normal_prior_is_one_by_default_draws(width):
    # AutoNormal starts at means of 0 and sigmas of .1: the prior's pull on the means is the least that there is, and
    # its standard deviation was measured as .86, 1.06 and 1.06 with errors of .02 to .05.
    def model(x, y):
        w = pyro.sample("w", distributions.Normal(torch.zeros(12, width), 1.0).to_event(2))
        with pyro.plate("data", N_TRAIN, subsample=torch.arange(len(x))):
            pyro.sample("y", distributions.Normal(torch.tanh(x @ w).sum(-1), 1.0), obs=y)

    source = torch.Generator().manual_seed(9)
    three = [(torch.randn(BATCH, 12, generator=source), torch.randn(BATCH, generator=source)) for _ in range(3)]
    report = elbo_audit.audit_pyro(model, AutoNormal(model), three, N_TRAIN, prior_std=1.0)
    assert report.of("variance-as-std").outcome == "passes", report.of("variance-as-std").detail


def test_parameters_of_another_model_in_the_store_are_left_alone():
    pyro.param("other_mean", torch.ones(3))
    pyro.param("other_scale", torch.ones(3), constraint=distributions.constraints.positive)
    model, guide = model_with(scale_data=STEPS)
    report = elbo_audit.audit_pyro(model, guide, batches(), N_TRAIN, loss=TraceMeanField_ELBO())
    assert report.ok
    assert "other" not in str(report)


def factor_of(log_p, share):
    """Return a model with two outputs whose factor is a share of the mean of log p over all that `log_p` gives."""

    def model(x, y):
        w = pyro.sample("w", distributions.Normal(torch.zeros(4, 2), 1.0).to_event(2))
        pyro.factor("log p", share * log_p(x @ w, y).mean())

    def guide(x, y):
        mu = pyro.param("w_mu", lambda: 0.5 * torch.randn(4, 2))
        rho = pyro.param("w_rho", torch.full((4, 2), -2.0))
        pyro.sample("w", distributions.Normal(mu, torch.nn.functional.softplus(rho)).to_event(2))

    return model, guide


def of_label(f, y):
    return distributions.Categorical(logits=f).log_prob(y)


def of_normal(f, y):
    return distributions.Normal(f, torch.tensor([0.2, 0.7])).log_prob(y)


@pytest.mark.parametrize(
    ("log_p", "share", "times"),
    [  # N times the mean over the rows is an ELBO; the mean over the two outputs halves the likelihood
        (of_label, N_TRAIN, 1.0),
        (of_label, 1.0, N_TRAIN),
        (of_label, N_TRAIN / 3, 3.0),
        (lambda f, y: of_normal(f, y).sum(1), N_TRAIN, 1.0),
        (lambda f, y: of_normal(f, y).sum(1), 1.0, N_TRAIN),
        (of_normal, N_TRAIN, 2.0),
        (of_normal, 1.0, 2.0 * N_TRAIN),
    ],
)
def test_what_is_the_mean_in_a_factor(log_p, share, times):
    model, guide = factor_of(log_p, share)
    given = [(x, (y > 0).long() if log_p is of_label else torch.stack([y, x[:, 0]], 1)) for x, y in batches()]
    report = elbo_audit.audit_pyro(model, guide, given, N_TRAIN, loss=TraceMeanField_ELBO())
    # tolerance: the largest error of the likelihood's weight by labels, a hundredth, and its rounding in float32
    assert report.numbers["kl_per_epoch"] == pytest.approx(times, rel=0.02)
    assert report.ok is (times == 1.0), str(report)
    assert "times the rows' mean of log p, where N is right" in report.of("wrong-likelihood").detail


def test_a_factor_without_the_constants_of_a_gaussian_is_refused():
    model, guide = factor_of(lambda f, y: -((f - y) ** 2).sum(1) / 0.08, N_TRAIN)
    with pytest.raises(AuditError, match="no sum over the rows"):
        elbo_audit.audit_pyro(model, guide, [(x, torch.stack([y, y], 1)) for x, y in batches()], N_TRAIN)


def test_several_particles_are_audited_with_as_many():
    model, guide = model_with(scale_data=STEPS)
    report = elbo_audit.audit_pyro(model, guide, batches(), N_TRAIN, loss=TraceMeanField_ELBO(num_particles=3))
    assert report.of("wrong-likelihood").outcome == "passes"
    assert report.of("kl-scale").outcome == "passes"


def autoencoder(x, y):
    with pyro.plate("data", N_TRAIN, subsample=torch.arange(len(x))):
        z = pyro.sample("z", distributions.Normal(0.0, 1.0))
        pyro.sample("y", distributions.Normal(z, 1.0), obs=y)


@pytest.mark.parametrize(
    ("model", "loss", "message"),
    [
        (autoencoder, None, "latent site 'z' is in the data's plate 'data'"),
        (hierarchical, Trace_ELBO, r"the class Trace_ELBO; give an ELBO such as Trace_ELBO\(\)"),
        (hierarchical, JitTrace_ELBO(), r"give Trace_ELBO\(\)"),
        (hierarchical, "elbo", "loss= is a str"),
        (hierarchical, TraceTailAdaptive_ELBO(), r"gives no loss; give Trace_ELBO\(\)"),
        (hierarchical, Trace_ELBO(num_particles=4, vectorize_particles=True), "give vectorize_particles=False"),
    ],
)
def test_what_cannot_be_audited_is_said(model, loss, message):
    with pytest.raises(AuditError, match=message) as raised:
        elbo_audit.audit_pyro(model, AutoNormal(model), batches(), N_TRAIN, loss=loss)
    assert "\n" not in str(raised.value)
