"""The adapters for JAX and NumPyro, on linear regressions whose KL's weight is known."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")
numpyro = pytest.importorskip("numpyro")

import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.infer import Trace_ELBO, TraceMeanField_ELBO
from numpyro.infer.autoguide import AutoNormal

from elbo_audit import AuditError
from elbo_audit.jax_audits import audit_jax
from elbo_audit.numpyro_sites import audit_numpyro

N, B, NOISE = 200, 20, 0.5
SOURCE = np.random.default_rng(0)
X = SOURCE.normal(size=(N, 8)).astype(np.float32)
Y = (X[:, 0] + NOISE * SOURCE.normal(size=N)).astype(np.float32)
BATCHES = [(X[start : start + B], Y[start : start + B]) for start in (0, B, 2 * B)]
PARAMETERS = {"layer": {"w_mu": np.linspace(-0.3, 0.3, 8, dtype=np.float32), "w_rho": np.full(8, -1.5, np.float32)}}


def nll(parameters, batch, key):
    x, y = batch
    layer = parameters["layer"]
    weights = layer["w_mu"] + jax.nn.softplus(layer["w_rho"]) * jax.random.normal(key, (8,))
    return -jax.scipy.stats.norm.logpdf(y, x @ weights, NOISE).sum()


def kl(parameters, key=None):
    """KL to N(0, 1) in closed form, up to a constant."""
    mean, std = parameters["layer"]["w_mu"], jax.nn.softplus(parameters["layer"]["w_rho"])
    return (-jnp.log(std) + (std**2 + mean**2) / 2).sum()


# a mean over rows: KL / N is an ELBO, KL / B counts it N / B = 10 times an epoch
@pytest.mark.parametrize(("divisor", "times"), [(N, 1.0), (B, 10.0)])
@pytest.mark.parametrize("own_kl", [None, kl])
def test_a_plain_loop(divisor, times, own_kl):
    report = audit_jax(
        lambda parameters, batch, key: nll(parameters, batch, key) / B + kl(parameters) / divisor,
        PARAMETERS,
        BATCHES,
        N,
        nll=nll,
        kl=own_kl,
        factors=None if own_kl is None else [],
    )
    found = report.of("kl-scale")
    # tolerance: float32 keeps 6 digits of a gradient; differences of losses lose three of them
    assert report.numbers["kl_per_epoch"] == pytest.approx(times, rel=1e-2)
    assert report.ok == (divisor == N)
    assert found.outcome == ("passes" if divisor == N else "fails")
    if own_kl is None:
        assert [*report.kl_weights] == ["layer.w_mu, layer.w_rho"]


def test_a_batch_that_is_one_array_stays_one():
    def loss(parameters, batch, key):
        assert batch.shape == (B, 8)
        return nll(parameters, (batch, batch[:, 0]), key)

    report = audit_jax(
        lambda p, x, key: loss(p, x, key) + kl(p) * B / N, PARAMETERS, [x for x, _ in BATCHES], N, nll=loss
    )
    assert report.ok


def model(scale):
    def of(x, y):
        weights = numpyro.sample("w", dist.Normal(0, 1).expand([8]).to_event(1))
        with handlers.scale(scale=scale), numpyro.plate("rows", len(x)):
            numpyro.sample("y", dist.Normal(x @ weights, NOISE), obs=y)

    return of


def subsampling(x, y):
    """NumPyro's own way to say how many rows there are."""
    weights = numpyro.sample("w", dist.Normal(0, 1).expand([8]).to_event(1))
    with numpyro.plate("rows", N, subsample_size=len(x)):
        numpyro.sample("y", dist.Normal(x @ weights, NOISE), obs=y)


# without a scale each of the N / B = 10 batches pays the whole KL
@pytest.mark.parametrize(("of", "times"), [(model(N / B), 1.0), (model(1.0), 10.0), (subsampling, 1.0)])
def test_numpyro(of, times):
    report = audit_numpyro(of, AutoNormal(of), BATCHES, N, loss=TraceMeanField_ELBO(num_particles=2), prior_std=1.0)
    # tolerance: as above; this estimator's KL is in closed form
    assert report.numbers["kl_per_epoch"] == pytest.approx(times, rel=1e-2)
    assert report.ok == (times == 1.0)


def test_the_advice_for_a_likelihood_without_its_scale_is_the_plate_or_the_scale():
    of = model(1.0)
    report = audit_numpyro(of, AutoNormal(of), BATCHES, N, loss=TraceMeanField_ELBO(num_particles=2))
    words = report.of("kl-scale").detail
    assert 'numpyro.plate("data", 200, subsample_size=20), or in handlers.scale(scale=10)' in words
    assert "divide" not in words  # `subsampling` and model(N / B) follow it, and pass


def test_numpyros_default_samples_the_kl():
    of = model(N / B)
    assert audit_numpyro(of, AutoNormal(of), BATCHES, N).ok
    assert audit_numpyro(of, AutoNormal(of), BATCHES, N, loss=Trace_ELBO(num_particles=4)).ok


def test_what_cannot_be_audited_is_one_line():
    of = model(1.0)
    with pytest.raises(AuditError, match="give an ELBO such as"):
        audit_numpyro(of, AutoNormal(of), BATCHES, N, loss=Trace_ELBO)
    with pytest.raises(AuditError, match="no batch was given"):
        audit_numpyro(of, AutoNormal(of), [], N)


def audit(loss, **options):
    return audit_jax(loss, PARAMETERS, BATCHES, N, nll=options.pop("nll", nll), **options)


def test_a_cut_gradient_and_repeated_noise_are_named_in_jax_words():
    def cut(parameters, batch, key):
        held = jax.tree_util.tree_map(jax.lax.stop_gradient, parameters)
        return nll(parameters, batch, key) + kl(held) / 10 + kl(parameters) / 10

    def one_key(term):
        return lambda parameters, batch, key: term(parameters, batch, jax.random.PRNGKey(0))

    answer = audit(cut).of("detached-gradient")
    assert answer.outcome == "fails"
    assert "remove stop_gradient between parameter and loss" in answer.words()
    answer = audit(
        lambda parameters, batch, key: one_key(nll)(parameters, batch, key) + kl(parameters) / 10, nll=one_key(nll)
    ).of("repeated-noise")
    assert answer.outcome == "fails"
    assert "split a new key for each step" in answer.words()
    for word in ("detach()", "no_grad", "torch", "seed once"):
        assert word not in str(audit(cut)) + answer.words()


def elbo(parameters, batch, key):
    return nll(parameters, batch, key) + kl(parameters) / 10


def test_a_jitted_loss_is_audited_and_its_line_is_shown():
    whole = jax.jit(lambda parameters, batch, key: nll(parameters, batch, key) + kl(parameters))
    plain, jitted = audit(elbo), audit(jax.jit(elbo), nll=jax.jit(nll))
    # tolerance: float32 keeps 6 digits of a gradient; differences of losses lose three of them
    assert jitted.numbers == pytest.approx(plain.numbers, rel=1e-2)
    assert jitted.ok
    assert "test_jax.py" in audit(whole).of("kl-scale").detail
    assert "kl(parameters))" in audit(whole).of("kl-scale").detail


def test_the_number_of_batches_is_taken():
    assert audit(elbo, n_batches=10).ok
    with pytest.raises(AuditError, match="n_batches is 12"):
        audit(elbo, n_batches=12)
    of = model(N / B)
    with pytest.raises(AuditError, match="n_batches is 12"):
        audit_numpyro(of, AutoNormal(of), BATCHES, N, n_batches=12)


def test_parameters_without_an_array_are_one_line():
    with pytest.raises(AuditError, match="give the tree that"):
        audit_jax(elbo, {}, BATCHES, N)
    with pytest.raises(AuditError, match=r"the value of loss has shape \(8,\)"):
        audit(lambda parameters, batch, key: parameters["layer"]["w_mu"])
