"""The ELBO auditor against models whose objective is known, with one mistake planted at a time.

Two layers with Gaussian noise of variance 1, w ~ N(0, s^2), q(w) = N(mu, softplus(rho)^2). A batch's objective with its
KL right is NLL + KL B / N; the KL of a Gaussian to a Gaussian is closed form, so that each planted factor is known.
"""

import math

import pytest
import torch
from torch import nn
from torch.distributions import Normal
from torch.nn import functional

from bench.audit import elbo
from bench.audit.objective import factors_by_name
from bench.errors import ConfigError

N_TRAIN, BATCH, PRIOR = 60_000, 128, 2.0
STEPS = N_TRAIN / BATCH  # 468.75


class Linear(nn.Module):
    """A layer that draws its weights from independent Gaussians; `own` marks what log q takes for its mean."""

    def __init__(self, n_in, n_out, seed):
        super().__init__()
        source = torch.Generator().manual_seed(seed)
        self.weight_mu = nn.Parameter(torch.randn(n_in, n_out, generator=source) * 0.5)
        self.weight_rho = nn.Parameter(torch.full((n_in, n_out), -2.0))

    def sigma(self):
        return functional.softplus(self.weight_rho)

    def draw(self):
        return self.weight_mu + self.sigma() * torch.randn(self.weight_mu.shape)

    def kl(self, prior=PRIOR):
        sigma = self.sigma()
        return (math.log(prior) - sigma.log() + (sigma**2 + self.weight_mu**2) / (2 * prior**2) - 0.5).sum()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Linear(7, 5, 0), Linear(5, 1, 1)
        self.spare = None

    def forward(self, x):
        return torch.tanh(x @ self.first.draw()) @ self.second.draw()

    def nll(self, x, y):
        return -Normal(self(x), 1.0).log_prob(y).sum()

    def kl(self, prior=PRIOR):
        return self.first.kl(prior) + self.second.kl(prior)


def batches(n=3):
    source = torch.Generator().manual_seed(9)
    return [(torch.randn(BATCH, 7, generator=source), torch.randn(BATCH, 1, generator=source)) for _ in range(n)]


@pytest.fixture
def model():
    return Model()


def audit(model, loss, **options):
    options.setdefault("nll", model.nll)
    return elbo.audit_torch(loss, model.named_parameters(), batches(), N_TRAIN, **options)


def outcomes(report):
    return {finding.rule: finding.outcome for finding in report.findings}


def test_the_right_objective_is_clean(model):
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    generator = torch.get_rng_state()
    report = audit(model, lambda x, y: model.nll(x, y) + model.kl() / STEPS, prior_std=PRIOR)
    assert report.ok
    assert report.numbers["kl_per_epoch"] == pytest.approx(1, rel=1e-3)
    assert report.numbers["prior_std"] == pytest.approx(PRIOR, rel=1e-3)
    assert report.numbers["data_weight"] == pytest.approx(1, rel=1e-4)
    assert torch.equal(torch.get_rng_state(), generator)
    assert all(torch.equal(before[name], value) for name, value in model.named_parameters())


@pytest.mark.parametrize(
    ("weight", "factor"),
    [(1.0, STEPS), (1 / STEPS / 469, 1 / 469), (BATCH / N_TRAIN / BATCH, 1 / BATCH), (0.1 / STEPS, 0.1)],
    ids=["whole KL a batch", "divided twice", "1/N beside a sum", "tempered"],
)
def test_a_wrong_scale_is_measured(model, weight, factor):
    report = audit(model, lambda x, y: model.nll(x, y) + weight * model.kl())
    assert report.of("kl-scale").outcome == "fails"
    assert report.numbers["kl_per_epoch"] == pytest.approx(factor, rel=0.01)
    assert report.of("kl-sign").outcome == "passes"


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


def test_the_wrong_sign(model):
    report = audit(model, lambda x, y: model.nll(x, y) - model.kl() / STEPS)
    assert report.of("kl-sign").outcome == "fails"
    assert report.of("kl-scale").outcome == "passes"
    assert report.numbers["kl_per_epoch"] == pytest.approx(-1, rel=0.01)


def sampled_loss(model, detach):
    """Return NLL + (log q - log p) of the same draw; log q takes the mean as it is, or as a constant."""

    def loss(x, y):
        ratio, value = 0.0, x
        for layer in (model.first, model.second):
            w = layer.draw()
            centre = layer.weight_mu.data if detach else layer.weight_mu
            ratio = ratio + (Normal(centre, layer.sigma()).log_prob(w) - Normal(0.0, PRIOR).log_prob(w)).sum()
            value = torch.tanh(value @ w) if layer is model.first else value @ w
        return -Normal(value, 1.0).log_prob(y).sum() + ratio / STEPS

    return loss


def test_a_sampled_kl_is_measured_within_its_noise(model):
    report = audit(model, sampled_loss(model, detach=False), draws=64)
    assert report.numbers["kl_per_epoch"] == pytest.approx(1, abs=0.1)
    assert report.of("detached-gradient").outcome == "passes"


def test_a_detached_mean_is_seen_by_its_slope(model):
    # d log q / d mu = 0 in all, -eps / sigma where the centre is a constant
    finding = audit(model, sampled_loss(model, detach=True)).of("detached-gradient")
    assert finding.outcome == "fails"
    assert "first.weight_mu" in finding.detail
    assert "weight_rho" not in finding.detail


def test_a_layer_that_data_never_reach(model):
    model.spare = Linear(5, 5, 3)
    report = audit(model, lambda x, y: model.nll(x, y) + (model.kl() + model.spare.kl()) / STEPS)
    assert report.of("unused-layer").outcome == "fails"
    assert "spare.weight_mu" in report.of("unused-layer").detail
    assert "first" not in report.of("unused-layer").detail
    assert report.of("kl-scale").outcome == "passes"


def test_a_layer_whose_kl_is_left_out(model):
    report = audit(model, lambda x, y: model.nll(x, y) + model.first.kl() / STEPS)
    assert report.of("kl-scale").outcome == "fails"
    assert "second.weight_mu" in report.of("kl-scale").detail


def test_a_variance_in_the_place_of_a_standard_deviation(model):
    report = audit(model, lambda x, y: model.nll(x, y) + model.kl(prior=6.0) / STEPS, prior_std=math.sqrt(6))
    finding = report.of("variance-as-std")
    assert finding.outcome == "fails"
    assert "whose square it is" in finding.detail
    assert report.numbers["prior_std"] == pytest.approx(6, rel=0.02)


def test_sigma_without_gradient(model):
    draw = Linear.draw
    try:
        Linear.draw = lambda self: self.weight_mu + self.sigma().detach() * torch.randn(self.weight_mu.shape)
        report = audit(model, model.nll)
    finally:
        Linear.draw = draw
    assert report.of("sigma-frozen").outcome == "fails"
    assert report.of("detached-gradient").outcome == "fails"  # sigma decides the draws, autograd does not know


@pytest.mark.parametrize(("rate", "outcome"), [(1e-9, "fails"), (1e-1, "passes")])
def test_sigma_that_the_rate_holds(model, rate, outcome):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    report = audit(model, lambda x, y: model.nll(x, y) + model.kl() / STEPS, optimizer=optimizer, epochs=10)
    assert report.of("sigma-frozen").outcome == outcome


def test_adam_moves_by_its_rate(model):
    # sigma = softplus(-2) = 0.127, d log sigma / d rho = sigmoid(-2) / 0.127 = 0.939; 469 steps of 1e-5: 0.44 %
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)
    finding = audit(model, lambda x, y: model.nll(x, y) + model.kl() / STEPS, optimizer=optimizer).of("sigma-frozen")
    assert finding.measured["relative change"] == pytest.approx(469 * 1e-5 * 0.939, rel=1e-3)
    assert finding.outcome == "fails"


def test_pruned_weights_that_keep_their_noise(model):
    def loss(x, y):
        return model.nll(x, y) + model.kl() / STEPS

    assert audit(model, loss).of("pruned-noise").outcome == "not applicable"
    with torch.no_grad():
        model.first.weight_mu[:, 0] = 0.0
        model.first.weight_rho[:, 0] = 0.0  # softplus(0) = log 2
    finding = audit(model, loss).of("pruned-noise")
    assert finding.outcome == "fails"
    assert finding.measured["noisy"] == 7
    assert "0.693" in finding.detail


def test_dropout_left_on():
    network = nn.Sequential(nn.Linear(7, 20), nn.Dropout(0.5), nn.Linear(20, 1))
    x = batches()[0][0]

    def report():
        return elbo.audit_torch(
            lambda x, y: (network(x) - y).square().sum(),
            network.named_parameters(),
            batches(),
            N_TRAIN,
            predict=lambda: network(x),
        )

    assert outcomes(report())["dropout-at-test"] == "fails"
    assert outcomes(report())["kl-scale"] == "not applicable"
    network.eval()
    assert outcomes(report())["dropout-at-test"] == "passes"


def test_a_loss_that_is_no_likelihood(model):
    clean = audit(model, lambda x, y: 3 * model.nll(x, y))
    assert clean.of("wrong-likelihood").outcome == "passes"
    assert clean.numbers["data_weight"] == pytest.approx(3, rel=1e-3)
    wrong = audit(model, lambda x, y: x.square().sum() + model.nll(x, y))
    assert wrong.of("wrong-likelihood").outcome == "fails"


def test_library_kl(model):
    report = audit(model, lambda x, y: model.nll(x, y) + 5 * model.kl() / STEPS, kl=model.kl, factors=[])
    assert report.numbers["kl_per_epoch"] == pytest.approx(5, rel=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batches": batches(1)}, "three"),
        ({"batches": [*batches(2), tuple(part[:5] for part in batches(1)[0])]}, "one size"),
        ({"parameters": []}, "named_parameters"),
        ({"n_train": 3}, "n_train is 3"),
        ({"loss": lambda x, y: x}, "one number"),
        ({"loss": lambda x, y: x.sum() * math.nan}, "nan"),
    ],
)
def test_what_cannot_be_audited_is_said(model, change, message):
    given = {
        "loss": model.nll,
        "parameters": model.named_parameters(),
        "batches": batches(),
        "n_train": N_TRAIN,
        **change,
    }
    with pytest.raises(ConfigError, match=message):
        elbo.audit_torch(**given)


def test_the_averages():
    # mean (.4, .4, .2); geometric (sqrt .07, sqrt .12, sqrt .03) = (.265, .346, .173), which sums to .784
    draws = torch.tensor([[[0.7, 0.2, 0.1]], [[0.1, 0.6, 0.3]]]).log()
    mean = draws.exp().mean(0)
    geometric = draws.mean(0).exp()
    found = {f.rule: f.outcome for f in elbo.audit_prediction(draws, mean)}
    assert found == {"unnormalised-probabilities": "passes", "log-average": "passes"}
    found = {f.rule: f.outcome for f in elbo.audit_prediction(draws, geometric / geometric.sum())}
    assert found == {"unnormalised-probabilities": "passes", "log-average": "fails"}
    found = {f.rule: f.outcome for f in elbo.audit_prediction(draws, geometric)}
    assert found == {"unnormalised-probabilities": "fails", "log-average": "fails"}
    alike = draws[:1].expand(2, 1, 3)
    assert elbo.audit_prediction(alike, alike[0].exp())[1].outcome == "not measured"
    with pytest.raises(ConfigError, match=r"give \[S, B, K\]"):
        elbo.audit_prediction(draws, mean[0])


def test_the_entropies():
    draws = torch.tensor([[[0.7, 0.2, 0.1]], [[0.1, 0.6, 0.3]]]).log()
    mean, geometric = draws.exp().mean(0), draws.mean(0).exp()
    assert elbo.entropy_of(draws, -(mean * mean.log()).sum(1)).outcome == "passes"
    assert elbo.entropy_of(draws, -(geometric * geometric.log()).sum(1)).outcome == "fails"


def test_names_that_are_pairs():
    names = ("fc.weight_mu", "fc.weight_rho", "mu_kernel", "rho_kernel", "a.mean", "a.log_std", "Auto.locs.w")
    values = {name: torch.full((3,), -1.0) for name in (*names, "loc", "scale", "lonely_mu", "formula")}
    values["Auto.scales.w"] = torch.full((3,), 0.2)
    found = {factor.name: factor for factor in factors_by_name(lambda: values)}
    assert set(found) == {
        "fc.weight_mu, fc.weight_rho",
        "mu_kernel, rho_kernel",
        "a.mean, a.log_std",
        "Auto.locs.w, Auto.scales.w",
        "loc, scale",
    }
    # softplus(-1) = log(1 + 1/e) = 0.3133; a scale below zero can only be a softplus's argument
    for name, std in (("mu_kernel, rho_kernel", 0.3133), ("a.mean, a.log_std", math.exp(-1)), ("loc, scale", 0.3133)):
        assert float(found[name].std()[0]) == pytest.approx(std, abs=1e-4)
    assert float(found["Auto.locs.w, Auto.scales.w"].std()[0]) == pytest.approx(0.2)
