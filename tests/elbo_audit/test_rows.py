"""Does each row count once? A mean in the place of a sum, rows that broadcast, and weights that differ by batch."""

import math

import pytest
import torch
from torch.distributions import Normal
from torch.nn import functional

import elbo_audit
from elbo_audit.errors import AuditError
from elbo_audit.rows import pairs_all
from elbo_audit.torch_objective import TorchObjective
from tests.elbo_audit.models import BATCH, N_TRAIN, PRIOR, STEPS, Model, Single, audit, batches, outcomes


@pytest.mark.parametrize(
    "scale",
    [
        lambda x: 1 / len(x),  # a mean
        lambda x: N_TRAIN / len(x),  # a mean, times N
        lambda x: 1 / (len(x) * x.shape[1]),  # a mean over rows and columns
    ],
)
@pytest.mark.parametrize("loss_is", ["right", "a mean with KL / M"])
def test_an_nll_that_is_no_sum_over_the_rows_is_said(model, scale, loss_is):
    # Taken for a sum, the mean made a right objective fail, and a KL that counts 128 times pass.
    def loss(x, y):
        return (model.nll(x, y) if loss_is == "right" else model.nll(x, y) / len(x)) + model.kl() / STEPS

    with pytest.raises(
        AuditError, match=r"nll= is no sum over the rows: it is .* as a mean is; give the sum"
    ) as raised:
        audit(model, loss, nll=lambda x, y: model.nll(x, y) * scale(x))
    assert "\n" not in str(raised.value)


def dropped(net, x, y):
    return -Normal(net(functional.dropout(x, 0.3)), 1.0).log_prob(y).sum()


def locally_drawn(net, x, y):
    noise = torch.randn(len(x), 5) * 0.1
    return -Normal(torch.tanh(x @ net.first.draw() + noise) @ net.second.draw(), 1.0).log_prob(y).sum()


def normalised(net, x, y):
    whitened = functional.batch_norm(x, None, None, training=True)
    return -Normal(net(whitened), 1.0).log_prob(y).sum()


@pytest.mark.parametrize("nll", [dropped, locally_drawn, normalised])
def test_noise_of_single_rows_and_batch_normalisation_are_no_mean(model, nll):
    report = audit(model, lambda x, y: nll(model, x, y) + model.kl() / STEPS, nll=lambda x, y: nll(model, x, y))
    assert report.ok, str(report)
    assert outcomes(report)["wrong-likelihood"] == outcomes(report)["kl-scale"] == "passes"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda f, y: ((f - y[:, 0]) ** 2).sum() / 2,  # [B, 1] and [B]
        lambda f, y: -Normal(f[:, 0], 1.0).log_prob(y).sum(),  # [B] and [B, 1]
        lambda f, y: (f[None] - y[:, None]).square().sum(),  # [1, B, 1] and [B, 1, 1]
    ],
)
def test_rows_that_broadcast_fail_though_nll_repeats_the_mistake(model, wrong):
    def nll(x, y):
        return wrong(model(x), y)

    report = audit(model, lambda x, y: nll(x, y) + model.kl() / STEPS, nll=nll)
    assert report.of("wrong-likelihood").outcome == "fails"
    assert "broadcast to B x B terms" in report.of("wrong-likelihood").detail
    assert report.of("wrong-likelihood").advice.cause == "rows"
    assert outcomes(report)["kl-scale"] == "not measured"


BROADCASTS = [
    lambda f, y: ((f - y[:, 0]) ** 2).mean() / 2,  # [B, 1] and [B]
    lambda f, y: -Normal(f[:, 0], 1.0).log_prob(y).mean(1).sum(),  # [B] and [B, 1]
    lambda f, y: (f.expand(3, -1, 1) - y[:, 0]).square().mean(0).sum() / 2,  # three draws [3, B, 1] and [B]
]
PAIRED = [
    lambda f, y: ((f - y) ** 2).mean() / 2,
    lambda f, y: -Normal(0 * f + 1, 1.0).log_prob(y).sum(),  # no row's prediction depends on x
    lambda f, y: -Normal(f + torch.randn(f.shape), 1.0).log_prob(y).sum(),  # each row has noise of its own
    lambda f, y: -Normal(f, 1.0).log_prob(torch.zeros_like(y)).sum(),  # every row has one target
    lambda f, y: -Normal(0.0, functional.softplus(f)).log_prob(y).sum(),  # of x, the standard deviation alone
    lambda f, y: functional.binary_cross_entropy_with_logits(f, (y > 9).float(), reduction="sum"),
]


@pytest.mark.parametrize("has_nll", [True, False])
@pytest.mark.parametrize("wrong", BROADCASTS)
def test_rows_that_broadcast_in_the_loss_alone_fail(model, wrong, has_nll):
    report = audit(model, lambda x, y: wrong(model(x), y) + model.kl() / STEPS, nll=model.nll if has_nll else None)
    assert "two rows of a batch may swap" in report.of("wrong-likelihood").detail
    assert report.of("wrong-likelihood").advice.cause == "rows"
    assert outcomes(report)["kl-scale"] == "not measured"


@pytest.mark.parametrize("right", PAIRED)
def test_a_loss_that_pairs_each_row_with_its_target_does_not_broadcast(model, right):
    objective = TorchObjective(lambda x, y: right(model(x), y), model.named_parameters(), batches())
    assert pairs_all(objective, 8) == ""


@pytest.mark.parametrize("shape", [(12, 50, 8), (50, 12, 8)])
def test_first_sizes_that_disagree_are_said(shape):
    net = Single()
    given = [(torch.randn(shape), torch.randn(62 - shape[0])) for _ in range(3)]
    with pytest.raises(AuditError, match=f"begin with {shape[0]} and {62 - shape[0]} rows; give tensors, rows first"):
        elbo_audit.audit_torch(net.nll, net.named_parameters(), given, 600)


COUNTS, ROWS, N = (42, 28, 11), 50, 2000
LABELLED = N / ROWS * sum(COUNTS) / len(COUNTS)


def partly_labelled():
    """Return batches of which 42, 28 and 11 rows have a label; the label of the others is -100."""
    source = torch.Generator().manual_seed(3)
    found = []
    for count in COUNTS:
        y = torch.randint(5, (ROWS,), generator=source)
        y[count:] = -100
        found.append((torch.randn(ROWS, 7, generator=source), y))
    return found


def audited(net, loss, nll, given):
    return elbo_audit.audit_torch(loss, net.named_parameters(), given, N, nll=nll, prior_std=1.0)


@pytest.mark.parametrize("kind", ["exact", "sampled", "twice"])
def test_a_mean_over_labelled_rows_has_a_weight_in_each_batch(kind):
    # By one weight for all batches the loss seemed to count the NLL -.0008 times.
    net = Single()

    def loss(x, y):
        w = net.draw()
        drawn = (Normal(net.weight_mu, net.sigma).log_prob(w) - Normal(0.0, 1.0).log_prob(w)).sum()
        kl = drawn if kind == "sampled" else net.analytic()
        return functional.cross_entropy(x @ w.T, y) + (2 if kind == "twice" else 1) * kl / LABELLED

    def nll(x, y):
        return functional.cross_entropy(x @ net.draw().T, y, reduction="sum")

    report = audited(net, loss, nll, partly_labelled())
    finding = report.of("wrong-likelihood")
    assert finding.outcome == "fails"
    assert "the batches 1/42, 1/28, 1/11 times, one over the labelled rows (label not -100)" in finding.detail
    assert outcomes(report)["kl-scale"] == ("fails" if kind == "twice" else "passes")
    # tolerance: a drawn KL of 35 weights in 24 draws; others differ by rounding only
    assert report.numbers["kl_per_epoch"] == pytest.approx(2 if kind == "twice" else 1, rel=0.02)


def test_a_masked_mean_is_one_over_the_mask():
    net = Single()
    given = [(x, y.clamp(min=0), 0.5 * (y >= 0)) for x, y in partly_labelled()]

    def nll(x, y, mask):
        return (functional.cross_entropy(x @ net.draw().T, y, reduction="none") * mask).sum()

    report = audited(net, lambda x, y, mask: nll(x, y, mask) / mask.sum() + net.analytic() / N, nll, given)
    assert "1/21, 1/14, 1/5.5 times, one over the sum of a mask" in report.of("wrong-likelihood").detail
    whole = audited(net, lambda x, y, mask: nll(x, y, mask) + net.analytic() * ROWS / N, nll, given)
    assert whole.ok, str(whole)


def test_a_mean_by_class_weights_has_positive_weights():
    net, classes = Single(), torch.tensor([1.0, 2.0, 3.0, 0.5, 4.0])
    given = [
        (x, torch.randint(5, (ROWS,), generator=torch.Generator().manual_seed(k)))
        for k, (x, _) in enumerate(partly_labelled())
    ]

    def nll(x, y, reduction="sum"):
        return functional.cross_entropy(x @ net.draw().T, y, weight=classes, reduction=reduction)

    report = audited(net, lambda x, y: nll(x, y, "mean") + net.analytic() / N, nll, given)
    shown = ", ".join(f"1/{float(classes[y].sum()):.4g}" for _, y in given)
    assert f"the summed NLL of the batches {shown} times" in report.of("wrong-likelihood").detail


def energy(model, alpha, rows):
    """Return the alpha-energy of 25 draws, of the batch or of each row, and the mean NLL of the same draws."""

    def draws(x, y):
        each = torch.stack([-Normal(model(x), 1.0).log_prob(y)[:, 0] for _ in range(25)])
        return each if rows else each.sum(1, keepdim=True)

    def loss(x, y):
        each = draws(x, y)
        return ((math.log(len(each)) - torch.logsumexp(-alpha * each, 0)) / alpha).sum() + model.kl() / STEPS

    return loss, lambda x, y: draws(x, y).mean(0).sum()


@pytest.mark.parametrize(("alpha", "rows"), [(0.001, False), (0.01, False), (0.5, True), (0.02, True)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_an_alpha_energy_is_another_likelihood(alpha, rows, seed):
    # At .001 its losses follow the NLL to a ten-thousandth, and its gradient moved the KL's weight to .55.
    model = Model()
    with torch.no_grad():
        for value in model.parameters():
            value.add_(0.1 * torch.randn(value.shape, generator=torch.Generator().manual_seed(seed)))
    loss, nll = energy(model, alpha, rows)
    report = audit(model, loss, nll=nll, prior_std=PRIOR)
    assert report.of("wrong-likelihood").outcome == "fails"
    assert {outcomes(report)[rule] for rule in ("kl-scale", "kl-sign", "variance-as-std")} == {"not measured"}


@pytest.mark.parametrize("share", [lambda x: len(x) / N_TRAIN, lambda x: BATCH / N_TRAIN], ids=["rows / N", "1 / M"])
def test_a_kl_that_grows_with_the_rows_is_a_kl(model, share):
    report = audit(model, lambda x, y: model.nll(x, y) + share(x) * model.kl(), prior_std=PRIOR)
    assert report.ok, str(report)
    assert report.of("kl-scale").outcome == "passes"


SHORT = 2 * BATCH + 32  # rows: two batches and a short one


@pytest.mark.parametrize(
    ("divided", "n_batches", "outcome"),
    [
        (2, None, "passes"),  # N // B: right if the short batch is dropped, which is said
        (2, 2, "passes"),
        (2, 3, "fails"),  # a loader that keeps it counts the KL 1.5 times
        (3, range(3), "passes"),  # anything with a length, such as a loader
        (3, 2, "fails"),
    ],
)
def test_the_number_of_batches_is_the_loaders(model, divided, n_batches, outcome):
    report = elbo_audit.audit_torch(
        lambda x, y: model.nll(x, y) + model.kl() / divided,
        model.named_parameters(),
        batches(),
        SHORT,
        nll=model.nll,
        n_batches=n_batches,
    )
    finding = report.of("kl-scale")
    assert finding.outcome == outcome
    assert ("assuming 2 batches in an epoch, a short last one dropped" in finding.detail) is (n_batches is None)
    if n_batches is not None:
        # tolerance: the KL of each step is exact but for float32's rounding of the likelihood's gradient
        assert report.numbers["kl_per_epoch"] == pytest.approx(
            (3 if n_batches in (3, range(3)) else 2) / divided, rel=1e-3
        )


@pytest.mark.parametrize("share", [1.0, 1 / SHORT, 7.0], ids=["sum", "sum / N", "7 times the sum"])
@pytest.mark.parametrize(
    ("divided", "n_batches", "outcome"), [(3, 3, "passes"), (2, 3, "fails"), (2, 2, "passes"), (3, None, "passes")]
)
def test_a_multiple_of_a_sum_depends_on_the_number_of_batches(model, share, divided, n_batches, outcome):
    report = elbo_audit.audit_torch(
        lambda x, y: share * (model.nll(x, y) + model.kl() / divided),
        model.named_parameters(),
        batches(),
        SHORT,
        nll=model.nll,
        n_batches=n_batches,
    )
    assert report.of("kl-scale").outcome == outcome, str(report)
    if outcome == "passes":
        assert report.numbers["kl_per_epoch"] == pytest.approx(1, rel=1e-3)  # tolerance: as above


@pytest.mark.parametrize("times", [1, SHORT])
def test_a_mean_over_rows_does_not_depend_on_the_number_of_batches(model, times):
    report = elbo_audit.audit_torch(
        lambda x, y: times * (model.nll(x, y) / len(x) + model.kl() / SHORT),
        model.named_parameters(),
        batches(),
        SHORT,
        nll=model.nll,
        n_batches=3,
    )
    assert report.ok
    assert "assuming" not in report.of("kl-scale").detail


def test_a_loader_of_other_batches_is_said(model):
    with pytest.raises(AuditError, match=r"n_batches is 7, and n_train / B is 2\.25"):
        elbo_audit.audit_torch(model.elbo, model.named_parameters(), batches(), SHORT, nll=model.nll, n_batches=7)
