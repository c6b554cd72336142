"""What torch alone can do wrong: backward in the loss, graphs that are gone, expanded parameters, two names."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import elbo_audit
from elbo_audit.errors import AuditError
from elbo_audit.likelihood import data_weight
from elbo_audit.torch_objective import TorchObjective
from tests.elbo_audit.models import N_TRAIN, STEPS, Single, batches

# tolerance: the audit's own, of the KL's weight
NEAR = 0.05


def message_of(loss, named, **options):
    with pytest.raises(AuditError) as raised:
        elbo_audit.audit_torch(loss, named, batches(), N_TRAIN, **options)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def returns_the_loss(net, optimizer):
    def closure(x, y):
        optimizer.zero_grad()
        loss = net.elbo(x, y)
        loss.backward()
        return loss

    return closure


def returns_a_number(net, optimizer):
    closure = returns_the_loss(net, optimizer)
    return lambda x, y: closure(x, y).item()


def keeps_the_graph(net, optimizer):
    def closure(x, y):
        optimizer.zero_grad(set_to_none=False)
        loss = net.elbo(x, y)
        loss.backward(retain_graph=True)
        return loss

    return closure


@pytest.mark.parametrize("made", [returns_the_loss, returns_a_number, keeps_the_graph])
def test_a_loss_that_calls_backward_is_refused_and_leaves_gradients_alone(made):
    net = Single()
    before = torch.full_like(net.weight_mu, 7.0)
    net.weight_mu.grad = before
    optimizer = torch.optim.LBFGS(net.parameters())
    message = message_of(made(net, optimizer), net.named_parameters(), nll=net.nll)
    assert message.startswith("loss(*batch) calls backward() itself")
    assert net.weight_mu.grad is before
    assert torch.equal(before, torch.full_like(before, 7.0))
    assert net.weight_rho.grad is None


def test_a_kl_that_was_computed_before_the_call_is_one_line():
    net = Single()
    kl = net.analytic()
    assert "compute all parts, such as the KL, inside" in message_of(
        lambda x, y: net.nll(x, y) + kl / STEPS, net.named_parameters(), nll=net.nll
    )


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (5, 1)])
def test_a_parameter_made_by_expand_is_named(shape):
    net = Single()
    net.weight_rho = nn.Parameter(torch.full(shape, -2.0).expand(5, 7))
    assert message_of(net.elbo, net.named_parameters()).startswith("parameter 'weight_rho' was made by expand()")


def test_an_expanded_buffer_is_no_parameter():
    net = Single()
    named = [*net.named_parameters(), ("prior_scale", torch.ones(1).expand(5, 7))]
    assert elbo_audit.audit_torch(net.elbo, named, batches(), N_TRAIN, nll=net.nll).ok


class TwoNames(Single):
    """Holds its parameters in a list too, whose names say nothing."""

    def __init__(self, first="parts", kept=("weight_mu", "weight_rho")):
        super().__init__()
        plain = dict(self._parameters)
        for name in plain:
            delattr(self, name)
        setattr(self, first, nn.ParameterList([plain[name] for name in kept]))
        for name, value in plain.items():
            self.register_parameter(name, value)

    def named(self):
        """Return the names of the list first, as a network whose submodules come before its own parameters would."""
        return sorted(self.named_parameters(remove_duplicate=False), key=lambda pair: "." not in pair[0])


@pytest.mark.parametrize(
    "net", [TwoNames(), TwoNames("mu_and_rho", ("weight_rho", "weight_mu")), TwoNames("parts", ("weight_mu",))]
)
@pytest.mark.parametrize("times", [1, 12])
def test_the_name_that_pairs_counts(net, times):
    report = elbo_audit.audit_torch(
        lambda x, y: net.nll(x, y) + times * net.analytic() / STEPS, net.named(), batches(), N_TRAIN, nll=net.nll
    )
    assert report.ok == (times == 1), str(report)
    assert report.numbers["kl_per_epoch"] == pytest.approx(times, rel=NEAR)
    assert list(report.kl_weights) == ["weight_mu, weight_rho"]


class OddNames(nn.Module):
    """One layer whose mean and scale have these names."""

    def __init__(self, mean, scale, transform):
        super().__init__()
        self.register_parameter(mean, nn.Parameter(Single().weight_mu.detach().clone()))
        self.register_parameter(scale, nn.Parameter(torch.full((5, 7), -2.0)))
        self.names, self.transform = (mean, scale), transform

    def pair(self):
        mean, raw = (getattr(self, name) for name in self.names)
        return mean, self.transform(raw)

    def nll(self, x, y):
        mean, std = self.pair()
        labels = (y[:, 0] * 2).long() % 5
        return functional.cross_entropy(x @ (mean + std * torch.randn(5, 7)).T, labels, reduction="sum")

    def loss(self, x, y, times=1):
        mean, std = self.pair()
        return self.nll(x, y) + times * ((std**2 + mean**2) / 2 - std.log() - 0.5).sum() / STEPS


ODD = [
    ("weight", "weight_rho", functional.softplus, "Gaussian('weight', 'weight_rho', 'softplus')"),
    ("kernel", "kernel_log_sigma", torch.exp, "Gaussian('kernel', 'kernel_log_sigma', 'exp')"),
    ("w", "rho", functional.softplus, "Gaussian('w', 'rho', 'softplus')"),
]


@pytest.mark.parametrize(("mean", "scale", "transform", "advice"), ODD)
@pytest.mark.parametrize("times", [1, 12])
def test_a_scale_without_its_mean_is_not_measured_and_the_advice_measures_it(mean, scale, transform, advice, times):
    net = OddNames(mean, scale, transform)

    def audited(**options):
        return elbo_audit.audit_torch(
            lambda x, y: net.loss(x, y, times), net.named_parameters(), batches(), N_TRAIN, nll=net.nll, **options
        )

    finding = audited().of("kl-scale")
    assert finding.outcome == "not measured"
    assert f"factors=[{advice}]" in finding.detail
    report = audited(factors=[eval(advice, {"Gaussian": elbo_audit.Gaussian})])
    assert report.numbers["kl_per_epoch"] == pytest.approx(times, rel=NEAR)
    assert report.ok == (times == 1)


def test_a_noise_scale_of_the_observations_is_no_weight():
    net = Single()
    named = [*net.named_parameters(), ("log_sigma", nn.Parameter(torch.zeros(3))), ("b", nn.Parameter(torch.ones(3)))]

    def nll(x, y):
        return net.nll(x, y) + (named[2][1] + y.square() * (named[2][1].exp() + named[3][1])).sum()

    report = elbo_audit.audit_torch(lambda x, y: nll(x, y) + net.analytic() / STEPS, named, batches(), N_TRAIN, nll=nll)
    assert report.of("kl-scale").outcome == "passes"
    assert "log_sigma" not in report.of("kl-scale").detail


def test_an_index_is_one_more_argument_of_loss_and_nll():
    net = Single()

    def nll(x, y, index):
        return net.nll(x + 0.1 * index.float().cos()[:, None], y)

    three = [(x, y, torch.arange(len(x)) + 128 * k) for k, (x, y) in enumerate(batches())]
    report = elbo_audit.audit_torch(
        lambda x, y, index: nll(x, y, index) + net.analytic() / STEPS, net.named_parameters(), three, N_TRAIN, nll=nll
    )
    assert report.ok
    assert report.numbers["kl_per_epoch"] == pytest.approx(1, rel=NEAR)


def test_a_drawn_kl_that_replays_the_forward_is_exact():
    # kl() draws what loss() draws, so that each draw of the loss is compared with its own log q - log p.
    net = Single()
    report = elbo_audit.audit_torch(
        lambda x, y: sum(part / share for part, share in zip(net.terms(x, y), (1, STEPS), strict=True)),
        net.named_parameters(),
        batches(),
        N_TRAIN,
        nll=net.nll,
        kl=lambda: net.terms(*batches()[0])[1],
    )
    assert report.ok, str(report)
    # tolerance: gradients in float32, whose rounding is 6e-8 beside data parts 1,000 times as large
    assert report.numbers["kl_per_epoch"] == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("shape", [(), (1, 7)])
@pytest.mark.parametrize("times", [1, 3])
def test_a_sigma_that_weights_share_is_that_of_their_means(shape, times):
    net = Single()
    net.weight_rho = nn.Parameter(torch.full(shape, -2.0))

    def kl():
        sigma = functional.softplus(net.weight_rho).expand(5, 7)
        return ((sigma.square() + net.weight_mu.square()) / 2 - sigma.log()).sum()

    report = elbo_audit.audit_torch(
        lambda x, y: net.nll(x, y) + times * kl() / STEPS, net.named_parameters(), batches(), N_TRAIN, nll=net.nll
    )
    assert report.ok == (times == 1), str(report)
    assert report.numbers["kl_per_epoch"] == pytest.approx(times, rel=NEAR)


def test_gradients_that_show_the_weight_show_the_rest_too(model):
    # The KL grows with the rows and is large, so that float32 hides how the batches' losses differ.
    asked = []

    class Counted(TorchObjective):
        def _evaluate(self, term, batch, draw, slopes):
            asked.extend([term] if slopes else [])
            return super()._evaluate(term, batch, draw, slopes)

    def loss(x, y):
        return model.nll(x, y) + 1e3 * len(x) * model.kl()

    objective = Counted(loss, model.named_parameters(), batches(), model.nll)
    found = data_weight(objective, 8)
    assert found.rest == "proportional"
    # tolerance: float32 keeps six digits of gradients that are ten thousand times the data's
    assert found.weight == pytest.approx(1, rel=0.05)
    # of 3 batches in 8 draws both gradients; 3 draws of a batch, of its rows twice and of two batches; the first
    assert len(asked) == 2 * (3 * 8 + 3 * (1 + 1 + 2)) + 1
