"""Shared by the approaches of group `methods`: one network, one budget of steps, one loop, three posteriors.

All methods learn the network 784 - 400 ReLU - 400 ReLU - 10 of `mlp`, in batches of 128 for ten epochs. Where a method
starts from a plain network, that network is the one of `mlp corrected` with the same seed, to the bit, because it draws
from the same streams. So differences between methods can be paired by seed. Only `temperature`, which holds images out,
trains on fewer rows, in fewer steps and in another order.

Shapes: B rows, K classes, M networks, P scalar weights. A network's weights are one flat vector (`_kernels.layout`),
which has the order of `torch.nn.Module.parameters()` of the same layers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from bench.interface import Approach, Categorical, Context, Noise, Posterior, Split, Task
from implementations import _dense, _seeds, mlp
from implementations._kernels.gaussian_posterior import (
    Family,
    GaussianPosterior,
    gaussian_log_prior,
    log_probabilities,
)
from implementations._kernels.layout import Layout

WIDTHS = (400, 400)  # units of the hidden layers
HELD_OUT = 12  # one training row in HELD_OUT is held out, if a method needs rows that it has not trained on


@dataclass(frozen=True)
class Method(Approach):
    """The budget that all methods share."""

    epochs: int = 10  # passes over the training rows
    batch_size: int = 128  # rows of a step; the last step of an epoch takes the remaining rows
    learning_rate: float = 1e-3  # of Adam, in the first epoch
    learning_rate_divisor: float = 1.1  # divides the learning rate after each epoch

    def rate(self, epoch: int) -> float:
        """Return the learning rate of an epoch, counted from 1."""
        return self.learning_rate / self.learning_rate_divisor ** (epoch - 1)


@dataclass(frozen=True)
class GaussianMethod(Method):
    """A method whose posterior is an independent Gaussian for each weight."""

    noise: ClassVar[Noise] = "weights"

    prior_std: float = 1.0  # of every weight

    def rebuild(self, arrays: Mapping[str, Tensor], task: Task, seed: int) -> Posterior:
        """Return the posterior of stored means and standard deviations."""
        return gaussian(task, self.prior_std, seed, arrays["mu"], arrays["sigma"])


class Learner(ABC):
    """A method in training: its step, its state and its posterior."""

    n_orders = 1  # networks, each with its own order of the rows; if more than 1, x and y have their number in front

    @abstractmethod
    def begin(self, epoch: int, n_steps: int) -> None:
        """Prepare for an epoch of `n_steps` steps."""

    @abstractmethod
    def step(self, x: Tensor, y: Tensor) -> Tensor:
        """Take one step on x [B, n_inputs], y int64 [B]; return the loss, nats a row, without gradient."""

    @abstractmethod
    def posterior(self) -> Posterior:
        """Return the posterior as it is now; later steps do not change it."""

    def tensors(self) -> Mapping[str, Tensor]:
        """Return all tensors that steps change, by name. A class that overrides `state` and `restore` needs none."""
        raise NotImplementedError(f"{type(self).__name__} gives neither `tensors` nor a `state` of its own")

    def state(self) -> Mapping[str, Tensor]:
        """Return all tensors that a resumed fit needs, as CPU copies."""
        return {name: value.detach().to("cpu", copy=True) for name, value in self.tensors().items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` returned."""
        for name, value in self.tensors().items():
            value.copy_(state[name])


def learn(learner: Learner, recipe: Method, train: Split, ctx: Context) -> Posterior:
    """Train for the recipe's epochs; see `Approach.fit`.

    Each epoch has its own order of the rows. PyTorch's global generator, from which some libraries draw, is seeded from
    the epoch's stream "noise".
    """
    rows = _seeds.TrainingRows(train, _seeds.all_rows(train).expand(learner.n_orders, -1), ctx.device)
    found, done = ctx.restore(), 0
    if found is not None:
        done, state = found
        learner.restore(state)
    for epoch in range(done + 1, recipe.epochs + 1):
        rows.shuffle([ctx.generator("shuffle", epoch, *member(index)) for index in range(learner.n_orders)])
        batches = rows.batches(recipe.batch_size, ctx.steps_per_epoch)
        learner.begin(epoch, len(batches))
        cuda = [ctx.device] if ctx.device.type == "cuda" else []
        with torch.random.fork_rng(cuda), new_tensors(ctx.dtype):
            torch.manual_seed(ctx.stream("noise", epoch))
            losses = [learner.step(*rows.take(batch)).mean() for batch in batches]
        trace = {f"mnist/{train.name}/train_loss": float(torch.stack(losses).double().mean())}
        ctx.epoch_end(epoch, trace, learner.posterior, learner.state)
    return learner.posterior()


def member(index: int) -> tuple[int, ...]:
    """Return the last part of the names of a network's streams; () for network 0, which has the streams of `mlp`."""
    return (index,) if index else ()


def layout_of(task: Task) -> Layout:
    """Return the network of all methods, or the one that the task asks for."""
    return Layout((task.n_inputs, *hidden_of(task), task.n_outputs))


def hidden_of(task: Task) -> tuple[int, ...]:
    """Return the units of the hidden layers."""
    return WIDTHS if task.hidden is None else task.hidden


def module_of(layout: Layout, flat: Tensor) -> nn.Sequential:
    """Return the network as a module of PyTorch with copies of the weights `flat` [P]."""
    layers: list[nn.Module] = []
    with torch.device("meta"):  # draws no first weights
        for n_in, n_out in zip(layout.sizes, layout.sizes[1:], strict=False):
            layers += [nn.Linear(n_in, n_out), nn.ReLU()]
    net = nn.Sequential(*layers[:-1])
    values = [part.clone() for layer in layout.layers(flat) for part in layer]
    net.load_state_dict(dict(zip(net.state_dict(), values, strict=True)), assign=True)
    return net.requires_grad_()


def initial(task: Task, ctx: Context, index: int = 0) -> Tensor:
    """Draw the first weights of network `index`, as `mlp` does; [P] on the fit's device."""
    return _dense.linear_init(layout_of(task), ctx.generator("init", *member(index)), ctx.dtype).to(ctx.device)


@contextmanager
def new_tensors(dtype: torch.dtype) -> Iterator[None]:
    """Let PyTorch make tensors of this type where a library names none."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class PlainNetworks(Learner):
    """M plain networks trained together by Adam, each from its own first weights and in its own order of the rows.

    If it gets all training rows, network 0 is the network of `mlp corrected`.
    """

    def __init__(self, recipe: Method, task: Task, ctx: Context, n_networks: int = 1) -> None:
        """Draw the first weights."""
        _dense.check_task(type(recipe).__name__, task, "classification")
        self.recipe, self.layout, self.n_orders, self.seed = recipe, layout_of(task), n_networks, ctx.seed
        starts = [initial(task, ctx, index) for index in range(n_networks)]
        self.training = mlp.Training(mlp.Mlp(learning_rate=recipe.learning_rate), self.layout, _seeds.stacked(starts))
        self._decay = task.weight_decay

    def begin(self, epoch: int, n_steps: int) -> None:
        """See `Learner`."""
        del n_steps
        self.training.adam.set_learning_rate(self.recipe.rate(epoch))

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        """See `Learner`; returns [M] losses of more than one network."""
        loss = self.differentiate(x, y)
        self.training.adam.step()
        return loss

    def differentiate(self, x: Tensor, y: Tensor) -> Tensor:
        """Write the gradient of the loss and of the weight decay that the task asks for; return the loss."""
        loss = self.training.differentiate(x, y)
        if self._decay:
            self.training.gradient.add_(self.training.flat, alpha=self._decay)
        return loss

    def weights(self) -> Tensor:
        """Return copies of the weights, [M, P]."""
        return self.training.flat.detach().view(self.n_orders, -1).to("cpu", copy=True)

    def posterior(self) -> Posterior:
        """Return a posterior whose draws are the networks; a single network is a deterministic posterior."""
        if self.n_orders == 1:
            return plain(self.layout, self.weights()[0])
        return NetworkSet(self.layout, self.weights())

    def state(self) -> dict[str, Tensor]:
        """See `Learner`."""
        states = {str(index): self.training.adam.state(index) for index in range(self.n_orders)}
        return {f"{index}/{name}": value for index, state in states.items() for name, value in state.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """See `Learner`."""
        self.training.adam.restore(*(part_of(state, str(index)) for index in range(self.n_orders)))


def part_of(state: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    """Return the values whose names begin with `part/`, without that beginning."""
    return {name.removeprefix(f"{part}/"): value for name, value in state.items() if name.startswith(f"{part}/")}


def flat_of(parts: Iterable[Tensor]) -> Tensor:
    """Return matrices and biases in the order of the layout as one vector [P], a copy on the CPU without gradient."""
    return torch.cat([part.detach().flatten() for part in parts]).to("cpu", copy=True)


def plain(layout: Layout, flat: Tensor) -> _dense.DensePosterior:
    """Return the deterministic network with weights `flat` [P], which the caller must not change afterwards."""
    return _dense.DensePosterior(layout, flat, torch.relu_, "classification")


class StoredPosterior(Posterior):
    """A posterior over the weights of the shared network that is stored as some arrays."""

    noise: Noise = "weights"

    def __init__(self, layout: Layout, arrays: Mapping[str, Tensor], seed: int = 0) -> None:
        """Keep the arrays, which the caller must not change afterwards, and the seed of the draws."""
        self.layout, self.kept, self.seed = layout, dict(arrays), seed

    def arrays(self) -> Mapping[str, Tensor]:
        """See `Posterior`."""
        return {name: value.clone() for name, value in self.kept.items()}


class DrawnNetworks(StoredPosterior):
    """A posterior of which each draw is one network."""

    @abstractmethod
    def network(self, draw: int) -> Tensor:
        """Return the weights [P] of a draw, on the CPU."""

    def predict(self, x: Tensor, draws: range, rows: Tensor) -> Categorical:
        """Predict x [B, n_inputs] with the network of each draw."""
        found = []
        for draw in draws:
            answer = plain(self.layout, self.network(draw)).predict(x, range(1), rows)
            assert isinstance(answer, Categorical)
            found.append(answer.log_probs[0])
        return Categorical(torch.stack(found))


class NetworkSet(DrawnNetworks):
    """M networks, each of which is one draw."""

    def __init__(self, layout: Layout, weights: Tensor) -> None:
        """Keep weights [M, P], which the caller must not change afterwards."""
        super().__init__(layout, {"weights": weights})
        self.n_draws = len(weights)

    def network(self, draw: int) -> Tensor:
        """See `DrawnNetworks`."""
        return self.kept["weights"][draw]


def gaussian(task: Task, prior_std: float, seed: int, mu: Tensor, sigma: Tensor) -> GaussianPosterior:
    """Return independent Gaussians over all weights, mu and sigma [P], under the prior N(0, prior_std^2)."""
    prior = partial(gaussian_log_prior, prior_std)
    return GaussianPosterior(Family(layout_of(task), torch.relu_, prior, log_probabilities, seed), mu, sigma)
