"""Which parameters are mean and sigma, and which arguments cannot be audited."""

import math

import pytest
import torch
from torch import nn
from torch.distributions import Normal
from torch.nn import functional

import elbo_audit
from elbo_audit.errors import AuditError
from elbo_audit.factors import Gaussian
from elbo_audit.names import gaussians
from elbo_audit.torch_objective import as_array
from tests.elbo_audit.models import BATCH, N_TRAIN, STEPS, Linear, audit, batches


def trained(value):
    return torch.full((3,), value, requires_grad=True)


def pairs_of(known):
    """Return the names of the pairs, and the standard deviations that they mean."""
    values = {name: as_array(value) for name, value in known.items()}
    found = gaussians(values, {name for name, value in known.items() if value.requires_grad})
    return {pair.name: pair.group(values.__getitem__, values).std() for pair in found}


def test_names_that_are_pairs():
    names = ("fc.weight_mu", "fc.weight_rho", "mu_kernel", "rho_kernel", "a.mean", "a.log_std", "Auto.locs.w")
    values = {name: trained(-1.0) for name in (*names, "loc", "scale", "lonely_mu", "formula")}
    values |= {name: trained(0.0) for name in ("prior_mu", "prior_rho", "fc.prior.mu", "fc.prior.rho")}  # no posterior
    values["Auto.scales.w"] = trained(0.2)
    found = pairs_of(values)
    assert set(found) == {
        "fc.weight_mu, fc.weight_rho",
        "mu_kernel, rho_kernel",
        "a.mean, a.log_std",
        "Auto.locs.w, Auto.scales.w",
        "loc, scale",
    }
    # softplus(-1) = log(1 + 1/e) = 0.3133; a scale below zero can only be a softplus's argument
    for name, std in (("mu_kernel, rho_kernel", 0.3133), ("a.mean, a.log_std", math.exp(-1)), ("loc, scale", 0.3133)):
        assert found[name][0] == pytest.approx(std, abs=1e-4)
    assert found["Auto.locs.w, Auto.scales.w"][0] == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("names", "pairs"),
    [
        (["fc_mu.weight", "fc_logvar.weight", "mean.bias", "log_std.bias", "mu", "rho"], ["mu, rho"]),
        (["mu_head.weight", "sigma_head.weight", "mean_net.0.bias", "std_net.0.bias"], []),  # layers that make outputs
        (["Auto.locs.weight", "Auto.scales.weight"], ["Auto.locs.weight, Auto.scales.weight"]),
        (["Auto.locs.mu", "Auto.scales.mu"], ["Auto.locs.mu, Auto.scales.mu"]),  # of a site that is named mu
        (
            ["mean.weight_mu", "mean.weight_rho", "std.weight_mu", "std.weight_rho"],  # two Bayesian heads
            ["mean.weight_mu, mean.weight_rho", "std.weight_mu, std.weight_rho"],
        ),
        (["mu_loc", "mu_scale", "sigma_loc", "sigma_scale"], ["mu_loc, mu_scale", "sigma_loc, sigma_scale"]),
        (["w_prior_mu", "w_prior_std", "net.w_prior_mean", "net.w_prior_scale"], []),
    ],
)
def test_which_names_are_of_one_posterior(names, pairs):
    known = {name: trained(1.0) for name in names}
    assert list(pairs_of(known)) == pairs


@pytest.mark.parametrize("shape", [(), (1,), (4,), (3, 1), (3, 4)])
def test_a_scale_that_weights_share_is_paired(shape):
    known = {"w_mu": torch.ones(3, 4, requires_grad=True), "w_rho": torch.zeros(shape, requires_grad=True)}
    assert list(pairs_of(known)) == ["w_mu, w_rho"]


@pytest.mark.parametrize("shape", [(3,), (2, 3, 4), (1, 1, 1), (4, 3)])
def test_a_scale_of_other_weights_is_not_paired(shape):
    known = {"w_mu": torch.ones(3, 4, requires_grad=True), "w_rho": torch.zeros(shape, requires_grad=True)}
    assert not pairs_of(known)


def test_a_pair_of_which_nothing_is_trained_is_no_posterior():
    # such as the mean and deviation that scale the inputs; a trained mean has a distribution though sigma is a buffer
    known = {"x_mean": torch.ones(3), "x_std": torch.ones(3), "w_mu": trained(1.0), "w_std": torch.ones(3)}
    assert list(pairs_of(known)) == ["w_mu, w_std"]


def test_layers_that_make_outputs_and_may_be_weights_by_their_names_are_asked_about(model):
    torch.manual_seed(8)  # here noise hides how small the layer's part of the KL is
    model.mean, model.std = (nn.Sequential(nn.Linear(7, 1)) for _ in range(2))  # mean.0.weight

    def nll(x, y):
        return -Normal(model(x) + model.mean(x), functional.softplus(model.std(x))).log_prob(y).sum()

    def loss(x, y):
        return nll(x, y) + model.kl() / 4

    finding = elbo_audit.audit_torch(loss, model.named_parameters(), batches(), 4 * BATCH, nll=nll).of("kl-scale")
    assert finding.outcome == "not measured"
    assert "mean.0.weight, std.0.weight" in finding.detail
    assert "give factors=" in finding.detail


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batches": batches(1)}, "give 3 or more"),
        ({"parameters": []}, "named_parameters"),
        ({"n_train": 3}, "n_train is 3"),
        ({"loss": lambda x, y: x}, "one number"),
        ({"loss": lambda x, y: x.sum().long()}, r"returned a tensor of torch\.int64; it must return one of floats"),
        ({"loss": lambda x, y: x.sum() * math.nan}, "nan"),
        ({"parameters": [torch.zeros(3, requires_grad=True)]}, r"hold a Tensor; .*named_parameters"),
        ({"parameters": {"w": torch.zeros(3, requires_grad=True)}}, "hold a str"),
        ({"batches": [{"x": x, "y": y} for x, y in batches()]}, "begins with dict; give tuples"),
        ({"batches": [batches()[0]] * 3}, "all the same"),
        ({"n_train": "60000"}, "n_train is '60000'"),
        ({"draws": 0}, "draws is 0"),
        ({"prior_std": 0.0}, r"prior_std is 0\.0"),
        ({"prior_std": -1.0}, r"prior_std is -1\.0"),
        ({"factors": [("w", 1, 2)]}, "hold a tuple; give Gaussian"),
        ({"factors": [Gaussian("w_mu", "w_rho")]}, "factors name 'w_mu', which is no parameter; known: first"),
        ({"optimizer": "adam"}, "optimizer is a str"),
        ({"predict": lambda: torch.full((3,), math.nan), "deterministic": True}, "NaN"),
        ({"predict": lambda: torch.ones(3).numpy(), "deterministic": True}, "ndarray was given"),
        ({"predict": lambda: torch.ones(0), "deterministic": True}, "no numbers"),
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
    with pytest.raises(AuditError, match=message) as raised:
        elbo_audit.audit_torch(**given)
    assert "\n" not in str(raised.value)


def test_a_rule_that_was_not_applied_has_no_finding(model):
    report = audit(model, model.nll)
    with pytest.raises(AuditError, match="did you mean 'kl-scale'"):
        report.of("kl-scael")
    with pytest.raises(AuditError, match="unknown rule of this audit 'overlap'"):
        report.of("overlap")


def test_a_name_that_pairs_with_nothing_is_said_first(model):
    late = torch.full((3,), -1.0, requires_grad=True)
    named = [*model.named_parameters(), ("late_rho", late)]
    report = elbo_audit.audit_torch(
        lambda x, y: model.elbo(x, y) + 0 * late.sum(), named, batches(), N_TRAIN, nll=model.nll
    )
    assert "KL not judged  late_rho is named as a scale and has no mean; give factors=" in str(report)


class Unnamed(nn.Module):
    """A layer of Gaussian weights with a KL, and one whose weights `draw` makes of parameters without such names."""

    def __init__(self, draw, **more):
        super().__init__()
        self.first, self.draw = Linear(7, 5, 0), draw
        source = torch.Generator().manual_seed(2)
        self.a, self.b = (nn.Parameter(at + 0.3 * torch.randn(5, 1, generator=source)) for at in (0.0, -2.0))
        for name, value in more.items():
            setattr(self, name, value)

    def nll(self, x, y):
        return -Normal(torch.tanh(x @ self.first.draw()) @ self.draw(self), 1.0).log_prob(y).sum()


def noise():
    return torch.randn(5, 1)


DRAWN = {  # random weights, each with a mean and a scale
    "exp": lambda net: net.a + net.b.exp() * noise(),
    "softplus of the first": lambda net: net.b + functional.softplus(net.a) * noise(),
    "learned dropout": lambda net: net.a * (1 + net.b.exp() * noise()),
}


@pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
@pytest.mark.parametrize("has_kl", [True, False])
def test_a_layer_without_names_and_without_a_kl_is_seen_by_its_gradients(draw, has_kl):
    net = Unnamed(draw).double()
    kl = net.first.kl if has_kl else None
    for extra, outcome in ((lambda: 0.0, "fails"), (lambda: -net.b.sum() + net.a.square().sum(), "passes")):
        report = elbo_audit.audit_torch(
            lambda x, y, extra=extra: net.nll(x, y) + (net.first.kl() + extra()) / STEPS,
            net.named_parameters(),
            [(x.double(), y.double()) for x, y in batches()],
            N_TRAIN,
            nll=net.nll,
            kl=kl,
        )
        assert report.of("kl-scale").outcome == outcome, str(report)
        if outcome == "fails":
            assert "the KL of a, b is missing" in report.of("kl-scale").detail
            assert report.of("kl-scale").advice.cause == "missing"


PLAIN = {  # of which no parameter needs a KL
    "a product": lambda net: net.a * net.b,
    "a scale of the posterior": lambda net: net.a + net.b.exp() * net.z.draw(),  # whose prior a and b learn
    "dropout": lambda net: net.a * functional.dropout(net.b, 0.5),
}


@pytest.mark.parametrize("draw", PLAIN.values(), ids=PLAIN)
def test_parameters_that_make_no_weights_of_their_own_need_no_kl(draw):
    net = Unnamed(draw, z=Linear(5, 1, 3)).double()
    report = elbo_audit.audit_torch(
        lambda x, y: net.nll(x, y) + (net.first.kl() + net.z.kl()) / STEPS,
        net.named_parameters(),
        [(x.double(), y.double()) for x, y in batches()],
        N_TRAIN,
        nll=net.nll,
    )
    assert report.of("kl-scale").outcome == "passes", str(report)
