"""Training steps and predictions as a user of each library writes them, on the network 784-400-400-10 with ReLU.

Each follows the library's README or, if that has no example, the project's demo or tutorial. A loop gets batches that
lie ready in memory, and predicts all images with each drawn network, which is faster than new draws for every batch.
"""

# mypy: ignore-errors
# (the libraries have no types)
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from itertools import pairwise

import torch
from torch import Tensor, nn, optim
from torch.nn import functional

from bench.interface import Task
from implementations._methods import WIDTHS

RATE = 1e-3  # of Adam


class Loop(ABC):
    """A library's own training step and prediction."""

    @abstractmethod
    def step(self, x: Tensor, y: Tensor) -> object:
        """Take one step on x [B, n_inputs], y int64 [B]; call it inside `session`."""

    @abstractmethod
    def probabilities(self, x: Tensor) -> Tensor:
        """Return the probabilities [N, K] of one draw; call it inside `session` and without gradients."""

    def session(self) -> AbstractContextManager[object]:
        """Return what the loop must run in, such as the library's global state."""
        return nullcontext()

    def predict(self, x: Tensor, n_draws: int) -> Tensor:
        """Return the mean of the probabilities over draws, [N, K]."""
        with torch.no_grad():
            return torch.stack([self.probabilities(x) for _ in range(n_draws)]).mean(0)


def sizes_of(task: Task) -> tuple[int, ...]:
    """Return inputs, hidden units and outputs."""
    return (task.n_inputs, *WIDTHS, task.n_outputs)


def network(task: Task, layer: Callable[[int, int], nn.Module] = nn.Linear) -> nn.Sequential:
    """Return the network of the given layers."""
    layers = [part for ends in pairwise(sizes_of(task)) for part in (layer(*ends), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


class Module(Loop):
    """A module of PyTorch whose weights are drawn in each pass, with Adam; a library says what its loss is."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.optimizer = model, optim.Adam(model.parameters(), lr=RATE)

    @abstractmethod
    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the loss of a batch."""

    def step(self, x: Tensor, y: Tensor) -> object:
        """See `Loop`."""
        loss = self.loss(x, y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def probabilities(self, x: Tensor) -> Tensor:
        """See `Loop`."""
        return functional.softmax(self.model(x), dim=-1)


class Torchbnn(Module):
    """The demo Bayesian Neural Network Classification."""

    def __init__(self, task: Task) -> None:
        import torchbnn

        super().__init__(network(task, lambda n_in, n_out: torchbnn.BayesLinear(0, 0.1, n_in, n_out)))
        self.kl_loss = torchbnn.BKLLoss(reduction="mean", last_layer_only=False)

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """See `Module`."""
        return functional.cross_entropy(self.model(x), y) + 0.1 * self.kl_loss(self.model)


class BayesianTorch(Module):
    """The README's snippets: `dnn_to_bnn`, training, and the mean of many forward passes."""

    def __init__(self, task: Task) -> None:
        from bayesian_torch.models.dnn_to_bnn import dnn_to_bnn, get_kl_loss

        model, self.get_kl_loss = network(task), get_kl_loss
        prior = {"prior_mu": 0.0, "prior_sigma": 1.0, "posterior_mu_init": 0.0, "posterior_rho_init": -3.0}
        dnn_to_bnn(model, {**prior, "type": "Reparameterization", "moped_enable": False})
        super().__init__(model)

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """See `Module`."""
        return functional.cross_entropy(self.model(x), y) + self.get_kl_loss(self.model) / len(x)


class _Posteriors(Loop):
    """The README's quickstart; a subclass builds the transform."""

    def __init__(self, task: Task) -> None:
        from implementations._posteriors import library, torchopt  # the library, without the warnings of its import

        self.library, self.torchopt, self.n_train = library, torchopt, task.n_train
        self.net = network(task)
        self.params = {name: value.detach() for name, value in self.net.named_parameters()}

    def log_posterior(self, params: dict[str, Tensor], batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the log posterior over N, and the logits."""
        images, labels = batch
        output = torch.func.functional_call(self.net, params, images)
        log_prior = self.library.diag_normal_log_prob(params)
        return -functional.cross_entropy(output, labels) + log_prior / self.n_train, output

    def step(self, x: Tensor, y: Tensor) -> object:
        """See `Loop`."""
        self.state, _ = self.transform.update(self.state, (x, y))
        return self.state


class ViDiag(_Posteriors):
    """`posteriors.vi.diag`."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        optimizer = self.torchopt.adam(lr=RATE)
        self.transform = self.library.vi.diag.build(self.log_posterior, optimizer, temperature=1 / task.n_train)
        self.state = self.transform.init(self.params)

    def probabilities(self, x: Tensor) -> Tensor:
        """See `Loop`."""
        sample = self.library.vi.diag.sample(self.state)
        return functional.softmax(torch.func.functional_call(self.net, sample, x), dim=-1)


class Sghmc(_Posteriors):
    """`posteriors.sgmcmc.sghmc`, in place of the quickstart's transform."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        build = self.library.sgmcmc.sghmc.build
        self.transform = build(self.log_posterior, lr=0.15, alpha=1.0, temperature=1 / task.n_train)
        self.state = self.transform.init(self.params)

    def probabilities(self, x: Tensor) -> Tensor:
        """See `Loop`; the draw is the network at which the walk is."""
        return functional.softmax(torch.func.functional_call(self.net, self.state.params, x), dim=-1)


class AutoNormal(Loop):
    """The SVI tutorials: a model of `pyro.sample` statements, `AutoNormal`, `SVI` with `Trace_ELBO` and Pyro's Adam."""

    def __init__(self, task: Task) -> None:
        import pyro
        from pyro.infer import SVI, Trace_ELBO
        from pyro.infer.autoguide import AutoNormal as Guide

        self.pyro, self.task = pyro, task
        self.store: dict[str, object] = {"params": {}, "constraints": {}}
        self.guide = Guide(self.model)
        self.svi = SVI(self.model, self.guide, pyro.optim.Adam({"lr": RATE}), Trace_ELBO())

    def model(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """Score a batch, or all images at once where `y` is None."""
        pyro, dist = self.pyro, self.pyro.distributions
        ends = list(pairwise(sizes_of(self.task)))
        for index, (n_in, n_out) in enumerate(ends):
            weight = pyro.sample(f"weight{index}", dist.Normal(0.0, 1.0).expand([n_out, n_in]).to_event(2))
            bias = pyro.sample(f"bias{index}", dist.Normal(0.0, 1.0).expand([n_out]).to_event(1))
            x = functional.linear(x, weight, bias)
            x = torch.relu(x) if index < len(ends) - 1 else x
        with pyro.poutine.scale(scale=self.task.n_train / len(x)), pyro.plate("data", len(x)):
            pyro.sample("obs", dist.Categorical(logits=x), obs=y)
        return x

    @contextmanager
    def session(self):
        """See `Loop`: Pyro's store with the loop's own parameters, and Pyro's own settings."""
        with ExitStack() as open_:
            open_.enter_context(self.pyro.get_param_store().scope(self.store))
            open_.enter_context(self.pyro.validation_enabled(True))  # Pyro's default
            yield

    def step(self, x: Tensor, y: Tensor) -> object:
        """See `Loop`."""
        return self.svi.step(x, y)

    def probabilities(self, x: Tensor) -> Tensor:
        """See `Loop`: one draw of the guide, and the model's logits under it."""
        drawn = self.guide()
        return functional.softmax(self.pyro.poutine.condition(self.model, drawn)(x), dim=-1)


LOOPS: dict[str, tuple[str, Callable[[Task], Loop]]] = {  # by the table's name of the library: its package, the loop
    "torchbnn": ("torchbnn", Torchbnn),
    "bayesian-torch": ("bayesian-torch", BayesianTorch),
    "posteriors vi.diag": ("posteriors", ViDiag),
    "Pyro AutoNormal": ("pyro-ppl", AutoNormal),
    "posteriors sghmc": ("posteriors", Sghmc),
}
