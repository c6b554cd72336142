"""Short fits in float64 from fixed streams on real rows, what fitted posteriors predict, and the streams themselves.

Fits: single, several seeds together, resumed after an epoch. Every fit takes `EPOCHS` epochs of `STEPS` steps with the
recipe's own batch size, the last batch of an epoch shorter. Recipes whose KL throws the weights far in a step take one
step an epoch: in eight steps it enlarges rounding 1e7 times. The task says that there are as many rows as there really
are, so that every 1/N of an objective is the real one.

Predictions: as they are, exact for each row alone, pruned, and by the network of means. Of streams: integers exactly,
numbers in float64, and the rows that they choose.
"""

import dataclasses
import functools

import numpy as np
import torch

from bench.core.errors import Unsupported
from bench.core.noise import fill_normals, fill_words
from bench.core.streams import generator, normals, stream_seed, uniforms
from bench.data.splits import load_ood, load_shared, load_split, toy_split
from bench.interface import Categorical, Task
from bench.judge.contract import CheckContext
from bench.plan.recipes import Profile, build, resolve
from bench.plan.registry import manifest
from tests.golden.numbers import ROWS, Trace, digest_of, mixed

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


PREDICTED = 48  # rows of the test file, from FIRST_ROW on
FIRST_ROW = 200
FIRST_DRAW, PREDICTED_DRAWS = 5, 3


def predict_trace(name, recipe):
    """Return summaries of every way in which the published or changed fit of seed 0 predicts."""
    (one,) = fitted(name, recipe)
    found = Trace()
    posterior = one.posterior
    ways = {"as-fitted": lambda: posterior}
    ways["per-row"] = posterior.per_row
    ways["mean-network"] = posterior.mean_network
    ways["masked"] = lambda: posterior.masked(_masks(posterior))
    torch.set_flush_denormal(True)
    try:
        for way, make in ways.items():
            try:
                other = make()
            except Unsupported:
                found.exact[f"{way}/noise"] = "unsupported"
                continue
            found.exact[f"{way}/noise"] = other.noise
            _predicted(found, way, other, manifest(name).task)
            if way != "mean-network":
                _ratios(found, way, other)
    finally:
        torch.set_flush_denormal(False)
    return found


def _masks(posterior):
    """Return masks that drop a third of the weights, by their places."""
    return {key: _thirds(m.mean.numel()).view(m.mean.shape) for key, m in posterior.weights().items()}


@functools.lru_cache(maxsize=16)
def _thirds(n):
    return torch.from_numpy(mixed(np.arange(n, dtype=np.uint64)) % np.uint64(3) != 0)


def inputs(task):
    """Return inputs [B, n_inputs] and their row numbers."""
    rows = torch.arange(FIRST_ROW, FIRST_ROW + PREDICTED)
    if task == "toy":
        return torch.linspace(-3, 3, PREDICTED, dtype=torch.float64).reshape(-1, 1), rows
    return load_split("test10k", SEED).x[rows].double(), rows


def _predicted(found, way, posterior, task):
    x, rows = inputs(task)
    n_draws = posterior.n_draws
    draws = range(FIRST_DRAW, FIRST_DRAW + PREDICTED_DRAWS) if n_draws is None else range(min(n_draws, PREDICTED_DRAWS))
    answer = posterior.predict(x, draws, rows)
    found.exact[f"{way}/type"] = str((answer.log_probs if isinstance(answer, Categorical) else answer.mean).dtype)
    if isinstance(answer, Categorical):
        found.array(f"{way}/probabilities", answer.log_probs.exp())
        found.array(f"{way}/logs", answer.log_probs)
    else:
        for part in ("mean", "variance"):
            found.array(f"{way}/{part}", getattr(answer, part))


def _ratios(found, way, posterior):
    try:
        ratios = posterior.log_density_ratio(range(FIRST_DRAW, FIRST_DRAW + PREDICTED_DRAWS))
    except Unsupported:
        found.exact[f"{way}/log-density-ratio"] = "unsupported"
        return
    for index, ratio in enumerate(ratios.tolist()):
        found.number(f"{way}/log-density-ratio/{index}", ratio)


NAMES = ("init", "shuffle", "noise", "draw", "shared-draw", "split", "ood", "test-order")


def streams_trace():
    """Return seeds of streams, words, normals, permutations and splits."""
    found = Trace()
    for name in NAMES:
        for index in ((), (1,), (2, 3)):
            found.exact[f"stream_seed/{name}/{index}"] = str(stream_seed(7, name, *index))
    rows = torch.tensor([0, 3, 70_000, 2**40])
    words = fill_words(torch.empty(4, 700, dtype=torch.int64), stream_seed(0, "words"), rows)
    found.exact["words"] = digest_of(words.numpy())
    found.array("normals", fill_normals(torch.empty(4, 700, dtype=torch.float64), stream_seed(0, "normals"), rows))
    for n in (15, 32, 700):
        found.array(f"generator/normals/{n}", normals(n, generator(3, "init"), torch.float64))
    found.array("generator/uniforms", uniforms(700, 0.05, generator(3, "init"), torch.float64))
    found.exact["randperm"] = digest_of(torch.randperm(5000, generator=generator(3, "shuffle", 1)).numpy())
    return found


def data_trace():
    """Return which rows each split has, and sums of their pixels."""
    found = Trace()
    for name in ("train60k", "test10k", "train50k", "heldout10k-of-train"):
        split = load_split(name, 1)
        found.exact[f"{name}/rows"] = digest_of(split.rows.numpy())
        found.exact[f"{name}/labels"] = digest_of(split.y.numpy())
        _pixels(found, name, split)
    shared, places = load_shared("train50k", [1, 2])
    found.exact["train50k/shared"] = digest_of(shared.rows[places].numpy())
    for name in ("noise_gaussian", "noise_uniform", "fashion_mnist", "letters"):
        split = load_ood(name, 1, dtype=torch.float64)
        found.exact[f"{name}/length"] = len(split)
        _pixels(found, name, split)
    points = toy_split()
    found.number("toy/x", (points.x.double().flatten() @ torch.arange(6.0, dtype=torch.float64)).item())
    found.number("toy/y", (points.y.double().flatten() @ torch.arange(6.0, dtype=torch.float64)).item())
    return found


def _pixels(found, name, split):
    found.array(f"{name}/pixels", split.x[:200])
