"""Sizes, expectations, and code that several styles share."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

SEED = 2611


@dataclass(frozen=True)
class Sizes:
    """The numbers that are drawn for one objective."""

    n_in: int
    hidden: int
    n_out: int
    batch: int
    n_train: int  # any number: an epoch's last batch may be short
    prior: float  # standard deviation
    sigma: float  # of the weights at the start
    share: float  # of the rows that are left after a validation split
    beta: float  # where the annealing got stuck

    @property
    def steps(self) -> int:
        """Return M, the batches of an epoch: len(loader)."""
        return -(-self.n_train // self.batch)


def sizes(name: str) -> Sizes:
    """Draw the sizes of one objective from its own stream."""
    draw = random.Random(f"{SEED}/sizes/{name}")
    batch = draw.randint(8, 40)
    return Sizes(
        n_in=draw.randint(4, 12),
        hidden=draw.randint(6, 24),
        n_out=draw.randint(3, 8),
        batch=batch,
        n_train=batch * draw.randint(15, 90) - draw.randint(0, batch // 2),
        prior=round(draw.uniform(0.3, 2.0), 2),
        sigma=round(draw.uniform(0.05, 0.3), 3),
        share=round(draw.uniform(0.7, 0.85), 2),
        beta=draw.choice([0.0, 0.01, 0.1]),
    )


@dataclass(frozen=True)
class Expected:
    """What the audit should tell a user of an objective.

    Attributes:
        fails: rules of which at least one must fail. () for a right objective: no rule may fail.
        kl: how many times an epoch counts the KL, as the report should say to a tenth; None if nothing is expected.
        withheld: whether it is enough that the audit says that it cannot measure the KL.
    """

    fails: tuple[str, ...] = ()
    kl: float | None = None
    withheld: bool = False


@dataclass(frozen=True)
class Objective:
    """What the audit is given: `arguments` of `audit_torch`, or of `audit_pyro` if `pyro`."""

    arguments: dict
    expected: Expected
    pyro: bool = False


@dataclass(frozen=True)
class Style:
    """A way to write an objective, and the mistakes that it can have."""

    name: str
    build: Callable[[Sizes, str | None], Objective]
    faults: tuple[str, ...]
    needs: str | None = None  # a library that must be installed


# The mistakes. B: rows of a batch; M: batches of an epoch; N: all rows.
SCALE = ("kl-scale",)
SUM = ("KL in every batch", "KL divided by N, likelihood a sum", "mean likelihood, KL / M", "wrong M after a split")
MEAN = (
    "1 / N forgotten",
    "KL divided by the batch size",
    "KL divided by M, likelihood a mean",
    "wrong N after a split",
)
EITHER = (
    "wrong sign",
    "KL counted twice",
    "mean over each tensor",
    "bias KL dropped",
    "KL of one layer only",
    "annealing stuck",
    "weight decay in the optimiser",
    "sigma not in the optimiser",
)
ANALYTIC = ("entropy left out", "prior std given as variance", "half missing", "sigma is a constant")
CLASSES = ("binary likelihood", "temperature", "label smoothing")


def expected(fault: str | None, s: Sizes, kl: float | None = 1.0) -> Expected:
    """Return what the audit should tell a user; `kl` is for a right objective."""
    numbers = {
        "KL in every batch": s.n_train / s.batch,
        "KL divided by N, likelihood a sum": 1 / s.batch,
        "mean likelihood, KL / M": float(s.batch),
        "wrong M after a split": s.share,
        "1 / N forgotten": float(s.n_train),
        "KL divided by the batch size": s.n_train / s.batch,
        "KL divided by M, likelihood a mean": float(s.batch),
        "wrong N after a split": s.share,
        "KL counted twice": 2.0,
        "annealing stuck": s.beta,
        "both scale and plate": s.batch / s.n_train,
    }
    rules = {
        "wrong sign": ("kl-sign", "kl-scale"),
        "weight decay in the optimiser": ("decayed-posterior",),
        "sigma not in the optimiser": ("sigma-frozen",),
        "sigma is a constant": ("sigma-frozen",),
        "rate of sigma too small": ("sigma-frozen",),
        "prior std given as variance": ("variance-as-std",),
        "half missing": ("variance-as-std",),
        "binary likelihood": ("wrong-likelihood",),
        "temperature": ("wrong-likelihood",),
        "label smoothing": ("wrong-likelihood",),
        "sample detached": ("detached-gradient",),
        "mean detached": ("detached-gradient",),
        "log q detached": ("detached-gradient",),
        "two passes, one noise buffer": ("detached-gradient",),
        "noise turned in place": ("detached-gradient",),
    }
    if fault is None:
        return Expected(kl=kl)
    if fault in ("weight decay in the loss", "another sigma in the KL"):
        return Expected((*SCALE, "variance-as-std"), withheld=True)  # the documentation: then the KL is not measured
    if fault == "another sigma in the sample":  # no rule is named for it; a user should not be told that all is well
        return Expected((*SCALE, "variance-as-std", "sigma-frozen", "wrong-likelihood"), withheld=True)
    if fault in ("guide left unscaled", "prior left unscaled"):
        return Expected((*SCALE, "variance-as-std"), withheld=True)
    return Expected(rules.get(fault, SCALE), numbers.get(fault))


def unsoftplus(sigma: float) -> float:
    """Return rho of a sigma."""
    return math.log(math.expm1(sigma))


def around(value: float, *shape: int) -> Tensor:
    """Return numbers near a value."""
    return value + 0.1 * torch.randn(*shape)


def class_batches(s: Sizes) -> list[tuple[Tensor, Tensor]]:
    """Return four batches of rows [B, n_in] and classes [B]."""
    torch.manual_seed(0)
    return [(torch.randn(s.batch, s.n_in), torch.randint(s.n_out, (s.batch,))) for _ in range(4)]


def real_batches(s: Sizes) -> list[tuple[Tensor, Tensor]]:
    """Return four batches of rows [B, n_in] and numbers [B]."""
    torch.manual_seed(0)
    rows = [torch.randn(s.batch, s.n_in) for _ in range(4)]
    return [(x, torch.sin(x.sum(1)) + 0.3 * torch.randn(len(x))) for x in rows]


def gauss_kl(mean: Tensor, std: Tensor, s: Sizes, fault: str | None = None) -> Tensor:
    """Return the KL to N(0, prior²) of each number, changed by the mistake if there is one."""
    prior = s.prior**2 if fault == "prior std given as variance" else s.prior
    half = 1.0 if fault == "half missing" else 0.5
    entropy = 0.0 if fault == "entropy left out" else torch.log(prior / std)
    return entropy + half * (std**2 + mean**2) / prior**2 - 0.5


def class_loss(logits: Tensor, y: Tensor, fault: str | None = None) -> Tensor:
    """Return the cross-entropy summed over the batch, changed by the mistake if there is one."""
    if fault == "binary likelihood":
        wanted = functional.one_hot(y, logits.shape[1]).to(logits.dtype)
        return functional.binary_cross_entropy_with_logits(logits, wanted, reduction="sum")
    smooth = 0.1 if fault == "label smoothing" else 0.0
    heat = 3.0 if fault == "temperature" else 1.0
    return functional.cross_entropy(logits / heat, y, reduction="sum", label_smoothing=smooth)


def combined(fit: Tensor, terms: Sequence[Tensor], s: Sizes, reduction: str, fault: str | None) -> Tensor:
    """Return a step's loss from the batch's -log p(y | x, w) and the KL of each number, tensor by tensor."""
    if fault == "mean over each tensor":
        total = sum(term.mean() for term in terms)
    elif fault == "bias KL dropped":
        total = sum(term.sum() for term in terms if term.dim() > 1)
    elif fault == "KL of one layer only":
        total = terms[0].sum()
    else:
        total = sum(term.sum() for term in terms)
    total = total * {"wrong sign": -1, "KL counted twice": 2, "annealing stuck": s.beta}.get(fault or "", 1)
    weights = {
        "KL in every batch": 1,
        "KL divided by N, likelihood a sum": 1 / s.n_train,
        "wrong M after a split": s.share / s.steps,
        "1 / N forgotten": 1,
        "KL divided by the batch size": 1 / s.batch,
        "KL divided by M, likelihood a mean": 1 / s.steps,
        "wrong N after a split": s.share / s.n_train,
    }
    usual = 1 / s.steps if reduction == "sum" else 1 / s.n_train
    mean = reduction == "mean" or fault == "mean likelihood, KL / M"
    return (fit / s.batch if mean else fit) + weights.get(fault or "", usual) * total


@dataclass
class Training:
    """Named parameters and how a user would optimise them."""

    named: list[tuple[str, Tensor]] = field(default_factory=list)

    def add(self, name: str, value: Tensor, learnt: bool = True) -> Tensor:
        """Register and return a leaf."""
        leaf = value.clone().requires_grad_(learnt)
        self.named.append((name, leaf))
        return leaf

    def pair(
        self, begin: str, mean: str, means: Tensor, spread: str, spreads: Tensor, fault: str | None
    ) -> tuple[Tensor, Tensor]:
        """Register mean and spread of some weights; their names begin alike."""
        return self.add(begin + mean, means), self.add(begin + spread, spreads, fault != "sigma is a constant")

    def optimizer(self, fault: str | None) -> torch.optim.Adam:
        """Return Adam; some mistakes leave the spreads out or decay everything."""
        left_out = ("rho", "sigma", "std", "var", "scale") if fault == "sigma not in the optimiser" else ()
        left = [value for name, value in self.named if value.requires_grad and not any(w in name for w in left_out)]
        return torch.optim.Adam(left, lr=1e-3, weight_decay=0.01 if fault == "weight decay in the optimiser" else 0.0)


def finish(
    s: Sizes,
    fault: str | None,
    loss: Callable[..., Tensor],
    nll: Callable[..., Tensor],
    parameters: Sequence[tuple[str, Tensor]],
    optimizer: torch.optim.Optimizer,
    batches: Sequence[tuple[Tensor, ...]],
    wanted: Expected | None = None,
    **more: object,
) -> Objective:
    """Return the arguments of `audit_torch`."""
    arguments = {
        "loss": loss,
        "nll": nll,
        "parameters": parameters,
        "batches": batches,
        "n_train": s.n_train,
        "prior_std": s.prior,
        "optimizer": optimizer,
        "epochs": 50,
        **more,
    }
    return Objective(arguments, wanted or expected(fault, s))
