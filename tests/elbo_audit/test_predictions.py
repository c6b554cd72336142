"""Which mean of the draws is a reported prediction, and do two calls agree?"""

import math

import pytest
import torch
from torch import nn

import elbo_audit
from elbo_audit.errors import AuditError
from elbo_audit.predictions import repeats
from tests.elbo_audit.models import N_TRAIN, batches, outcomes


def test_the_averages():
    # mean (.4, .4, .2); geometric (sqrt .07, sqrt .12, sqrt .03) = (.265, .346, .173), which sums to .784
    draws = torch.tensor([[[0.7, 0.2, 0.1]], [[0.1, 0.6, 0.3]]]).log()
    mean = draws.exp().mean(0)
    geometric = draws.mean(0).exp()
    found = {f.rule: f.outcome for f in elbo_audit.audit_prediction(draws, mean)}
    assert found == {"unnormalised-probabilities": "passes", "log-average": "passes"}
    found = {f.rule: f.outcome for f in elbo_audit.audit_prediction(draws, geometric / geometric.sum())}
    assert found == {"unnormalised-probabilities": "passes", "log-average": "fails"}
    found = {f.rule: f.outcome for f in elbo_audit.audit_prediction(draws, geometric)}
    assert found == {"unnormalised-probabilities": "fails", "log-average": "fails"}
    alike = draws[:1].expand(2, 1, 3)
    assert elbo_audit.audit_prediction(alike, alike[0].exp())[1].outcome == "not measured"
    with pytest.raises(AuditError, match=r"give \[S, B, K\]"):
        elbo_audit.audit_prediction(draws, mean[0])
    with pytest.raises(AuditError, match="ndarray was given; give a torch tensor"):
        elbo_audit.audit_prediction(draws.numpy(), mean)
    with pytest.raises(AuditError, match="NaN"):
        elbo_audit.audit_prediction(draws, mean * math.nan)


def test_the_entropies():
    draws = torch.tensor([[[0.7, 0.2, 0.1]], [[0.1, 0.6, 0.3]]]).log()
    mean, geometric = draws.exp().mean(0), draws.mean(0).exp()
    assert elbo_audit.entropy_of(draws, -(mean * mean.log()).sum(1)).outcome == "passes"
    assert elbo_audit.entropy_of(draws, -(geometric * geometric.log()).sum(1)).outcome == "fails"
    normalised = geometric / geometric.sum()
    assert elbo_audit.entropy_of(draws, -(normalised * normalised.log()).sum(1)).outcome == "passes"
    bits = elbo_audit.entropy_of(draws, -(mean * mean.log2()).sum(1))  # right, in another unit
    assert bits.outcome == "not measured"
    assert "the entropy, in nats, of none of the known means" in bits.detail
    with pytest.raises(AuditError, match=r"give \[S, B, K\] and \[B\]"):
        elbo_audit.entropy_of(draws, torch.zeros(3))


def test_probabilities_of_zero_repeat():
    # log 0 - log 0 is not a number, and no difference either
    logs = torch.tensor([[0.0, -math.inf], [-0.7, -0.7]])
    assert repeats(lambda: logs, deterministic=True).outcome == "passes"
    answers = iter([logs, logs.flip(1)])
    assert repeats(lambda: next(answers), deterministic=True).outcome == "fails"


def test_dropout_left_on():
    network = nn.Sequential(nn.Linear(7, 20), nn.Dropout(0.5), nn.Linear(20, 1))
    x = batches()[0][0]

    def report():
        return elbo_audit.audit_torch(
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


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("n_classes", [2, 10, 1000])
@pytest.mark.parametrize("kept", [True, False])
def test_half_precision_is_normalised_and_its_mean_is_told(kind, n_classes, kept):
    # bfloat16 rounds a probability by up to 0.4 %: right sums were off 1 by .002, and failed.
    source = torch.Generator().manual_seed(0)
    draws = (2 * torch.randn(20, 50, n_classes, generator=source)).log_softmax(-1).to(kind)
    mean = draws.double().exp().mean(0).to(kind)
    given = (draws, mean) if kept else (draws.float(), mean.float())  # NumPy has no bfloat16, so that many upcast
    sums, average = elbo_audit.audit_prediction(*given)
    assert sums.outcome == "passes", sums.detail
    assert "sum farthest from 1 is " in sums.detail
    assert average.outcome == "passes", average.detail
    wide = elbo_audit.audit_prediction(draws, (0.97 * mean.double()).to(kind))[0]
    assert wide.outcome == "fails"
    entropies = -torch.xlogy(mean.double(), mean.double()).sum(-1).to(kind)
    assert elbo_audit.entropy_of(draws, entropies).outcome != "fails"
