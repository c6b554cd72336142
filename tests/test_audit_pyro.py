"""The auditor on Pyro models: the scale of every site is known, so that the factor is."""

import pytest
import torch

from bench.audit import elbo

pyro = pytest.importorskip("pyro")
from pyro import distributions, poutine  # noqa: E402 - after the check that Pyro is there
from pyro.infer import Trace_ELBO, TraceMeanField_ELBO  # noqa: E402
from pyro.infer.autoguide import AutoNormal  # noqa: E402

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


@pytest.mark.parametrize("estimator", [Trace_ELBO, TraceMeanField_ELBO])
@pytest.mark.parametrize(
    ("scale_data", "scale_kl", "factor"),
    [(1.0, 1.0, STEPS), (STEPS, 1.0, 1.0), (1.0, 1 / STEPS, 1.0), (STEPS, 1 / STEPS, 1 / STEPS)],
    ids=["unscaled", "data scaled", "KL scaled", "both"],
)
def test_scales(scale_data, scale_kl, factor, estimator):
    model, guide = model_with(scale_data, scale_kl)
    report = elbo.audit_pyro(model, guide, batches(), N_TRAIN, loss=estimator(), draws=30)
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
    report = elbo.audit_pyro(model, guide, batches(), N_TRAIN, loss=TraceMeanField_ELBO())
    assert report.ok
    assert report.numbers["kl_per_epoch"] == pytest.approx(1, rel=0.02)
    assert report.numbers["data_weight"] == pytest.approx(STEPS, rel=1e-3)


def test_sites_stand_in_for_names():
    model, _ = model_with(scale_data=1.0, scale_kl=1.0)

    def guide(x, y):
        flat = pyro.param("everything", torch.tensor([0.3, -0.2, 0.5, 0.1, -2.0, -2.0, -2.0, -2.0]))
        pyro.sample("w", distributions.Normal(flat[:4], flat[4:].exp()).to_event(1))

    report = elbo.audit_pyro(model, guide, batches(), N_TRAIN, draws=50)
    assert report.numbers["kl_per_epoch"] == pytest.approx(STEPS, rel=0.2)
    assert report.of("kl-scale").outcome == "fails"
