"""The corpus: each entry is an objective in the style of a library, with sizes, N and the fault drawn from a seed.

Every style scales its terms in its own way. `RIGHT` are objectives that are an ELBO; `FAULTS` plant one mistake, and
name the rule that must fail. The rules of a fault follow from its formula, not from what the auditor says.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.distributions import Normal
from torch.nn import functional

DTYPE = torch.float64


@dataclass(frozen=True)
class Fault:
    """One mistake, and the rules of which one must fail."""

    name: str
    rules: tuple[str, ...]


FAULTS = {
    fault.name: fault
    for fault in (
        Fault("whole KL in each batch", ("kl-scale",)),
        Fault("half of the KL", ("kl-scale",)),
        Fault("mean over each tensor", ("kl-scale",)),
        Fault("one tensor counts five times", ("kl-scale",)),
        Fault("biases left out", ("kl-scale",)),
        Fault("wrong sign", ("kl-sign",)),
        Fault("variance for standard deviation", ("variance-as-std",)),
        Fault("noise overwritten", ("detached-gradient",)),
        Fault("log q takes means as constants", ("detached-gradient",)),
        Fault("weight decay", ("decayed-posterior",)),
        Fault("sigma detached", ("detached-gradient",)),
        Fault("softmax twice", ("wrong-likelihood",)),
    )
}


def plan():
    """Return style, fault and seed of every entry: as many right ones as faults."""
    pyro_faults = (
        "whole KL in each batch",
        "half of the KL",
        "one tensor counts five times",
        "variance for standard deviation",
    )
    whole = [(style, fault) for style in STYLES for fault in FAULTS if _can_have(style, fault)]
    wrong = [(style, fault) for index, (style, fault) in enumerate(whole) if index % 2 == 0]
    wrong += [("pyro", fault) for fault in pyro_faults]
    styles = [*STYLES, "pyro"]
    right = [(styles[index % len(styles)], None) for index in range(len(wrong))]
    return [(style, fault, 100 + index) for index, (style, fault) in enumerate(right + wrong)]


def _can_have(style, fault):
    """Return whether a fault differs from the style: log q of a closed form takes no means."""
    return fault != "log q takes means as constants" or STYLES[style][3]


# name: (word of the mean, word of the raw scale, sigma of it, KL sampled?, loss is a mean over rows?, passes)
STYLES = {
    "torch": ("mu", "rho", functional.softplus, False, False, 1),
    "torchbnn": ("mu", "log_sigma", torch.exp, False, True, 1),
    "bayesian-torch": ("mu", "rho", functional.softplus, False, True, 1),
    "blitz": ("mu", "rho", functional.softplus, True, False, 3),
    "torch-uncertainty": ("mu", "sigma", functional.softplus, True, True, 1),
    "posteriors": ("mean", "log_std", torch.exp, True, True, 1),
}


@dataclass
class Entry:
    """One objective with what it is audited with."""

    name: str
    style: str
    fault: Fault | None
    loss: Callable
    nll: Callable
    parameters: list
    batches: list
    n_train: int
    prior: float
    optimizer: torch.optim.Optimizer | None = None


@dataclass
class PyroEntry:
    """Model, guide and estimator with what they are audited with."""

    name: str
    fault: Fault | None
    model: Callable
    guide: Callable
    batches: list
    n_train: int
    prior: float
    estimator: object


class Drawn:
    """Numbers from a seed."""

    def __init__(self, seed):
        self.source = torch.Generator().manual_seed(seed)

    def whole(self, least, most):
        return int(torch.randint(least, most + 1, (), generator=self.source))

    def log_uniform(self, least, most):
        return least * (most / least) ** float(torch.rand((), generator=self.source))

    def normal(self, *shape):
        return torch.randn(*shape, generator=self.source, dtype=DTYPE)


class Network(nn.Module):
    """Two layers whose weights and biases have Gaussians, with the names of a style."""

    def __init__(self, drawn, style, fault, prior):
        super().__init__()
        mean, scale, self.sigma_of, self.sampled, self.is_mean, self.passes = STYLES[style]
        self.fault, self.prior, self.words = fault, prior, (mean, scale)
        n_in, hidden, self.n_out = drawn.whole(3, 8), drawn.whole(4, 9), drawn.whole(3, 5)
        self.n_in = n_in
        shapes = {
            "l1_weight": (n_in, hidden),
            "l1_bias": (hidden,),
            "l2_weight": (hidden, self.n_out),
            "l2_bias": (self.n_out,),
        }
        self.tensors = list(shapes)
        start = drawn.log_uniform(0.02, 0.3)
        raw = math.log(start) if self.sigma_of is torch.exp else math.log(math.expm1(start))
        for name, shape in shapes.items():
            self.register_parameter(f"{name}_{mean}", nn.Parameter(drawn.normal(*shape) * 0.5))
            self.register_parameter(f"{name}_{scale}", nn.Parameter(raw + 0.1 * drawn.normal(*shape)))
        self.buffers_of_noise = {name: torch.zeros(shape, dtype=DTYPE) for name, shape in shapes.items()}

    def mean(self, name):
        return getattr(self, f"{name}_{self.words[0]}")

    def sigma(self, name):
        return self.sigma_of(getattr(self, f"{name}_{self.words[1]}"))

    def draw(self):
        weights = {}
        for name in self.tensors:
            noise = torch.randn(self.mean(name).shape, dtype=DTYPE)
            if self.fault == "noise overwritten":
                self.buffers_of_noise[name].data.copy_(noise)
                noise = self.buffers_of_noise[name]
            sigma = self.sigma(name).detach() if self.fault == "sigma detached" else self.sigma(name)
            weights[name] = self.mean(name) + sigma * noise
        return weights

    def logits(self, x, w):
        return torch.tanh(x @ w["l1_weight"] + w["l1_bias"]) @ w["l2_weight"] + w["l2_bias"]

    def kl_of(self, name, weights):
        """Return log q - log p of the draw, or the closed form."""
        prior = self.prior**2 if self.fault == "variance for standard deviation" else self.prior
        mean, sigma = self.mean(name), self.sigma(name)
        if self.fault == "log q takes means as constants":
            return (
                Normal(mean.detach(), sigma).log_prob(weights[name]) - Normal(0.0, prior).log_prob(weights[name])
            ).sum()
        if self.sampled:
            return (Normal(mean, sigma).log_prob(weights[name]) - Normal(0.0, prior).log_prob(weights[name])).sum()
        return (math.log(prior) - sigma.log() + (sigma**2 + mean**2) / (2 * prior**2) - 0.5).sum()

    def kl(self, weights):
        names = [n for n in self.tensors if not (self.fault == "biases left out" and n.endswith("bias"))]
        whole = 0.0
        for name in names:
            share = {"mean over each tensor": 1 / self.mean(name).numel(), "wrong sign": -1.0, "half of the KL": 0.5}
            part = share.get(self.fault, 1.0) * self.kl_of(name, weights)
            whole = (
                whole + (5.0 if self.fault == "one tensor counts five times" and name == "l2_weight" else 1.0) * part
            )
        return whole

    def passes_of(self, x, y, twice=False):
        """Return NLL and KL, averaged over the passes of a step; the NLL takes probabilities for logits if `twice`."""
        drawn = []
        for _ in range(2 if self.fault == "noise overwritten" else self.passes):
            weights = self.draw()
            logits = self.logits(x, weights)
            taken = logits.softmax(1) if twice else logits
            drawn.append((functional.cross_entropy(taken, y, reduction="sum"), self.kl(weights)))
        return [sum(parts) / len(drawn) for parts in zip(*drawn, strict=True)]


def entry(style, fault, seed):
    """Return the objective of a style with a fault (None: right), drawn from a seed."""
    if style == "pyro":
        from tests.judge.corpus.pyro_style import pyro_entry

        return pyro_entry(fault, seed)
    drawn = Drawn(seed)
    batch = drawn.whole(8, 32)
    n_train = batch * drawn.whole(5, 400)
    prior = drawn.log_uniform(0.3, 0.7) if drawn.whole(0, 1) else drawn.log_uniform(1.5, 3.0)  # its square is another
    net = Network(drawn, style, fault, prior)

    def loss(x, y):
        nll, kl = net.passes_of(x, y, twice=fault == "softmax twice")
        steps = 1.0 if fault == "whole KL in each batch" else n_train / batch
        total = nll + kl / steps
        return total / batch if net.is_mean else total

    def nll(x, y):
        return net.passes_of(x, y)[0]

    batches = [
        (drawn.normal(batch, net.n_in), torch.randint(net.n_out, (batch,), generator=drawn.source)) for _ in range(3)
    ]
    decay = 0.01 if fault == "weight decay" else 0.0
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1, weight_decay=decay)
    planted = FAULTS[fault] if fault else None
    name = f"{style} {fault or 'right'} {seed}"
    return Entry(name, style, planted, loss, nll, list(net.named_parameters()), batches, n_train, prior, optimizer)
