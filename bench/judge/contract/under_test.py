"""An approach under test, with made-up rows, and a context that keeps what a fit reports."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from bench.data.splits import toy_split
from bench.interface import Approach, Categorical, Context, Gaussian, Posterior, Split, Task
from bench.measure.measuring import check_fit
from bench.plan.recipes import build, profile, resolve
from bench.plan.registry import manifest

STEPS = 2  # of every epoch
ROWS = 300  # three batches of 128, the last one short
PREDICTED = 40  # rows of a prediction
MANY = (3, 4, 5)  # run seeds that are fitted together
SAME = 1e-5  # nats; float32 matrix products of different shapes sum in a different order


class CheckContext(Context):
    """A context that keeps what a fit reports, and can stop it or resume it."""

    def __init__(self, seed: int, resume: tuple[int, Mapping[str, Tensor]] | None = None) -> None:
        self.seed, self.device, self.steps_per_epoch = seed, torch.device("cpu"), STEPS
        self.resume = resume
        self.traces: dict[int, dict[str, float]] = {}
        self.states: dict[int, dict[str, Tensor]] = {}
        self.on_epoch: Callable[[Posterior], object] | None = None

    def restore(self) -> tuple[int, Mapping[str, Tensor]] | None:
        """See `Context.restore`."""
        return self.resume

    def epoch_end(
        self,
        epoch: int,
        trace: Mapping[str, float],
        posterior: Callable[[], Posterior],
        state: Callable[[], Mapping[str, Tensor]],
    ) -> None:
        """See `Context.epoch_end`."""
        self.traces[epoch] = dict(trace)
        self.states[epoch] = {name: value.clone() for name, value in state().items()}
        if self.on_epoch is not None:
            self.on_epoch(posterior())


class ApproachUnderTest:
    """One recipe of an approach, with made-up rows in place of MNIST."""

    def __init__(self, name: str, recipe: str = "published") -> None:
        self.name = name
        self.manifest = manifest(name)
        self.recipe = resolve(self.manifest, recipe)
        source = torch.Generator().manual_seed(0)
        if self.manifest.task == "toy":
            self.train = toy_split()
            self.task = Task("regression", n_outputs=1, n_train=6, n_inputs=1)
            self.x = torch.linspace(-3, 3, PREDICTED).reshape(-1, 1)
        else:
            x = torch.rand(ROWS, 784, generator=source)
            y = torch.randint(10, (ROWS,), generator=source)
            self.train = Split("train60k", x, y, torch.arange(ROWS))
            self.task = Task("classification", n_outputs=10, n_train=ROWS, n_inputs=784)
            self.x = torch.rand(PREDICTED, 784, generator=source)
        self.rows = torch.arange(100, 100 + PREDICTED)
        self._fits: dict[tuple[int, int], Posterior] = {}

    @property
    def is_classifier(self) -> bool:
        """Return whether it predicts classes."""
        return self.task.kind == "classification"

    def declares(self, capability: str) -> bool:
        """Return whether the manifest declares an optional method."""
        return capability in self.manifest.capabilities

    def approach(self, epochs: int = 1) -> Approach:
        """Return the approach with a budget of `epochs`, or with fewer if it trains fewer."""
        made = build(self.manifest, self.recipe, profile("full"))
        return dataclasses.replace(made, epochs=min(epochs, made.epochs))

    def fit(self, seed: int = 0, epochs: int = 1) -> Posterior:
        """Return the fit of a seed and a number of epochs; it is made once."""
        key = (seed, epochs)
        if key not in self._fits:
            self._fits[key] = self.fit_with(CheckContext(seed), epochs)
        return self._fits[key]

    def fit_with(self, context: CheckContext, epochs: int = 1) -> Posterior:
        """Return a new fit in the given context."""
        approach = self.approach(epochs)
        return check_fit(approach.fit(self.train, self.task, context), approach)

    def some_rows(self) -> Tensor:
        """Return the training rows of each seed in `MANY`, int64 [E, N]. Each seed has other rows, in another order."""
        sources = [torch.Generator().manual_seed(seed) for seed in MANY]
        return torch.stack([torch.randperm(len(self.train), generator=s)[: self.task.n_train - 1] for s in sources])

    def fit_many(self, contexts: Sequence[CheckContext], epochs: int = 1) -> list[Posterior]:
        """Return new fits of the seeds `MANY`, made in one computation from `some_rows`."""
        return self.approach(epochs).fit_many(self.train, self.some_rows(), self.task, contexts)

    def posteriors(self) -> list[Posterior]:
        """Return a fit and, if it has one, its fast path for single rows."""
        posterior = self.fit()
        alone = posterior.per_row()
        return [posterior] if alone is posterior else [posterior, alone]

    def predict(self, posterior: Posterior, draws: range | None = None, block: range = range(PREDICTED)) -> Tensor:
        """Return log-probabilities or means [S, B, K] of the rows in `block`; by default of all, with `draws_of`."""
        wanted = self.draws_of(posterior) if draws is None else draws
        picked = list(block)
        return values(posterior.predict(self.x[picked], wanted, self.rows[picked]))

    @staticmethod
    def draws_of(posterior: Posterior) -> range:
        """Return three draws, or fewer if the posterior has no more."""
        return range(3 if posterior.n_draws is None else min(3, posterior.n_draws))


def values(prediction: Categorical | Gaussian) -> Tensor:
    """Return log-probabilities, or means, [S, B, K]."""
    return prediction.log_probs if isinstance(prediction, Categorical) else prediction.mean
