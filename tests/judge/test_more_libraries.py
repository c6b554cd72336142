"""Six further libraries: how often an epoch counts the KL, from loss - NLL and exact KLs, without the auditor."""

import importlib.util
import math

import pytest
import torch
from torch import nn
from torch.distributions import Normal
from torch.nn import functional

from bench.data.torchvision_shim import make_importable
from bench.judge.audit.libraries import library, objectives_more, setting
from bench.judge.audit.libraries.objectives_more import TorchObjective

N = 60_000
SIZES = (6, 30, 30, 30)
COUNTS = (180, 30, 900, 30, 900, 30)  # of the tensors W1, b1, W2, b2, W3, b3
# tolerance: sums of 1e4 numbers in float64, each rounded at 1e-16 of the sum at most: below 1e-11; a hundred times that
EXACT = 1e-9
# tolerance: float32's rounding, 6e-8, of numbers that a library keeps in float32, such as its prior's; ten times that
SINGLE = 1e-6


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(setting, "SIZES", SIZES)
    with setting.seeded():
        yield


def lightning_uq_box(module):
    """Return one of its modules. It asks for Python 3.12 and is in no extra: without it, a test is skipped."""
    if importlib.util.find_spec("lightning_uq_box") is None:
        pytest.skip("lightning-uq-box is not installed")
    make_importable()  # it imports torchvision
    return library(f"lightning_uq_box.{module}")


def kl_of(mean, std, prior_std):
    """Return KL(N(mean, std) || N(0, prior_std)) of each weight: the textbook's formula."""
    return math.log(prior_std) - std.log() + (std.square() + mean.square()) / (2 * prior_std**2) - 0.5


def named(objective, mean, rho):
    """Return means and sigmas of the tensors, paired by the endings of their names."""
    found = dict(objective.model.named_parameters())
    return [(value, functional.softplus(found[rho(name)])) for name, value in found.items() if mean in name]


def under_one_noise(function, batch, seed=1):
    torch.manual_seed(seed)
    return function(*batch).item()


def data_weight_and_rest(objective):
    """Return a and L - a NLL, where a is the slope of the loss on the NLL between two batches under one noise.

    Under one noise, the KL of both batches is the same number, so that it cancels in the difference.
    """
    one, other, _ = setting.batches(objective.batch_size)
    loss, nll = ([under_one_noise(part, rows) for rows in (one, other)] for part in (objective.loss, objective.nll))
    weight = (loss[0] - loss[1]) / (nll[0] - nll[1])
    return weight, loss[0] - weight * nll[0]


def per_epoch(objective, kl):
    """Return how often an epoch of N / B batches counts this KL while it counts the data once."""
    weight, rest = data_weight_and_rest(objective)
    return rest / kl / weight * N / objective.batch_size


def moved(objective):
    """Move all parameters away from their start, where some of the KLs are 0."""
    with torch.no_grad():
        for value in objective.model.parameters():
            value.add_(0.3 * torch.randn_like(value))
    return objective


def test_torchbayesian_counts_a_tenth_of_the_mean_kl():
    pytest.importorskip("torchbayesian")
    objective = moved(objectives_more.torchbayesian(False))
    pairs = named(objective, ".mu", lambda name: name.removesuffix("mu") + "rho")
    kl = sum(kl_of(mean, std, 1.0).sum() for mean, std in pairs).item()
    assert per_epoch(objective, kl) == pytest.approx(0.1 * N / sum(COUNTS), rel=EXACT)
    assert per_epoch(_with_parameters_of(objective, objectives_more.torchbayesian(True)), kl) == pytest.approx(
        1.0, rel=EXACT
    )


def _with_parameters_of(one, other):
    other.model.load_state_dict(one.model.state_dict())
    return other


def test_torchbayesian_leaves_a_shared_weight_without_posterior():
    bnn = pytest.importorskip("torchbayesian.bnn")
    layers = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    layers[1].weight = layers[0].weight  # one tensor in two layers
    names = {name.removeprefix("module.") for name, _ in bnn.BayesianModule(layers).named_parameters()}
    posterior = "0.reparametrizations.weight.variational_posterior"
    assert names == {f"{posterior}.mu", f"{posterior}.rho", "1.weight"}


def test_fastbnns_counts_the_kl_once():
    pytest.importorskip("fastbnns")
    objective = objectives_more.fastbnns(False)
    kl = sum(kl_of(factor.mean(), factor.std(), 0.5).sum() for factor in objective.factors).item()
    assert [factor.mean().numel() for factor in objective.factors] == list(COUNTS)
    assert per_epoch(objective, kl) == pytest.approx((N / 128) / (N // 128), rel=EXACT)


def test_fastbnns_begins_with_a_rho_that_no_optimiser_can_step():
    """All numbers of a rho are one place in memory: an expanded tensor."""
    base = pytest.importorskip("fastbnns.bnn.base")
    model = base.BNN(nn.Sequential(nn.Linear(3, 2)))
    for value in model.parameters():
        value.grad = torch.ones(value.shape)
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.optim.SGD(model.parameters(), lr=0.1).step()


@pytest.mark.parametrize("n", [100, 10_000])
def test_sigma_under_fastbnns_is_the_noise_of_the_rows_for_any_number_of_rows(n):
    """One weight w, inputs 1: its loss is N/2 log s^2 + S / (2 s^2) + KL, S the sum of squares around the mean.

    With a prior of width 1, d/ds^2 = 0 gives s^4 + (N - 1) s^2 - S = 0 up to the small shift of the mean to the prior,
    so that s^2 is S / N at large N. An ELBO with noise v has s^2 = 1 / (N / v + 1).
    """
    pytest.importorskip("fastbnns")
    from fastbnns.bnn import base, losses, priors, types

    model = base.BNN(nn.Sequential(nn.Linear(1, 1, bias=False)))
    rows = 1 + 0.3 * torch.randn(n, 1)
    prior = priors.Distribution(Normal(torch.zeros(1), torch.ones(1)))
    objective = losses.ELBO(nn.GaussianNLLLoss(reduction="sum"), losses.KLDivergence(prior=prior))
    (_, mean), (_, rho) = model.named_parameters()

    def slope(variance):
        with torch.no_grad():
            mean.fill_(rows.mean())
            rho.fill_(math.log(math.expm1(variance**0.5)))
        propagated = model(types.MuVar(torch.ones(n, 1)))
        loss = objective(model=model, input=propagated.mu, target=rows, var=propagated.var)
        return torch.autograd.grad(loss, rho)[0].item()

    squares = (rows - rows.mean()).square().sum().item()
    root = (-(n - 1) + math.sqrt((n - 1) ** 2 + 4 * squares)) / 2
    assert slope(0.99 * root) < 0 < slope(1.01 * root)  # the minimum lies at the root
    assert root == pytest.approx(
        squares / n, rel=2 / n
    )  # tolerance: (1 - s^2) / (N - 1) to first order, and s^2 is above 0


@pytest.mark.parametrize("passes", [1, 3])
def test_bnn_pytorch_counts_the_kl_once_for_each_pass(passes):
    bnn = pytest.importorskip("bnn")
    objective = objectives_more.bnn_pytorch(False, passes)
    batch = setting.batches(128)[0]
    rest = under_one_noise(objective.loss, batch) - under_one_noise(objective.nll, batch)
    torch.manual_seed(1)
    kl = 0.0
    for _ in range(passes):  # the same numbers in the same order as in the loss
        for layer in objective.model:
            for part in ("weight", "bias") if isinstance(layer, bnn.BLinear) else ():
                q = getattr(layer, f"{part}_posterior")
                kl += drawn_kl(q.mean, functional.softplus(q.rho) + 1e-6, (0.1, 0.0005), 0.75)
    assert rest / kl * N / 128 == pytest.approx(N / 128 / math.ceil(N / 128), rel=SINGLE)
    assert rest / (kl / passes) * N / 128 == pytest.approx(passes * N / 128 / 469, rel=SINGLE)


def drawn_kl(mean, std, widths, first):
    """Draw w ~ N(mean, std) and return log q(w) - log p(w), p a mixture of two Gaussians, summed over the weights."""
    w = mean + std * torch.randn_like(std)
    parts = [
        math.log(share) + Normal(0.0, width).log_prob(w)
        for share, width in zip((first, 1 - first), widths, strict=True)
    ]
    return (Normal(mean, std).log_prob(w) - torch.logsumexp(torch.stack(parts), 0)).sum().item()


@pytest.mark.parametrize(("start", "total"), [(0, 1.0), (1, 0.5)])
def test_blundell_weights_of_bnn_pytorch_add_up_to_one_only_if_batches_count_from_zero(start, total):
    """2^(M - i - 1) / (2^M - 1) summed over i = 0..M - 1 is 1; over i = 1..M, as in its example, 1/2."""
    general = pytest.importorskip("bnn.utils.general")
    weights = [general.batch_weight(index, 15, "blundell") for index in range(start, start + 15)]
    assert sum(weights) == pytest.approx(total, rel=1e-12)  # tolerance: fifteen sums in float64


def test_bayesnn_counts_the_kl_once():
    pytest.importorskip("bayesnn")
    objective = moved(objectives_more.bayesnn(False))
    pairs = named(objective, "mean", lambda name: name.replace("mean", "rho"))
    # the prior's sigma is softplus(0), in float32
    kl = sum(kl_of(mean, std, math.log(2)).sum() for mean, std in pairs).item()
    assert per_epoch(objective, kl) == pytest.approx(1.0, rel=SINGLE)


def test_bayes_regression_counts_the_kl_once():
    pytest.importorskip("Bayes")
    objective = objectives_more.bayes_regression(False)
    batch = setting.batches(64)[0]
    loss, nll = under_one_noise(objective.loss, batch), under_one_noise(objective.nll, batch)
    kl = 0.0  # of draws that follow the three passes
    for layer in objective.model:
        for part in ("weight", "bias") if hasattr(layer, "weight_mu") else ():
            std = functional.softplus(getattr(layer, f"{part}_rho"))
            kl += drawn_kl(getattr(layer, f"{part}_mu"), std, (0.1, 0.4), 0.5)
    assert (loss - nll / 64) / kl * N == pytest.approx(1.0, rel=SINGLE)


@pytest.mark.parametrize("passes", [1, 10])
def test_lightning_uq_box_counts_each_tensor_by_its_number_of_weights(passes):
    """With all tensors but one at q = p, where a KL is 0, the rest of the loss is that tensor's."""
    lightning_uq_box("uq_methods")
    objective = objectives_more.lightning_uq_box(False, passes)
    found = dict(objective.model.named_parameters())
    means = {name: value for name, value in found.items() if "mu_" in name}
    for name, count in zip(means, COUNTS, strict=True):
        with torch.no_grad():
            for value in found.values():
                value.fill_(0.0)
            for other in means:
                found[other.replace("mu_", "rho_")].fill_(math.log(math.e - 1))  # softplus of it is 1
            means[name].normal_()
        kl = kl_of(means[name], torch.ones(()), 1.0).sum().item()
        assert per_epoch(objective, kl) == pytest.approx(100 / count, rel=SINGLE)


def test_the_prior_width_of_lightning_uq_box_is_a_variance_in_its_energy():
    """E_q[log f - log Z_q] + log Z_p is KL(q || p). Its prior's width is .1: a standard deviation in one loss, not in
    the other."""
    layers = lightning_uq_box("models.bnn_layers")
    layer = layers.LinearVariational(50, 40, prior_sigma=0.1, posterior_rho_init=-2.0)
    pairs = [
        (getattr(layer, f"mu_{part}"), functional.softplus(getattr(layer, f"rho_{part}")))
        for part in ("weight", "bias")
    ]
    draws = []
    for _ in range(400):
        layer(torch.zeros(1, 50))
        draws.append(layer.log_f_hat().item() - layer.log_normalizer().item())
    found = torch.tensor(draws)
    error = found.std().item() / 20  # of the mean of 400 draws

    def wanted(std):
        return sum(
            (kl_of(mean, sigma, std) - math.log(std * math.sqrt(2 * math.pi))).sum().item() for mean, sigma in pairs
        )

    assert (
        abs(found.mean().item() - wanted(math.sqrt(0.1))) < 5 * error
    )  # tolerance: chance beyond five standard errors: 6e-7
    assert abs(found.mean().item() - wanted(0.1)) > 500 * error
    means = sum(kl_of(mean, sigma, 0.1).mean().item() for mean, sigma in pairs)
    assert layer.kl_loss().item() == pytest.approx(means, rel=SINGLE)


def test_an_objective_is_audited_with_its_own_parts(monkeypatch):
    """A KL of q = N(mean, softplus(rho)) to N(0, 1), added in each batch to a sum over rows: N / B times an epoch."""
    model = nn.ParameterDict({"mu": torch.randn(6, 30), "rho": torch.randn(6, 30)})

    def nll(x, y):
        w = model["mu"] + functional.softplus(model["rho"]) * torch.randn(6, 30)
        return functional.cross_entropy(x @ w, y, reduction="sum")

    def loss(x, y):
        return nll(x, y) + kl_of(model["mu"], functional.softplus(model["rho"]), 1.0).sum()

    found = TorchObjective(model, loss, nll).audit()
    assert found.numbers["kl_per_epoch"] == pytest.approx(N / 128, rel=SINGLE)
