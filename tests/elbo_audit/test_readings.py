"""What a scale's numbers are (sigma, its logarithm, softplus's argument), by the gradient; how far SGD takes sigma."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import elbo_audit
from tests.elbo_audit.models import N_TRAIN, STEPS, Linear, Single, batches, elbo_of

# tolerance: the audit's own, of the KL's weight
NEAR = 0.05
WAYS = {"exp": torch.exp, "log(1 + exp)": functional.softplus}


@pytest.mark.parametrize("name", ["weight_sigma", "weight_std", "weight_scale"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("start", [-5.0, -1.0])
@pytest.mark.parametrize("times", [1, 1.1])
def test_the_reading_that_explains_the_gradient_is_kept(name, way, start, times):
    net = Single(scale=name, start=start, transform=WAYS[way])
    report = elbo_audit.audit_torch(
        lambda x, y: net.nll(x, y) + times * net.analytic() / STEPS,
        net.named_parameters(),
        batches(),
        N_TRAIN,
        nll=net.nll,
        prior_std=1.0,
    )
    assert report.ok == (times == 1), str(report)
    assert f"sigma is {way} of {name}, which explains the gradient better" in report.of("kl-scale").detail
    # tolerance: gradients in float32, beside data parts that are 1,000 times as large
    assert report.numbers["kl_per_epoch"] == pytest.approx(times, rel=1e-3)
    assert report.of("variance-as-std").outcome == "passes"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("times", [1, 3])
def test_where_noise_hides_the_reading_its_doubt_is_part_of_the_error(way, times):
    # A drawn KL of 35 weights with sigma near .3: read in the other way, a right ELBO counted .93 times, and failed.
    net = Single(scale="weight_sigma", start=-1.0, transform=WAYS[way])

    def loss(x, y):
        nll, kl = net.terms(x, y)
        return nll + times * kl / STEPS

    finding = elbo_audit.audit_torch(loss, net.named_parameters(), batches(), N_TRAIN, nll=net.nll).of("kl-scale")
    assert "noise hides whether sigma is" in finding.detail
    assert finding.outcome == ("not measured" if times == 1 else "fails")


def test_a_positive_sigma_is_taken_as_it_is():
    net = Single(scale="weight_sigma", start=0.1, transform=lambda raw: raw)
    report = elbo_audit.audit_torch(elbo_of(net), net.named_parameters(), batches(), N_TRAIN, nll=net.nll)
    assert report.ok
    assert "sigma is" not in report.of("kl-scale").detail


class Layer(nn.Module):
    """A layer with log sigma under the name sigma, for weights and bias, as a library of convolutions has it."""

    def __init__(self, n_in, n_out):
        super().__init__()
        source = torch.Generator().manual_seed(n_in)
        for name, shape in (("W", (n_out, n_in)), ("bias", (n_out,))):
            self.register_parameter(f"{name}_mu", nn.Parameter(0.3 * torch.randn(shape, generator=source)))
            self.register_parameter(f"{name}_sigma", nn.Parameter(torch.full(shape, -3.0)))

    def pairs(self):
        return [(self.W_mu, self.W_sigma.exp()), (self.bias_mu, self.bias_sigma.exp())]

    def forward(self, x):
        weight, bias = (mean + std * torch.randn_like(mean) for mean, std in self.pairs())
        return functional.linear(x, weight, bias)


@pytest.mark.parametrize("times", [1, 2])
def test_a_network_whose_sigmas_are_logarithms(times):
    net = nn.Sequential(Layer(7, 6), nn.Tanh(), Layer(6, 5))

    def nll(x, y):
        return functional.cross_entropy(net(x), (y[:, 0] * 2).long() % 5, reduction="sum")

    def loss(x, y):
        pairs = net[0].pairs() + net[2].pairs()
        return nll(x, y) + times * sum((s.square() + m.square() - 2 * s.log()).sum() / 2 for m, s in pairs) / STEPS

    report = elbo_audit.audit_torch(loss, net.named_parameters(), batches(), N_TRAIN, nll=nll)
    assert report.ok == (times == 1), str(report)
    assert report.numbers["kl_per_epoch"] == pytest.approx(times, rel=NEAR)
    assert "sigma is exp of 0.W_sigma, 0.bias_sigma, 2.W_sigma, 2.bias_sigma" in report.of("kl-scale").detail


N, EPOCHS = 2000, 40  # 800 steps of 100 rows


class Classifier(nn.Module):
    """Two layers whose likelihood's noise hides the KL in a single gradient."""

    def __init__(self, rho):
        super().__init__()
        self.layers = nn.ModuleList([Linear(8, 10, 0), Linear(10, 4, 1)])
        for layer in self.layers:
            layer.weight_rho.data.fill_(rho)

    def nll(self, x, y):
        first, second = (layer.draw() for layer in self.layers)
        return functional.cross_entropy(torch.relu(x @ first) @ second, y, reduction="sum")

    def log_sigmas(self):
        return [layer.sigma().detach().log() for layer in self.layers]


def audited_and_trained(rho, rate, momentum, mean, of_sigma=1.0):
    """Return what the audit says, and the mean size of the changes of log sigma in the layer where it is least."""
    net = Classifier(rho)

    def loss(x, y):
        whole = net.nll(x, y) + sum(layer.kl() for layer in net.layers) * len(x) / N
        return whole / len(x) if mean else whole

    groups = [
        {"params": [layer.weight_mu for layer in net.layers]},
        {"params": [layer.weight_rho for layer in net.layers], "lr": rate * of_sigma},
    ]
    optimizer = torch.optim.SGD(groups, lr=rate, momentum=momentum)
    source = torch.Generator().manual_seed(7)
    rows, labels = torch.randn(N, 8, generator=source), torch.randint(4, (N,), generator=source)
    three = list(zip(rows[:300].split(100), labels[:300].split(100), strict=True))
    report = elbo_audit.audit_torch(
        loss, net.named_parameters(), three, N, nll=net.nll, optimizer=optimizer, epochs=EPOCHS
    )
    before = net.log_sigmas()
    torch.manual_seed(0)
    for _ in range(EPOCHS):
        for index in torch.randperm(N, generator=source).split(100):
            optimizer.zero_grad()
            loss(rows[index], labels[index]).backward()
            optimizer.step()
    moved = min(float((two - one).abs().mean()) for one, two in zip(before, net.log_sigmas(), strict=True))
    return report.of("sigma-frozen"), moved


@pytest.mark.parametrize(
    ("rho", "rate", "momentum", "mean"),
    [(-4.0, 5e-4, 0.9, False), (-4.0, 0.5, 0.0, True)],
)
def test_plain_sgd_that_moves_sigma_is_not_frozen(rho, rate, momentum, mean):
    finding, moved = audited_and_trained(rho, rate, momentum, mean)
    assert moved > 0.05
    assert finding.outcome in ("passes", "not measured"), finding.detail
    if finding.outcome == "not measured":  # the truth is between what is sure and what may be
        assert finding.measured["at least"] < moved < finding.measured["at most"]
        assert "raise draws=" in finding.detail


def test_a_rate_of_sgd_that_is_far_too_small_is_frozen():
    finding, moved = audited_and_trained(-2.0, 5e-4, 0.9, False, of_sigma=1e-5)
    assert moved < 1e-3
    assert finding.outcome == "fails"
    assert moved < finding.measured["relative change"] < 0.05
