"""The adapters for JAX and NumPyro, on linear regressions whose KL's weight is known."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")
numpyro = pytest.importorskip("numpyro")

import jax.numpy as jnp  # noqa: E402
import numpyro.distributions as dist  # noqa: E402
from numpyro import handlers  # noqa: E402
from numpyro.infer import Trace_ELBO, TraceMeanField_ELBO  # noqa: E402
from numpyro.infer.autoguide import AutoNormal  # noqa: E402

from elbo_audit import AuditError  # noqa: E402
from elbo_audit.jax_audits import audit_jax, audit_numpyro  # noqa: E402

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
