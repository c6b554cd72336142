"""Objectives as other people write them: each tensor's KL with another weight, aliases, overwritten noise, decay."""

import pytest
import torch
from torch import nn

import elbo_audit
from elbo_audit.kl_weight import TensorWeight
from elbo_audit.least_squares import MeanOfDraws
from elbo_audit.patterns import Setting, advice
from elbo_audit.rules import RULES
from tests.elbo_audit.models import BATCH, N_TRAIN, STEPS, Single, audit, batches


def weighed(model, first, second):
    """Return a loss that gives the KL of the first layer (35 weights) and of the second (5) each its own weight."""
    return lambda x, y: model.nll(x, y) + (first * model.first.kl() + second * model.second.kl()) / STEPS


EACH = "let every tensor's KL count once: multiply first.weight_mu, first.weight_rho by 2, second.weight_mu"
ONE = "multiply the KL of second.weight_mu, second.weight_rho by {}: the others count once"


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [(1, 5, ONE.format("0.2")), (1, 1.9, ONE.format("0.526")), (1, 0.55, ONE.format("1.82")), (0.5, 3, EACH)],
)
def test_each_tensor_has_a_weight_of_its_own_and_the_advice_names_it(model, first, second, words):
    report = audit(model, weighed(model, first, second))
    finding = report.of("kl-scale")
    assert finding.outcome == "fails"
    assert "kl_per_epoch" not in report.numbers  # no one number stands for them
    assert report.kl_weights == pytest.approx(
        {"first.weight_mu, first.weight_rho": first, "second.weight_mu, second.weight_rho": second}, rel=0.01
    )
    assert finding.measured["most"] / finding.measured["least"] == pytest.approx(
        max(first, second) / min(first, second), rel=0.02
    )
    assert finding.detail.startswith(words)
    assert "to do" not in finding.words()


def test_a_mean_over_each_tensor_is_named(model):
    # KL / n of each tensor in each batch: N / (B n) = 468.75 / 35 and 468.75 / 5
    detail = audit(model, weighed(model, STEPS / 35, STEPS / 5)).of("kl-scale").detail
    assert "a mean over each tensor; sum it" in detail
    assert "every batch pays the whole KL" in detail  # what is left when it is summed


@pytest.mark.parametrize(
    ("mean", "weight", "words"),
    [
        (False, STEPS, "every batch pays the whole KL"),
        (False, 1 / BATCH, "divided by N, but the loss is a sum"),
        (True, N_TRAIN, "N is forgotten"),
        (True, STEPS, "divided by the batch size"),
        (True, BATCH, "divided by the number of batches"),
        (False, 1 / 40, "divided by the 40 weights"),
        (False, 0.3, "multiply the KL by 3.33"),
    ],
)
def test_a_wrong_weight_that_all_tensors_have_is_measured_and_the_advice_fits_it(model, mean, weight, words):
    rows = BATCH if mean else 1

    def loss(x, y):
        return (model.nll(x, y) + weight * model.kl() / STEPS) / rows

    report = audit(model, loss)
    assert report.of("kl-scale").outcome == "fails"
    assert report.numbers["kl_per_epoch"] == pytest.approx(weight, rel=0.01)
    assert report.of("kl-sign").outcome == "passes"
    assert words in report.of("kl-scale").detail
    assert not report.of("kl-scale").remedy  # the rule's own need not fit the pattern


@pytest.mark.parametrize("biases", [(3, 5), (4, 2)])  # layers of 15 and 25 weights; two of 14
def test_a_mean_over_each_layer_is_named(biases):
    # summed rows, and KL / n of each layer in each of 100 batches: 100 / n of weights and bias
    sizes = {"fc0.weight": 12, "fc0.bias": biases[0], "fc1.weight": 20, "fc1.bias": biases[1]}
    if biases == (4, 2):
        sizes |= {"fc0.weight": 10, "fc1.weight": 12}
    layer = {name: sum(n for other, n in sizes.items() if other[:3] == name) for name in ("fc0", "fc1")}
    tensors = [
        TensorWeight(f"{name}_mu, {name}_rho", n, MeanOfDraws(100 / layer[name[:3]], 1e-6), MeanOfDraws(1.0, 0.1))
        for name, n in sizes.items()
    ]
    common = None if biases == (3, 5) else TensorWeight("all", 28, MeanOfDraws(100 / 14, 1e-6))
    found, what = advice(tensors, common, Setting(1000, 10, 1.0))
    assert what.cause == "weight"
    assert "a mean over each layer (weights and bias together)" in found
    assert ("every batch pays the whole KL" in found) or found.endswith("weigh it by 1 / M")


def test_a_missing_entropy_is_no_missing_kl(model):
    def loss(x, y):
        layers = (model.first, model.second)
        return model.nll(x, y) + sum((part.sigma() ** 2 + part.weight_mu**2).sum() for part in layers) / 8 / STEPS

    finding = audit(model, loss).of("kl-scale")
    assert finding.outcome == "fails"
    assert "the sum of log sigma, is missing; subtract it from the loss" in finding.detail
    assert not finding.remedy


def test_a_warm_up_that_counts_calls_is_not_measured(model):
    calls = []

    def loss(x, y):
        calls.append(0)
        return model.nll(x, y) + min(1.0, len(calls) / 10_000) * model.kl() / STEPS

    report = audit(model, loss)
    assert report.ok
    assert "warm-up" in report.of("kl-scale").detail
    assert report.of("kl-scale").outcome == "not measured"


def re_weighed(model, n_batches, whole):
    """Batch i of M pays whole 2^(M - i) / (2^M - 1) of the KL (Blundell et al. 2015, 3.4): over the epoch, `whole`."""
    shares = [whole * 2.0 ** (n_batches - i) / (2**n_batches - 1) for i in range(1, n_batches + 1)]
    given = [(x, y, torch.tensor(share)) for (x, y), share in zip(batches(3), shares, strict=False)]
    return elbo_audit.audit_torch(
        lambda x, y, share: model.nll(x, y) + share * model.kl(),
        model.named_parameters(),
        given,
        n_batches * len(given[0][0]),
        nll=lambda x, y, share: model.nll(x, y),
        draws=9,
    ).of("kl-scale")


def test_a_re_weighting_over_batches_counts_by_its_sum_over_an_epoch(model):
    finding = re_weighed(model, 3, 1.0)  # shares 4/7, 2/7, 1/7
    assert finding.outcome == "passes"
    assert finding.measured["kl_per_epoch"] == pytest.approx(1, rel=1e-3)
    finding = re_weighed(model, 3, 7.0)  # 2^(M - i), not divided by their sum
    assert finding.outcome == "fails"
    assert finding.measured["kl_per_epoch"] == pytest.approx(7, rel=1e-3)


def test_a_part_of_a_re_weighted_epoch_is_not_measured(model):
    finding = re_weighed(model, 4, 1.0)  # the first three of four batches hold 14/15 of the KL
    assert finding.outcome == "not measured"
    assert "batches of one whole epoch" in finding.detail


def test_two_names_of_one_storage_are_one_parameter():
    net = Single()
    again = nn.Parameter(net.weight_mu.data)  # as a sampler keeps it: the forward pass sees only this one
    assert again.data_ptr() == net.weight_mu.data_ptr()
    own, net.weight_mu = net.weight_mu, again
    named = [("weight_mu", own), *net.named_parameters(prefix="sampler")]
    named += [("weight_rho", net.weight_rho), ("tied.weight_rho", net.weight_rho)]
    report = elbo_audit.audit_torch(net.elbo, named, batches(), N_TRAIN, nll=net.nll, prior_std=1.0)
    assert report.ok, str(report)
    named = [("weight_mu", own), ("weight_rho", net.weight_rho), *net.named_parameters(prefix="sampler")]
    report = elbo_audit.audit_torch(net.elbo, named, batches(), N_TRAIN, nll=net.nll, prior_std=1.0)
    assert report.ok, str(report)
    assert report.numbers["kl_per_epoch"] == pytest.approx(1, rel=1e-3)


def two_passes(net, noise):
    """Return loss and nll of the mean of two passes that share a buffer of noise."""

    def nll(x, y):
        values = []
        for _ in range(2):
            noise.data.normal_()
            w = net.weight_mu + nn.functional.softplus(net.weight_rho) * noise
            values.append(net._nll(x, y, w))
        return torch.stack(values).mean()

    return lambda x, y: nll(x, y) + net.analytic() / STEPS, nll


def test_noise_that_a_second_pass_overwrites_gives_no_number_of_the_kl():
    # The product rule keeps the buffer, not its values: backward of the first pass sees the second pass's noise.
    net = Single()
    net.register_buffer("noise", torch.zeros(5, 7))
    loss, nll = two_passes(net, net.noise)
    report = audit(net, loss, nll=nll, prior_std=1.0)
    finding = report.of("detached-gradient")
    assert finding.outcome == "fails"
    assert "weight_rho (gradient" in finding.detail
    assert "by steps of" in finding.detail
    assert "the loss writes a tensor of 5 x 7 (as weight_rho) in place" in finding.detail
    assert "draw noise anew" in finding.detail
    assert not finding.remedy
    assert [f.rule for f in report.findings if f.outcome == "fails"] == ["detached-gradient"]
    assert not report.numbers.keys() & {"kl_per_epoch", "prior_std"}
    named = [*net.named_parameters(), *net.named_buffers()]
    finding = elbo_audit.audit_torch(loss, named, batches(), N_TRAIN, nll=nll).of("detached-gradient")
    assert "the loss writes noise in place" in finding.detail


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_overwritten_noise_fails_where_the_slope_differs_little(seed):
    # Here the slope along the gradient is within 30 % of autograd's by chance.
    net = Single(start=-1.0)
    with torch.no_grad():
        net.weight_mu.copy_(0.5 * torch.randn(5, 7, generator=torch.Generator().manual_seed(seed)))
    loss, _ = two_passes(net, torch.zeros(5, 7))
    finding = audit(net, loss, nll=None).of("detached-gradient")
    assert finding.outcome == "fails"
    assert "changes the gradient of weight_rho: draw noise anew" in finding.detail


def test_a_loss_that_hides_what_autograd_saves_is_judged_by_its_slopes():
    net = Single()

    def loss(x, y):  # torch.func does not allow hooks on what autograd saves
        value = net.weight_mu.detach() * net.weight_mu
        slope = torch.func.grad(lambda w: (w**2).sum())(net.weight_mu.detach())
        return net.nll(x, y) + value.sum() + 0 * slope.sum()

    finding = audit(net, loss, nll=net.nll).of("detached-gradient")
    assert finding.outcome == "fails"
    assert "weight_mu (gradient" in finding.detail
    assert finding.remedy == RULES["detached-gradient"].remedy


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD])
def test_decay_of_means_and_scales_fails(model, kind):
    def report(**options):
        optimizer = kind(model.parameters(), lr=0.1, **options)
        return audit(model, model.elbo, optimizer=optimizer, epochs=10)

    finding = report(weight_decay=0.01).of("decayed-posterior")
    assert finding.outcome == "fails"
    assert finding.measured["tensors"] == 4
    assert "first.weight_rho (0.01)" in finding.detail
    assert report(weight_decay=0.0).of("decayed-posterior").outcome == "passes"


def test_decay_of_what_has_no_distribution_is_no_mistake(model):
    model.head = nn.Linear(1, 1)
    groups = [{"params": model.head.parameters(), "weight_decay": 0.1}, {"params": model.first.parameters()}]
    loss = weighed(model, 1, 1)
    report = audit(model, loss, optimizer=torch.optim.SGD(groups, lr=0.1), epochs=10)
    assert report.of("decayed-posterior").outcome == "passes"


def test_steps_stay_where_the_loss_is_finite():
    net = Single()
    start = net.weight_mu.detach().clone()

    def wall():  # infinite at a distance of .05 from the given means, whose length is 1.8
        near = (net.weight_mu - start).norm() < 0.05
        return torch.where(near, torch.zeros(()), torch.tensor(torch.inf))

    report = audit(net, lambda x, y: net.nll(x, y) + net.analytic() / STEPS + wall(), nll=net.nll, prior_std=1.0)
    assert report.ok, str(report)
    assert report.numbers["kl_per_epoch"] == pytest.approx(1, rel=0.02)


def test_opposite_moves_of_sigma_do_not_cancel():
    # The loss is linear in rho with slopes of +-1: the mean gradient is 0, each number moves by rate x steps = .469.
    mu, rho = torch.zeros(6, requires_grad=True), torch.full((6,), -2.0, requires_grad=True)
    signs = torch.tensor([1.0, -1.0] * 3)

    def loss(x, y):
        return x.sum() * mu.sum() + (signs * rho).sum()

    named = [("w_mu", mu), ("w_rho", rho)]
    optimizer = torch.optim.SGD([mu, rho], lr=1e-3)
    finding = elbo_audit.audit_torch(loss, named, batches(), N_TRAIN, optimizer=optimizer).of("sigma-frozen")
    # d log sigma / d rho = sigmoid(-2) / softplus(-2) = .939
    assert finding.measured["relative change"] == pytest.approx(469 * 1e-3 * 0.939, rel=1e-3)
    assert finding.outcome == "passes"
