"""What is the loss: the weight of the likelihood, what else it holds; which mean of the draws is a prediction."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

import elbo_audit
from elbo_audit.errors import AuditError
from elbo_audit.predictions import repeats
from tests.elbo_audit.models import BATCH, N_TRAIN, PRIOR, STEPS, Linear, Single, audit, batches, outcomes


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda m: lambda x, y: -(m.nll(x, y) + m.kl() / STEPS), "-1 times"),
        (lambda m: lambda x, y: -m.nll(x, y) + m.kl() / STEPS, "-1 times"),
        (lambda m: lambda x, y: 0 * m.nll(x, y) + m.kl() / STEPS, "no likelihood"),
    ],
    ids=["all turned", "likelihood turned", "KL alone"],
)
def test_a_likelihood_that_does_not_count_as_such(model, loss, message):
    # proportional to the NLL, so that its misfit is none: only the weight's sign shows it
    report = audit(model, loss(model))
    assert report.of("wrong-likelihood").outcome == "fails"
    assert message in report.of("wrong-likelihood").detail
    assert outcomes(report)["kl-scale"] == outcomes(report)["kl-sign"] == "not measured"


def test_a_loss_that_is_no_likelihood(model):
    clean = audit(model, lambda x, y: 3 * model.nll(x, y))
    assert clean.of("wrong-likelihood").outcome == "passes"
    assert clean.numbers["data_weight"] == pytest.approx(3, rel=1e-3)
    wrong = audit(model, lambda x, y: x.square().sum() + model.nll(x, y))
    assert wrong.of("wrong-likelihood").outcome == "fails"


@pytest.mark.parametrize(
    ("loss", "nll"),
    [
        (lambda net, x, y: (torch.randn(3), net.nll(x, y))[1], lambda net, x, y: net.nll(x, y)),
        (lambda net, x, y: sum(net.nll(x, y) for _ in range(3)) / 3, lambda net, x, y: net.nll(x, y)),
        (lambda net, x, y: net.nll(x, y), lambda net, x, y: net._nll(x, y, net.weight_mu)),
    ],
    ids=["noise before", "three draws a step", "NLL of the mean weights"],
)
@pytest.mark.parametrize("start", [-3.0, 0.0])
def test_an_nll_with_other_noise_is_no_other_likelihood(loss, nll, start):
    # The objectives are right. By the slope within a draw the likelihood counted .07 to 1.15 times.
    net = Single(start=start)
    report = audit(net, lambda x, y: loss(net, x, y) + net.analytic() / STEPS, nll=lambda x, y: nll(net, x, y))
    assert report.of("wrong-likelihood").outcome == "not measured"
    assert "draws like the loss" in report.of("wrong-likelihood").detail
    assert {outcomes(report)[rule] for rule in ("kl-scale", "kl-sign", "variance-as-std")} == {"not measured"}


def test_several_draws_a_step_are_audited_with_as_many():
    net = Single()

    def nll(x, y):
        return sum(net.nll(x, y) for _ in range(3)) / 3

    report = audit(net, lambda x, y: nll(x, y) + net.analytic() / STEPS, nll=nll)
    assert report.of("wrong-likelihood").outcome == report.of("kl-scale").outcome == "passes"


def test_another_likelihood_is_seen_through_its_own_noise():
    # Four draws a step beside an NLL of one, and a wrong loss: what is wrong outlasts the noise.
    net = Single(start=-4.0)

    def loss(x, y):
        return sum(net.nll(x, y) for _ in range(4)) / 4 + 3 * x.square().sum()

    assert audit(net, loss, nll=net.nll, draws=64).of("wrong-likelihood").outcome == "fails"


def test_a_constant_that_rounds_the_likelihood_away_does_not_hide_it(model):
    # float32 at 1e8 counts in steps of 8, and the batches' losses differ by less than 100: their gradients still tell
    report = audit(model, lambda x, y: model.nll(x, y) + model.kl() / STEPS + 1e8, prior_std=PRIOR)
    assert report.numbers["data_weight"] == pytest.approx(1, rel=1e-3)
    assert report.numbers["kl_per_epoch"] == pytest.approx(1, rel=0.02)
    assert report.ok
    # a mean over rows beside the whole KL, here as large as that of a network with a thousand times the weights
    report = audit(model, lambda x, y: model.nll(x, y) / BATCH + 1e3 * model.kl())
    assert report.numbers["kl_per_epoch"] == pytest.approx(1e3 * STEPS * BATCH, rel=0.02)
    assert outcomes(report)["wrong-likelihood"] == "passes"


def test_another_likelihood_behind_such_a_constant_is_not_judged(model):
    report = audit(model, lambda x, y: model.nll(x, y) + 3 * (model(x) - y).abs().sum() + 1e8)
    assert {report.of(rule).outcome for rule in ("wrong-likelihood", "kl-scale", "kl-sign")} == {"not measured"}
    assert "audit in float64" in report.of("wrong-likelihood").detail


@pytest.mark.parametrize("start", [-2.0, -8.0])
def test_label_smoothing_is_another_likelihood_though_the_losses_hardly_show_it(start):
    # At .04 it is less than a fiftieth of how the losses of batches differ, which was all that was looked at.
    net = Single(start=start)

    def loss(x, y):
        return net._nll(x, y, net.draw(), label_smoothing=0.04) + net.analytic() / STEPS

    report = audit(net, loss, nll=net.nll)
    assert report.of("wrong-likelihood").measured["misfit"] < 0.02
    assert report.of("wrong-likelihood").outcome == "fails"
    assert outcomes(report)["kl-scale"] == "not measured"


def test_a_binary_likelihood_is_seen_through_the_noise_of_its_weights():
    # Its loss follows the NLL from draw to draw by less than .9, as that of a step with other noise might.
    net = Single(start=-1.0)

    def loss(x, y):
        labels = torch.nn.functional.one_hot((y[:, 0] * 2).long() % 5, 5).float()
        cost = torch.nn.functional.binary_cross_entropy_with_logits(x @ net.draw().T, labels, reduction="sum")
        return cost + net.analytic() / STEPS

    assert audit(net, loss, nll=net.nll).of("wrong-likelihood").outcome == "fails"


@pytest.mark.parametrize("n_draws", [1, 3])
def test_other_noise_below_a_fiftieth_is_no_other_likelihood(n_draws):
    # sigma = .0025: the draws differ by 1 % of the losses' range; their gradients have nothing else in common
    net = Single(start=-6.0)

    def loss(x, y):
        torch.randn(3)  # so that the NLL draws otherwise
        return sum(net.nll(x, y) for _ in range(n_draws)) / n_draws + net.analytic() / STEPS

    found = audit(net, loss, nll=net.nll).of("wrong-likelihood")
    assert found.outcome == "passes"
    assert 1e-4 < found.measured["misfit"] < 0.02


@pytest.mark.parametrize("unlike", [0.5, 0.05])
def test_a_kl_that_differs_between_batches_is_no_other_likelihood(unlike):
    # A share of the KL for each batch: all gradients' differences are one vector, times the share.
    net = Single()

    def loss(x, y):
        return net.nll(x, y) + (1 + unlike * torch.tanh(x.sum())) * net.analytic() / STEPS

    assert audit(net, loss, nll=net.nll).of("wrong-likelihood").outcome != "fails"


LABELLED = [(x, (2 * y[:, 0]).round().long().clamp(-2, 2) + 2) for x, y in batches()]  # five classes
YES_OR_NO = [(x, (y > 0).float()) for x, y in batches()]  # [B, 1], as binary cross-entropy has them
CLASSIFIER = nn.ModuleList([Linear(7, 5, 0), Linear(5, 5, 1)])
WEIGHTS = 7 * 5 + 5 * 5


def logits(x, bias=0.3):  # without it, inputs of zero reach no weight
    return torch.tanh(x @ CLASSIFIER[0].draw() + bias) @ CLASSIFIER[1].draw()


def mean_of(x, y):
    return functional.cross_entropy(logits(x), y)


def noisy(x, y):
    return functional.cross_entropy(logits(x, 0.1 * torch.randn(len(x), 5)), y)  # each row has noise of its own


def binary(x, y):
    return functional.binary_cross_entropy_with_logits(logits(x)[:, :1], y)


def unbiased(x, y):
    return functional.cross_entropy(logits(x, 0.0), y)


def without_nll(data, times):
    """Return the audit of a mean over the rows beside a KL, to a prior of 2, that counts so often in a step."""
    return elbo_audit.audit_torch(
        lambda x, y: data(x, y) + times * sum(layer.kl() for layer in CLASSIFIER),
        CLASSIFIER.named_parameters(),
        YES_OR_NO if data is binary else LABELLED,
        N_TRAIN,
        prior_std=PRIOR,
    )


@pytest.mark.parametrize("data", [mean_of, noisy, binary, unbiased, lambda x, y: 500 * mean_of(x, y)])
@pytest.mark.parametrize(  # of an ELBO's KL; the third is a tenth of the mean over the weights
    ("times", "words"), [(1.0, "NLL"), (N_TRAIN, "N is forgotten"), (0.1 * N_TRAIN / WEIGHTS, "by 0.01"), (0.2, "by 5")]
)
def test_the_losses_of_all_labels_show_how_often_a_mean_counts_the_likelihood(data, times, words):
    share = 1 if data in (mean_of, noisy, binary, unbiased) else 500  # N is forgotten of a mean, not of 500 of them
    report = without_nll(data, share * times / N_TRAIN)
    found = report.of("kl-scale")
    assert report.ok is (times == 1.0), str(report)
    few = "passes" if data is unbiased else "not measured"  # of the first layer alone
    assert found.outcome == (few if times == 1.0 else "fails")
    assert words in found.detail or share == 500
    # tolerance: the largest error of the likelihood's weight, a hundredth
    assert found.measured["kl_per_epoch"] == pytest.approx(times, rel=0.01)


@pytest.mark.parametrize(
    "score",  # none is a likelihood of one draw, up to a factor
    [
        lambda f, y: functional.cross_entropy(f, y, label_smoothing=0.1),
        lambda f, y: (f.softmax(1) - functional.one_hot(y, 5)).square().sum(1).mean(),
        lambda f, y: functional.mse_loss(f[:, 0], y.float()),
        functional.multi_margin_loss,
        lambda f, y: functional.cross_entropy(f, torch.where(y == 2, -100, y)),
    ],
    ids=["label smoothing", "Brier", "squares of integers", "margin", "a label is ignored"],
)
@pytest.mark.parametrize("times", [1 / N_TRAIN, 1.0])
def test_the_losses_of_the_labels_of_no_likelihood_show_nothing(score, times):
    report = without_nll(lambda x, y: score(logits(x), y), times)
    assert report.ok
    assert not report.judged
    assert "of all labels" not in str(report)


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
