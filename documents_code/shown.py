"""The checks that show the documents' mistakes by running.

A check runs our plain rewriting of a document's code or, for `EXPRESSIONS`, only the expression in question. Networks
are small and data made up, because a check shows a property of the code, not of its numbers. It says what it measured.
Its outcome is `not found` if the code does not make the mistake that was read in it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from msgspec import structs
from torch import Tensor
from torch.nn import functional

import elbo_audit
from bench.judge.audit.documents import ShownMistake
from bench.measure.metrics import published as estimators
from documents_code import dropout_fcn, linear_bbb, mlp
from elbo_audit.predictions import averages, repeats

N_TRAIN, BATCH, CLASSES = 60_000, 128, 10
INPUTS, WIDTH = 20, 16  # of the small networks


def verdict(found: bool, detail: str, **measured: float) -> ShownMistake:
    """Return the outcome of a check with what it measured."""
    return ShownMistake("found" if found else "not found", "code", detail, {k: float(v) for k, v in measured.items()})


Check = Callable[[], ShownMistake]


def batches(n_batches: int = 3) -> list[tuple[Tensor, Tensor]]:
    """Return made-up batches: images [B, INPUTS] in [0, 1], labels [B]."""
    source = torch.Generator().manual_seed(0)
    return [
        (torch.rand(BATCH, INPUTS, generator=source), torch.randint(CLASSES, (BATCH,), generator=source))
        for _ in range(n_batches)
    ]


def _dropout_left_on() -> ShownMistake:
    net = dropout_fcn.network(INPUTS, WIDTH)
    x = batches()[0][0]
    finding = repeats(lambda: dropout_fcn.predict_all(net, [x], 1), deterministic=True)
    return verdict(finding.outcome == "fails", finding.detail, **finding.measured)


def _binary_cross_entropy() -> ShownMistake:
    source = torch.Generator().manual_seed(1)
    parts = [torch.randn(BATCH, CLASSES, generator=source).mul(3).log_softmax(-1) for _ in range(4)]
    labels = [y for _, y in batches(4)]
    losses = torch.stack([BATCH * dropout_fcn.published_loss(p, y) for p, y in zip(parts, labels, strict=True)])
    nlls = torch.stack([functional.nll_loss(p, y, reduction="sum") for p, y in zip(parts, labels, strict=True)])
    # The loss is (1/10) (-log p_c + sum log(1 + p_k)): `rest` is the second term.
    rest = losses - nlls / CLASSES
    wanted = torch.stack([p.exp().log1p().sum() / CLASSES for p in parts])
    gap = float((rest - wanted).abs().max())
    sure = dropout_fcn.published_loss(torch.tensor([[0.0] + [-1e4] * 9]), torch.tensor([0]))
    detail = (
        f"the loss is NLL / 10 + sum log(1 + p) / 10 to {gap:.1g}; a certain, right network still pays "
        f"{float(sure):.5f} a batch (log 2 / 10)"
    )
    return verdict(gap < 1e-3, detail, certain=float(sure))


def _bbb(detach_mu: bool) -> linear_bbb.GaussianNetwork:
    network = linear_bbb.GaussianNetwork((INPUTS, WIDTH, CLASSES), 6.0, detach_mu=detach_mu)
    linear_bbb.initialise_classifier(network, torch.Generator().manual_seed(0))
    return linear_bbb.in_double_precision(network)


def _bbb_report(detach_mu: bool) -> elbo_audit.ElboReport:
    network = _bbb(detach_mu)

    def nll(x: Tensor, y: Tensor) -> Tensor:
        return functional.nll_loss(functional.log_softmax(network(x), 1), y, reduction="sum")

    def loss(x: Tensor, y: Tensor) -> Tensor:
        value: Tensor = linear_bbb.classifier_elbo(network, x, y, N_TRAIN / BATCH, 1)[0]
        return value

    doubles = [(x.double(), y) for x, y in batches()]
    return elbo_audit.audit_torch(
        loss, network.named_parameters(), doubles, N_TRAIN, nll=nll, prior_std=math.sqrt(6), draws=16
    )


@cache
def _bbb_reports() -> tuple[elbo_audit.ElboReport, elbo_audit.ElboReport]:
    return _bbb_report(detach_mu=True), _bbb_report(detach_mu=False)


def _detached_means() -> ShownMistake:
    published, attached = (report.of("detached-gradient") for report in _bbb_reports())
    found = published.outcome == "fails" and "rho" not in published.detail and attached.outcome == "passes"
    return verdict(found, f"{published.detail}; with the means attached: {attached.outcome}", **published.measured)


def _prior_variance() -> ShownMistake:
    # The prior's pull on detached means is lost in noise, so it is measured with the means attached.
    report = _bbb_reports()[1]
    finding = report.of("variance-as-std")
    return verdict(finding.outcome == "fails", finding.detail, **finding.measured)


def _mean_of_log_probabilities() -> ShownMistake:
    network = _bbb(detach_mu=True)
    x, y = batches()[0]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        loss, draws = linear_bbb.classifier_elbo(network, x.double(), y, math.inf, 5)  # no KL
    means = averages(draws.detach())
    place = torch.arange(BATCH)
    wanted = {name: -float(p[place, y].log().sum()) for name, p in means.items()}
    nearest = min(wanted, key=lambda name: abs(wanted[name] - float(loss.detach())))
    shown = ", ".join(f"{name} {value:.4f}" for name, value in wanted.items())
    found = nearest == "exp of mean log-probabilities"
    return verdict(found, f"the loss of five draws is {float(loss.detach()):.4f}; NLL of the {shown}")


def _geometric_entropy() -> ShownMistake:
    source = torch.Generator().manual_seed(2)
    draws = torch.randn(100, 50, CLASSES, generator=source).mul(3).log_softmax(-1)
    logs = draws.double().mean(0)
    reported = torch.from_numpy(estimators.geometric_entropy(logs.numpy()))
    finding = elbo_audit.entropy_of(draws, reported)
    total = float(logs.exp().sum(-1).mean())
    return verdict(
        finding.outcome == "fails",
        f"{finding.detail}; the averaged probabilities of made-up draws sum to {total:.2f}",
        sum=total,
    )


def _rebound_rate() -> ShownMistake:
    adam = mlp.optimizer(mlp.Classifier(INPUTS, WIDTH))
    rate = adam.param_groups[0]["lr"]
    rate /= 1.1  # as the document does: the name is bound anew
    as_float = float(adam.param_groups[0]["lr"])
    network = linear_bbb.GaussianNetwork((INPUTS, CLASSES), 6.0)
    tensor_adam, tensor = linear_bbb.document_adam(network)
    tensor /= 1.1
    as_tensor = float(tensor_adam.param_groups[0]["lr"])
    detail = f"after one division by 1.1 Adam's rate is {as_float:.6f} (float) and {as_tensor:.6f} (tensor)"
    return verdict(as_float == 1e-3 and as_tensor < 1e-3, detail, float_rate=as_float, tensor_rate=as_tensor)


def _truncated_percent() -> ShownMistake:
    logs = np.log(np.full((1000, CLASSES), 0.1))
    labels = np.where(np.arange(1000) < 899, 0, 1)  # the argmax of equal numbers is the first
    accuracy = estimators.chopra2018_forced_accuracy(logs, labels)
    printed = accuracy.printed_percent
    detail = f"899 of 1,000 right are printed as {printed} %"
    return verdict(printed == int("%d" % 89.9) == 89, detail, printed=float(printed or 0))  # noqa: UP031 - the document's


def _first_folder() -> ShownMistake:
    folders = list("ABCDEFGHIJ")  # as os.listdir gives them in a clone without .DS_Store
    left = folders[1:]
    detail = f"of ten letters in ten folders {len(left)} are left; without .DS_Store '{folders[0]}' is dropped"
    return verdict(len(left) == len(folders) - 1, detail, letters=len(left))


def _transposed_letters() -> ShownMistake:
    image = torch.arange(28 * 28, dtype=torch.float32).reshape(28, 28)
    reshaped = image.reshape(1, 28, 28)  # the notebook's, read as height, width, channels by ToTensor
    reached = reshaped.permute(2, 0, 1).reshape(1, 28, 28)[0]
    detail = "a [1, 28, 28] array taken as height x width x channels arrives as its transpose"
    return verdict(torch.equal(reached, image.T) and not torch.equal(reached, image), detail)


EXPRESSIONS: dict[str, Check] = {
    "geometric_entropy": _geometric_entropy,
    "truncated_percent": _truncated_percent,
    "first_folder": _first_folder,
    "transposed_letters": _transposed_letters,
}
"""Checks that run one expression on made-up numbers, not the document's code around it."""

CHECKS: dict[str, Check] = {
    "dropout_left_on": _dropout_left_on,
    "binary_cross_entropy": _binary_cross_entropy,
    "detached_means": _detached_means,
    "prior_variance": _prior_variance,
    "mean_of_log_probabilities": _mean_of_log_probabilities,
    "rebound_rate": _rebound_rate,
    **EXPRESSIONS,
}


def run(name: str, check: Check) -> ShownMistake:
    """Run one check; PyTorch's generator is left as it was."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        for old in (FutureWarning, DeprecationWarning):  # old code on today's libraries
            warnings.simplefilter("ignore", old)
        torch.manual_seed(0)
        found = check()
    return structs.replace(found, ran="expression") if name in EXPRESSIONS else found
