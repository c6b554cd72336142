"""The contract between an approach and the suite. Read this file first.

Shapes: N training rows, B rows of a block, S draws, K classes, D target dimensions, P scalar weights.

An approach is a frozen dataclass of hyper-parameters whose defaults are the published values. Its `fit` returns a
`Posterior`. The suite asks the posterior for predictions and computes every metric itself. An approach reads no clock,
computes no metric, prints nothing and knows no path. It imports only this module, `bench.core.streams`,
`bench.core.errors` and its own framework; those of this suite also `implementations._kernels`, yours also `bench`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from bench.core.errors import Unsupported
from bench.core.streams import generator, stream_seed

Noise = Literal["none", "row", "weights", "shared"]
"""What is random in one draw.

none      nothing
row       noise for each row; it depends only on seed, draw and row
weights   the weights: one network for all rows
shared    one noise vector for all rows. Each row's predictions are distributed as with `weights`, but one draw does not
          predict two rows with the same network. `shared` is faster than `weights`.
"""


@dataclass(frozen=True)
class Task:
    """The kind and the sizes of a learning task."""

    kind: Literal["classification", "regression"]
    n_outputs: int  # K classes, or D target dimensions
    n_train: int  # N, the only source of every 1/N in an objective
    n_inputs: int  # length of one row of x
    hidden: tuple[int, ...] | None = None  # units of hidden layers that the task asks for
    weight_decay: float = 0.0  # 1/(N s^2) of a prior N(0, s^2), for a method without a prior


@dataclass(frozen=True)
class Split:
    """Rows of a data set. Pixels are in [0, 1]; an approach scales them itself, in `fit` and in `predict`."""

    name: str
    x: Tensor  # float32 [N, n_inputs]; in `fit` of the context's dtype
    y: Tensor  # int64 [N] labels (-1: none of the classes), or targets [N, D] of the same type as x
    rows: Tensor  # int64 [N], index of each row in its data set; row noise depends on it

    def __len__(self) -> int:
        """Return N."""
        return len(self.rows)

    def select(self, index: Tensor) -> Split:
        """Return the rows at positions `index` (int64 [B])."""
        return Split(self.name, self.x[index], self.y[index], self.rows[index])

    def to(self, device: torch.device, dtype: torch.dtype) -> Split:
        """Return the split with x, and targets that are no labels, in this type, and both on this device."""
        y = self.y.to(device, dtype) if self.y.is_floating_point() else self.y.to(device)
        return Split(self.name, self.x.to(device, dtype), y, self.rows)


@dataclass(frozen=True)
class Categorical:
    """Predictions of S draws for B rows of a classification task."""

    log_probs: Tensor  # [S, B, K], nats, normalised over K; float32, float64 of a float64 fit


@dataclass(frozen=True)
class Gaussian:
    """Predictions of S draws for B rows of a regression task."""

    mean: Tensor  # [S, B, D]; float32, float64 of a float64 fit
    variance: Tensor  # of the same shape and type, observation noise of each draw


@dataclass(frozen=True)
class Marginal:
    """Posterior marginals of one parameter tensor."""

    mean: Tensor  # any shape; float32, float64 of a float64 fit
    std: Tensor | None  # same shape; None for a network without sigma
    used: Tensor  # bool, same shape: False where the prediction ignores the weight


class Posterior(ABC):
    """A trained model. It never changes, even while another fit runs."""

    n_draws: int | None = None  # 1 for a deterministic network, None if there is no limit
    noise: Noise = "none"

    @abstractmethod
    def predict(self, x: Tensor, draws: range, rows: Tensor) -> Categorical | Gaussian:
        """Predict x [B, n_inputs] with each draw; `rows` int64 [B] has the index of each row of x in its data set.

        In every call, draw d is the same network. With row noise, draw d gives a row the same noise in every call.
        """

    @abstractmethod
    def arrays(self) -> Mapping[str, Tensor]:
        """Return all that `Approach.rebuild` needs, as CPU tensors (stored without pickle)."""

    def weights(self) -> Mapping[str, Marginal]:
        """Return the marginals of every parameter tensor, in the order of the layers."""
        raise Unsupported(f"{type(self).__name__} does not expose its weights")

    def masked(self, keep: Mapping[str, Tensor]) -> Posterior:
        """Return a posterior whose weights are exactly zero, without noise, where `keep` (bool) is False.

        Tensors that `keep` does not name are kept.
        """
        del keep
        raise Unsupported(f"{type(self).__name__} cannot be pruned")

    def mean_network(self) -> Posterior:
        """Return the one network of posterior means (dropout off)."""
        raise Unsupported(f"{type(self).__name__} has no mean network")

    def per_row(self) -> Posterior:
        """Return a posterior that may predict faster. Each row's predictions have the same distribution as here.

        The noise of the returned posterior may be "shared". Then do not compute from it what depends on several rows of
        one draw, such as the spread of the accuracy over draws.
        """
        return self

    def log_density_ratio(self, draws: range) -> Tensor:
        """Return log q(w_s) - log p(w_s) of each draw's network, float64 [S], nats."""
        del draws
        raise Unsupported(f"{type(self).__name__} has no weight densities")


class Context(ABC):
    """What the suite gives to a fit."""

    seed: int  # run seed
    device: torch.device
    dtype: torch.dtype = torch.float32  # of pixels, weights, noise and the optimiser's state; or torch.float64
    steps_per_epoch: int | None = None  # end every epoch after this number of steps; None: train whole epochs

    def stream(self, name: str, *index: int) -> int:
        """Return the seed of a named stream (for frameworks with a global generator)."""
        return stream_seed(self.seed, name, *index)

    def generator(self, name: str, *index: int) -> torch.Generator:
        """Return a CPU generator at the start of a named stream."""
        return generator(self.seed, name, *index)

    @abstractmethod
    def epoch_end(
        self,
        epoch: int,
        trace: Mapping[str, float],
        posterior: Callable[[], Posterior],
        state: Callable[[], Mapping[str, Tensor]],
    ) -> None:
        """Report the end of an epoch.

        Args:
            epoch: its number, from 1.
            trace: the numbers that the document prints after an epoch.
            posterior: returns the posterior at this moment.
            state: returns all that a resumed fit needs (parameters, optimiser), as CPU tensors. Generators need not be
                saved, because each epoch starts its own streams ("shuffle", epoch) and ("noise", epoch).

        Raises:
            Diverged: a value of the trace is not finite.
        """

    @abstractmethod
    def restore(self) -> tuple[int, Mapping[str, Tensor]] | None:
        """Return (last finished epoch, its state) of an interrupted fit, or None to start afresh."""


@dataclass(frozen=True)
class Approach(ABC):
    """A method and its hyper-parameters: typed fields, each with a comment, which `fit` never changes."""

    noise: ClassVar[Noise]

    epochs: int  # training epochs; for a toy, the document's printing intervals

    @abstractmethod
    def fit(self, train: Split, task: Task, ctx: Context) -> Posterior:
        """Train for `self.epochs` epochs, calling `ctx.epoch_end` after each."""

    def fit_many(self, train: Split, rows: Tensor, task: Task, contexts: Sequence[Context]) -> list[Posterior]:
        """Train E seeds in one computation; seed e learns from `train.select(rows[e])`, rows int64 [E, N].

        Optional (capability "fit_many"). Each seed draws from the streams of its own context what `fit` would draw, so
        `fit` and `fit_many` give the same numbers up to rounding. Call `epoch_end` of every context before the next
        epoch begins. Interrupted seeds all resume from the same epoch. A seed that diverges does not stop the others:
        `epoch_end` raises `Diverged` only when every seed has diverged. Return the posteriors in the order of the
        contexts.
        """
        del train, rows, task, contexts
        raise Unsupported(f"{type(self).__name__} fits one seed at a time")

    @abstractmethod
    def rebuild(self, arrays: Mapping[str, Tensor], task: Task, seed: int) -> Posterior:
        """Return the posterior that gave these `arrays()`; its draws are those of run seed `seed`."""
