"""Is autograd's gradient the slope of the loss, do the data reach every parameter, and can sigma move?"""

import math

import pytest
import torch
from torch.distributions import Normal
from torch.nn import functional

import elbo_audit
from elbo_audit.gradients import slopes
from elbo_audit.torch_objective import TorchObjective
from tests.elbo_audit.models import N_TRAIN, STEPS, Linear, Single, audit, batches, elbo_of, sampled_loss


def test_a_detached_mean_is_seen_by_its_slope(model):
    # d log q / d mu = 0 in all, -eps / sigma where the centre is a constant
    finding = audit(model, sampled_loss(model, detach=True)).of("detached-gradient")
    assert finding.outcome == "fails"
    assert "first.weight_mu" in finding.detail
    assert "weight_rho" not in finding.detail


def spike(w):
    """log of N(0, 1) / 2 + N(0, .0005^2) / 2: straight over steps of .01, and steep within its spike."""
    parts = [Normal(0.0, std).log_prob(w) for std in (1.0, 0.0005)]
    return torch.stack(parts).logsumexp(0) - math.log(2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_slope_within_a_spike_is_no_detached_gradient(dtype):
    # The spike is crossed by steps of .1 and .01 of the parameters' size, which agree on what is beyond it.
    values = torch.tensor([0.7, 0.0002, -0.5, 0.0003], dtype=dtype, requires_grad=True)
    three = [(torch.full((2, 1), float(i)),) for i in range(3)]
    (slope,) = slopes(TorchObjective(lambda x: -spike(values).sum(), [("w", values)], three))
    assert not slope.differs
    # What does detach is still seen: the parabola's slope is 2 w, and autograd's half of it.
    (slope,) = slopes(TorchObjective(lambda x: (values * values.detach()).sum(), [("w", values)], three))
    assert slope.differs


@pytest.mark.parametrize("set_seed", [torch.manual_seed, torch.default_generator.manual_seed])
def test_a_loss_that_sets_the_seed_draws_the_same_noise_in_every_step(model, set_seed):
    def seeded(x, y):
        set_seed(3)
        return model.elbo(x, y)

    assert audit(model, seeded).of("repeated-noise").outcome == "fails"
    assert audit(model, model.elbo).of("repeated-noise").outcome == "passes"


def test_a_loss_that_restores_the_generator_does_not_set_its_seed(model):
    # Its own noise is torch's, twice the same within a step: common random numbers, new in the next step.
    def twice(x, y):
        with torch.random.fork_rng():
            first = model.elbo(x, y)
        return (first + model.elbo(x, y)) / 2

    assert audit(model, twice).of("repeated-noise").outcome == "passes"


def test_a_layer_that_data_never_reach(model):
    model.spare = Linear(5, 5, 3)
    report = audit(model, lambda x, y: model.nll(x, y) + (model.kl() + model.spare.kl()) / STEPS)
    assert report.of("unused-layer").outcome == "fails"
    assert "spare.weight_mu" in report.of("unused-layer").detail
    assert "first" not in report.of("unused-layer").detail
    assert report.of("kl-scale").outcome == "passes"


def test_parameters_of_the_prior_are_not_unused():
    # Their gradient is the same whatever the batch: they reach the loss through the prior of weights that data reach.
    learned = Single(lambda net, w: Normal(0.0, net.prior_log_sigma.exp()).log_prob(w), prior_log_sigma=torch.zeros(()))
    finding = audit(learned, elbo_of(learned), nll=learned.nll).of("unused-layer")
    assert finding.outcome == "passes"
    assert "prior_log_sigma, whose gradient other parameters move" in finding.detail
    own = {"prior_mu": torch.zeros(5, 7), "prior_rho": torch.zeros(5, 7)}
    learned = Single(lambda net, w: Normal(net.prior_mu, functional.softplus(net.prior_rho)).log_prob(w), **own)
    report = audit(learned, elbo_of(learned), nll=learned.nll)
    assert report.of("unused-layer").outcome == "passes"
    assert report.of("kl-scale").outcome == "passes"  # where they are no posterior of their own


def test_a_prior_of_a_prior_is_not_unused_but_a_layer_under_it_is():
    def prior(net, w):
        tau = net.prior_tau.exp()
        spare = Normal(0.0, tau).log_prob(net.spare).sum() / w.numel()  # its gradient moves with tau too
        return Normal(0.0, tau).log_prob(w) + (Normal(0.0, net.prior_lambda.exp()).log_prob(tau) + spare) / w.numel()

    net = Single(prior, prior_tau=torch.zeros(()), prior_lambda=torch.zeros(()), spare=torch.ones(3))
    finding = audit(net, elbo_of(net), nll=net.nll).of("unused-layer")
    assert finding.detail.endswith("for spare; use it in the forward pass, or leave it out")


def test_a_sigma_that_the_network_never_uses_is_not_excused_by_its_mean():
    class Mean(Single):
        def _nll(self, x, y, w, **options):
            return super()._nll(x, y, self.weight_mu, **options)

    net = Mean()
    finding = audit(net, elbo_of(net), nll=net.nll).of("unused-layer")
    assert finding.outcome == "fails"
    assert finding.detail.endswith("for weight_rho; use it in the forward pass, or leave it out")


def test_a_sigma_that_cannot_be_trained(model):
    model.first.weight_rho.requires_grad_(False)
    report = audit(model, model.elbo)
    assert report.of("sigma-frozen").outcome == "fails"
    assert "first.weight_rho" in report.of("sigma-frozen").detail
    assert "second" not in report.of("sigma-frozen").detail
    assert report.numbers["kl_per_epoch"] == pytest.approx(1, rel=0.01)  # by the layer that can be trained
    model.second.weight_rho.requires_grad_(False)
    report = audit(model, model.elbo)
    assert report.of("sigma-frozen").outcome == "fails"
    assert report.of("kl-scale").outcome == "not measured"


def test_a_sigma_that_is_a_buffer(model):
    for layer in (model.first, model.second):
        raw = layer.weight_rho.detach()
        del layer.weight_rho
        layer.register_buffer("weight_rho", raw)
    report = audit(model, model.elbo)
    for rule in ("sigma-frozen", "kl-scale"):  # not "not applicable": a mean without a sigma is half of a Gaussian
        assert report.of(rule).outcome == "not measured"
        assert "first.weight_mu" in report.of(rule).detail
    named = [*model.named_parameters(), *model.named_buffers()]
    assert elbo_audit.audit_torch(model.nll, named, batches(), N_TRAIN).of("sigma-frozen").outcome == "fails"


def test_sigma_without_gradient(model):
    draw = Linear.draw
    try:
        Linear.draw = lambda self: self.weight_mu + self.sigma().detach() * torch.randn(self.weight_mu.shape)
        report = audit(model, model.nll)
    finally:
        Linear.draw = draw
    assert report.of("sigma-frozen").outcome == "fails"
    assert report.of("detached-gradient").outcome == "fails"  # sigma decides the draws, autograd does not know


def test_adam_moves_by_its_rate(model):
    # sigma = softplus(-2) = 0.127, d log sigma / d rho = sigmoid(-2) / 0.127 = 0.939; 469 steps of 1e-5: 0.44 %
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)
    finding = audit(model, model.elbo, optimizer=optimizer).of("sigma-frozen")
    assert finding.measured["relative change"] == pytest.approx(469 * 1e-5 * 0.939, rel=1e-3)
    assert finding.outcome == "fails"


class OwnAdam(torch.optim.Adam):
    """A user's kind of Adam."""


@pytest.mark.parametrize(
    ("kind", "reach"),
    [
        (OwnAdam, 469 * 1e-3),
        (torch.optim.Adagrad, 2 * 469**0.5 * 1e-3),  # sum of 1 / root of t over 469 steps
        (torch.optim.Adadelta, None),
    ],
)
def test_how_far_other_optimisers_move_sigma(model, kind, reach):
    finding = audit(model, model.elbo, optimizer=kind(model.parameters(), lr=1e-3)).of("sigma-frozen")
    if reach is None:
        assert finding.outcome == "not measured"
        assert "how far Adadelta takes sigma is not known" in finding.detail
    else:
        assert finding.measured["relative change"] == pytest.approx(reach * 0.939, rel=1e-3)


@pytest.mark.parametrize(
    ("raw", "others", "outcome"),
    [
        (0.0, -2.0, "fails"),  # softplus(0) = log 2
        (0.0, 1.0, "fails"),  # a raw scale of 0 is a reset one, though the others' sigmas are no smaller
        (-1.0, -3.0, "fails"),
        (-2.0, -2.0, "not measured"),  # such as a row of biases that starts at zero
        (0.0, 0.0, "not measured"),
        (-100.0, -2.0, "not measured"),  # sigma is as good as zero
    ],
)
def test_pruned_weights_that_keep_their_noise(model, raw, others, outcome):
    assert audit(model, model.elbo).of("pruned-noise").outcome == "not applicable"
    with torch.no_grad():
        model.first.weight_mu[:, 0] = 0.0
        model.first.weight_rho[:] = others
        model.first.weight_rho[:, 0] = raw
    finding = audit(model, model.elbo).of("pruned-noise")
    assert finding.outcome == outcome
    if outcome == "fails":
        assert finding.measured["noisy"] == 7
        assert f"{math.log1p(math.exp(raw)):.3g}" in finding.detail
    else:
        assert "first.weight_mu" in finding.detail
        assert "started at zero?" in finding.detail


@pytest.mark.parametrize("share", [0.2, 0.5, 0.95])
@pytest.mark.parametrize(("raw", "outcome"), [(-2.0, "fails"), (-9.0, "not measured")])
def test_a_mask_that_leaves_the_noise_is_told_from_means_that_start_at_zero(model, share, raw, outcome):
    # sigma as the others', .127, or a thousandth of it; a mask of 35 weights has its zeros here and there
    with torch.no_grad():
        n = model.first.weight_mu.numel()
        mask = (torch.arange(n) * 7919 % n < share * n).reshape(model.first.weight_mu.shape)
        model.first.weight_mu[mask] = 0.0
        model.first.weight_rho[:] = -2.0
        model.first.weight_rho[mask] = raw
    assert audit(model, model.elbo).of("pruned-noise").outcome == outcome


def test_bfloat16_within_the_loss_rounds_as_bfloat16():
    net = Single()

    def nll(x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = functional.linear(x, net.draw())
        return functional.cross_entropy(out.float(), (y[:, 0] * 2).long() % 5, reduction="sum")

    finding = audit(net, lambda x, y: nll(x, y) + net.analytic() / STEPS, nll=nll).of("detached-gradient")
    assert finding.outcome == "not measured"
    assert "computed in bfloat16; audit without autocast" in finding.detail
