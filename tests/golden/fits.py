"""Short fits in float64 from fixed streams on real rows: single, several seeds together, resumed after an epoch.

Every fit takes `EPOCHS` epochs of `STEPS` steps with the recipe's own batch size, the last batch of an epoch shorter.
Recipes whose KL throws the weights far in a step take one step an epoch: in eight steps it enlarges rounding 1e7 times.
The task says that there are as many rows as there really are, so that every 1/N of an objective is the real one.
"""

import dataclasses
import functools

import torch

from bench.data.splits import load_shared, load_split, toy_split
from bench.interface import Task
from bench.judge.contract import CheckContext
from bench.plan.recipes import Profile, build, resolve
from bench.plan.registry import manifest
from tests.golden.numbers import ROWS, Trace

SEED = 0
MANY = (0, 1)
EPOCHS, STEPS, SHORT = 2, 4, 64  # the last step of an epoch takes SHORT rows
TOY_STEPS = 30
UNSTABLE = {"mean-likelihood", "halving-kl"}  # of blundell_bbb: KL of weight 1 beside one image's loss, or 1/2
DRAWS = 7  # k/7 is neither an edge of a bin nor a threshold: sure draws that disagree give such means


def budget():
    """Return the profile of a trace."""
    return Profile("trace", epochs=EPOCHS, steps_per_epoch=None, rows=ROWS, draws=DRAWS, common_rows=ROWS)


class TraceContext(CheckContext):
    """Computes in float64, and keeps the posterior of every epoch too."""

    dtype = torch.float64

    def __init__(self, seed, steps=None, resume=None):
        super().__init__(seed, resume)
        self.steps_per_epoch, self.posteriors = steps, {}

    def epoch_end(self, epoch, trace, posterior, state):
        super().epoch_end(epoch, trace, posterior, state)
        self.posteriors[epoch] = posterior()


@dataclasses.dataclass(frozen=True)
class Fitted:
    """What a fit left: the posterior at its start, after every epoch, and what it reported."""

    start: object
    context: TraceContext
    task: Task
    posterior: object


@functools.lru_cache(maxsize=4)
def _whole(split, seeds):
    if len(seeds) == 1:
        train = load_split(split, seeds[0])
        return train, torch.arange(len(train)).unsqueeze(0)
    return load_shared(split, list(seeds))


def rows_of(entry, recipe, approach, seeds):
    """Return the first training rows of each seed, which of them are whose (int64 [E, n]), and the task."""
    if entry.task == "toy":
        train = in_double(toy_split())
        rows = torch.arange(len(train)).expand(len(seeds), -1)
        return train, rows, Task("regression", n_outputs=1, n_train=len(train), n_inputs=1)
    whole, rows = _whole(recipe.split, seeds)
    task = Task("classification", n_outputs=10, n_train=rows.shape[1], n_inputs=whole.x.shape[1])
    steps = 1 if UNSTABLE & set(recipe.versions) else STEPS
    n = (steps - 1) * getattr(approach, "batch_size", 128) + SHORT
    chosen, places = rows[:, :n].unique(return_inverse=True)
    return in_double(whole.select(chosen)), places, task


def in_double(split):
    """Return a split with its pixels, and the targets of a regression, in float64."""
    return split.to(torch.device("cpu"), torch.float64)


@functools.lru_cache(maxsize=6)
def fitted(name, recipe_name, seeds=(SEED,), resumed=False):
    """Return what a fit of these seeds gives, one `Fitted` a seed; `resumed`: of the second epoch alone."""
    entry = manifest(name)
    recipe = resolve(entry, recipe_name)
    approach = build(entry, recipe, budget())
    if name == "swag":  # an epoch of each of its optimisers
        approach = dataclasses.replace(approach, swag_epochs=1)
    train, rows, task = rows_of(entry, recipe, approach, seeds)
    steps = TOY_STEPS if entry.task == "toy" else None

    def fit(budgeted, resume):
        contexts = [TraceContext(seed, steps, one) for seed, one in zip(seeds, resume, strict=True)]
        if len(seeds) == 1:
            return contexts, [budgeted.fit(train.select(rows[0]), task, contexts[0])]
        return contexts, budgeted.fit_many(train, rows, task, contexts)

    before = fitted(name, recipe_name, seeds) if resumed else None
    torch.set_flush_denormal(True)  # as a run does
    try:
        if before:
            starts = [one.start for one in before]  # it would be made by the same call
            contexts, ends = fit(approach, [(1, one.context.states[1]) for one in before])
        else:
            _, starts = fit(dataclasses.replace(approach, epochs=0), [None] * len(seeds))
            contexts, ends = fit(approach, [None] * len(seeds))
    finally:
        torch.set_flush_denormal(False)
    parts = zip(starts, contexts, ends, strict=True)
    return [Fitted(start, context, task, end) for start, context, end in parts]


def fit_trace(name, recipe, seeds=(SEED,), resumed=False):
    """Return the losses, where each parameter tensor started and the way that it went."""
    found = Trace()
    for one in fitted(name, recipe, seeds, resumed):
        prefix = f"seed{one.context.seed}"
        for epoch, trace in one.context.traces.items():
            for key, value in trace.items():
                found.number(f"{prefix}/epoch{epoch}/{key}", value)
        start = one.start.arrays()
        for epoch, posterior in one.context.posteriors.items():
            for key, value in posterior.arrays().items():
                found.array(f"{prefix}/epoch{epoch}/{key}/moved", value.double() - start[key].double())
        for key, value in start.items():
            found.array(f"{prefix}/start/{key}", value)
        found.exact[f"{prefix}/types"] = sorted({str(value.dtype) for value in one.posterior.arrays().values()})
        found.exact[f"{prefix}/epochs"] = sorted(one.context.traces)
    return found
