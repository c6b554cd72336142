"""How far does plain SGD take sigma? The audit's answer is compared with a training."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import elbo_audit
from tests.elbo_audit.models import Linear

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
