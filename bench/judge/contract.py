"""Contract checks that any implementation must pass: `for check in CHECKS: check(Subject(name))`.

Each check trains at most a few steps on made-up rows and raises ContractViolation with what was seen and what
the contract asks. They are generated for every approach of the registry by tests/test_contract.py.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from bench.core.errors import ContractViolation, Unsupported
from bench.interface import Approach, Categorical, Context, Gaussian, Posterior, Split, Task
from bench.plan.manifests import CAPABILITIES
from bench.plan.recipes import build, resolve
from bench.plan.recipes import profile as profile_of
from bench.plan.registry import load_class, manifest

STEPS = 2  # of every epoch
ROWS = 300  # three batches of 128, the last one short
PREDICTED = 40
MANY = (3, 4, 5)  # run seeds of a fit of several
ROUNDED = 1e-4  # relative; what a few steps make of rounding in float32
PER_ROW_DRAWS = 100
SAME = 1e-5  # nats; float32 matrix products of other shapes sum in another order


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


class Subject:
    """An approach under test, with made-up rows in place of MNIST."""

    def __init__(self, name: str, recipe: str = "published") -> None:
        self.name = name
        self.manifest = manifest(name)
        self.recipe = resolve(self.manifest, recipe)
        source = torch.Generator().manual_seed(0)
        if self.manifest.task == "toy":
            x = torch.tensor([-2, -1.8, -1, 1, 1.8, 2]).reshape(-1, 1)
            self.train = Split("6 points", x, -(x**4) + 3 * x**2 + 1, torch.arange(6))
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

    def approach(self, epochs: int = 1) -> Approach:
        """Return the approach with a budget of a few epochs (none where it trains none)."""
        made = build(self.manifest, self.recipe, profile_of("full"))
        return dataclasses.replace(made, epochs=min(epochs, made.epochs))

    def fit(self, seed: int = 0, epochs: int = 1) -> Posterior:
        """Return a fit, made once for each seed."""
        key = (seed, epochs)
        if key not in self._fits:
            self._fits[key] = self.fit_with(CheckContext(seed), epochs)
        return self._fits[key]

    def fit_with(self, context: CheckContext, epochs: int = 1) -> Posterior:
        """Return a new fit in the given context."""
        return self.approach(epochs).fit(self.train, self.task, context)

    def some_rows(self) -> Tensor:
        """Return rows for each of the seeds `MANY`, another choice in another order for each, int64 [E, N]."""
        sources = [torch.Generator().manual_seed(seed) for seed in MANY]
        return torch.stack([torch.randperm(len(self.train), generator=s)[: self.task.n_train - 1] for s in sources])

    def fit_many(self, contexts: Sequence[CheckContext], epochs: int = 1) -> list[Posterior]:
        """Return new fits of the seeds `MANY`, made in one computation from `some_rows`."""
        return self.approach(epochs).fit_many(self.train, self.some_rows(), self.task, contexts)

    def posteriors(self) -> list[Posterior]:
        """Return a fit and, if that is another, its fast path for single rows."""
        posterior = self.fit()
        alone = posterior.per_row()
        return [posterior] if alone is posterior else [posterior, alone]

    def n_draws(self, posterior: Posterior) -> int:
        """Return 3, or 1 for a deterministic network."""
        return 3 if posterior.n_draws is None else 1


def _predict(posterior: Posterior, x: Tensor, draws: range, rows: Tensor) -> Tensor:
    answer = posterior.predict(x, draws, rows)
    return answer.log_probs if isinstance(answer, Categorical) else answer.mean


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ContractViolation(message)


def _same(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def check_manifest(subject: Subject) -> None:
    """The manifest says what the class does: noise, fields of every change, a frozen dataclass."""
    cls = load_class(subject.name)
    _require(cls.noise == subject.manifest.noise, f"manifest noise {subject.manifest.noise}, class noise {cls.noise}")
    _require(cls.__dataclass_params__.frozen, "the approach must be a frozen dataclass")  # type: ignore[attr-defined]
    for name in subject.manifest.changes:
        build(subject.manifest, resolve(subject.manifest, f"published+{name}"), profile_of("full"))
    for name in subject.manifest.recipes:
        build(subject.manifest, resolve(subject.manifest, name), profile_of("full"))


def check_fields_unchanged(subject: Subject) -> None:
    """Fit never changes a hyper-parameter."""
    approach = subject.approach()
    before = dataclasses.asdict(approach)
    approach.fit(subject.train, subject.task, CheckContext(0))
    _require(dataclasses.asdict(approach) == before, "fit changed a field of the approach")


def check_epochs_reported(subject: Subject) -> None:
    """epoch_end is called once for each epoch, with finite numbers named <dataset>/<split>/<metric>."""
    context = CheckContext(0)
    subject.fit_with(context, epochs=2)
    wanted = list(range(1, subject.approach(2).epochs + 1))
    _require(list(context.traces) == wanted, f"epochs {list(context.traces)} were reported, wanted {wanted}")
    for trace in context.traces.values():
        _require(bool(trace), "the trace of an epoch is empty")
        for name, value in trace.items():
            _require(math.isfinite(value), f"{name} is {value}")
            _require(subject.train.name in name.split("/"), f"trace key '{name}' does not name the split")


def check_prediction_shape(subject: Subject) -> None:
    """Predictions are float32 [S, B, K] and normalised, or a Gaussian with variances that are not negative."""
    posterior = subject.fit()
    draws = range(subject.n_draws(posterior))
    answer = posterior.predict(subject.x, draws, subject.rows)
    shape = (len(draws), PREDICTED, subject.task.n_outputs)
    if isinstance(answer, Categorical):
        _require(tuple(answer.log_probs.shape) == shape, f"shape {tuple(answer.log_probs.shape)}, wanted {shape}")
        _require(answer.log_probs.dtype == torch.float32, f"type {answer.log_probs.dtype}, wanted float32")
        worst = float(answer.log_probs.double().logsumexp(dim=2).abs().max())
        _require(worst < SAME, f"probabilities sum to exp({worst})")
    else:
        assert isinstance(answer, Gaussian)
        _require(tuple(answer.mean.shape) == shape, f"shape {tuple(answer.mean.shape)}, wanted {shape}")
        _require(tuple(answer.variance.shape) == shape, "variance and mean have different shapes")
        _require(bool((answer.variance >= 0).all()), "a variance is negative")


def check_draws_have_names(subject: Subject) -> None:
    """Draw d is the same draw whatever other draws are asked for beside it, and draws differ."""
    for posterior in subject.posteriors():
        n_draws = subject.n_draws(posterior)
        together = _predict(posterior, subject.x, range(n_draws), subject.rows)
        for draw in range(n_draws):
            alone = _predict(posterior, subject.x, range(draw, draw + 1), subject.rows)[0]
            same = torch.allclose(together[draw], alone, atol=SAME)
            _require(same, f"draw {draw} alone is another than among {n_draws}")
        if n_draws > 1:
            _require(not torch.allclose(together[0], together[1], atol=SAME), "two draws are equal")


def check_blocks_do_not_matter(subject: Subject) -> None:
    """A row's prediction does not depend on the rows predicted with it."""
    for posterior in subject.posteriors():
        draws = range(subject.n_draws(posterior))
        whole = _predict(posterior, subject.x, draws, subject.rows)
        for size in (1, 7):
            parts = [
                _predict(posterior, subject.x[start : start + size], draws, subject.rows[start : start + size])
                for start in range(0, PREDICTED, size)
            ]
            gap = float(((torch.cat(parts, dim=1) - whole).abs() / (1 + whole.abs())).max())
            _require(gap < 10 * SAME, f"blocks of {size} rows differ from one block by {gap} (relative)")


def check_seed_repeats(subject: Subject) -> None:
    """One seed gives one posterior, to the bit; another seed another one (where anything is trained)."""
    first, again = subject.fit(seed=3).arrays(), subject.fit_with(CheckContext(3)).arrays()
    _require(_same(first, again), "the same seed gave another posterior")
    if subject.approach().epochs:
        _require(not _same(first, subject.fit(seed=4).arrays()), "two seeds gave the same posterior")


def check_measuring_is_harmless(subject: Subject) -> None:
    """Measuring at the end of an epoch does not change training."""
    context = CheckContext(3)

    def measure(posterior: Posterior) -> None:
        _predict(posterior, subject.x, range(subject.n_draws(posterior)), subject.rows)

    context.on_epoch = measure
    measured = subject.fit_with(context, epochs=2).arrays()
    _require(_same(measured, subject.fit(seed=3, epochs=2).arrays()), "measuring changed the training")


def check_resume(subject: Subject) -> None:
    """A fit resumed from the state after epoch 1 ends where an uninterrupted one ends, to the bit."""
    if subject.approach(2).epochs < 2:
        return
    context = CheckContext(5)
    whole = subject.fit_with(context, epochs=2)
    resumed = subject.fit_with(CheckContext(5, resume=(1, context.states[1])), epochs=2)
    _require(_same(whole.arrays(), resumed.arrays()), "the resumed fit ended elsewhere")


def check_fits_are_apart(subject: Subject) -> None:
    """A posterior is unharmed by another fit."""
    posterior = subject.fit(seed=3)
    draws = range(subject.n_draws(posterior))
    before = _predict(posterior, subject.x, draws, subject.rows).clone()
    subject.fit_with(CheckContext(11))
    after = _predict(posterior, subject.x, draws, subject.rows)
    _require(torch.equal(before, after), "another fit changed a posterior's predictions")


def check_rebuild(subject: Subject) -> None:
    """The stored arrays are all that a posterior is."""
    posterior = subject.fit()
    arrays = {name: value.clone() for name, value in posterior.arrays().items()}
    rebuilt = subject.approach().rebuild(arrays, subject.task, 0)
    draws = range(subject.n_draws(posterior))
    same = torch.equal(
        _predict(posterior, subject.x, draws, subject.rows), _predict(rebuilt, subject.x, draws, subject.rows)
    )
    _require(same, "the rebuilt posterior predicts otherwise")


def check_capabilities(subject: Subject) -> None:
    """Exactly the optional methods that the manifest declares are offered, `fit_many` of the approach among them."""
    posterior = subject.fit()
    calls: dict[str, Callable[[], Any]] = {
        "weights": posterior.weights,
        "masked": lambda: posterior.masked({n: torch.ones_like(m.used) for n, m in posterior.weights().items()}),
        "mean_network": posterior.mean_network,
        "log_density_ratio": lambda: posterior.log_density_ratio(range(2)),
        "fit_many": lambda: subject.fit_many([CheckContext(seed) for seed in MANY]),
    }
    assert set(calls) == set(CAPABILITIES)
    for name, call in calls.items():
        try:
            call()
            offered = True
        except Unsupported:
            offered = False
        declared = name in subject.manifest.capabilities
        _require(
            offered == declared,
            f"{name} is {'' if declared else 'not '}declared and {'' if offered else 'not '}offered",
        )


def check_pruning(subject: Subject) -> None:
    """Nothing masked changes nothing; what is masked has neither mean nor noise; all masked predicts 1/K."""
    if "masked" not in subject.manifest.capabilities:
        return
    posterior = subject.fit()
    marginals = posterior.weights()
    draws = range(subject.n_draws(posterior))
    everything = {name: torch.ones_like(m.used) for name, m in marginals.items()}
    whole = _predict(posterior, subject.x, draws, subject.rows)
    kept = _predict(posterior.masked(everything), subject.x, draws, subject.rows)
    _require(torch.allclose(whole, kept, atol=SAME), "masking nothing changed the predictions")
    source = torch.Generator().manual_seed(1)
    half = {n: torch.rand(m.mean.shape, generator=source) < 0.5 for n, m in marginals.items()}
    for name, marginal in posterior.masked(half).weights().items():
        _require(not bool(marginal.mean[~half[name]].any()), f"{name}: a pruned weight has a mean")
        if marginal.std is not None:
            _require(not bool(marginal.std[~half[name]].any()), f"{name}: a pruned weight has noise")
    nothing = {name: torch.zeros_like(m.used) for name, m in marginals.items()}
    flat = _predict(posterior.masked(nothing), subject.x, draws, subject.rows)
    if subject.task.kind == "classification":
        _require(bool((flat + math.log(10)).abs().max() < SAME), "the empty network does not predict 1/K")
    else:
        _require(not bool(flat.any()), "the empty network does not predict zero")


def check_mean_network(subject: Subject) -> None:
    """The mean network is one deterministic network."""
    if "mean_network" not in subject.manifest.capabilities:
        return
    network = subject.fit().mean_network()
    _require(network.n_draws == 1, f"the mean network has n_draws {network.n_draws}, wanted 1")
    once = _predict(network, subject.x, range(1), subject.rows)
    other_rows = _predict(network, subject.x, range(1), subject.rows + 50)
    _require(torch.allclose(once, other_rows, atol=SAME), "the mean network depends on the rows' names")


def check_density_ratio(subject: Subject) -> None:
    """Log q - log p of each draw is finite, float64, and belongs to the draw."""
    if "log_density_ratio" not in subject.manifest.capabilities:
        return
    posterior = subject.fit()
    ratios = posterior.log_density_ratio(range(3))
    _require(ratios.dtype == torch.float64 and ratios.shape == (3,), "log_density_ratio must be float64 [S]")
    _require(bool(ratios.isfinite().all()), "a log density ratio is not finite")
    _require(torch.equal(ratios[2:], posterior.log_density_ratio(range(2, 3))), "draw 2 alone has another density")


def check_many_seeds(subject: Subject) -> None:
    """Seeds fitted together report and end as each does alone, up to rounding, also if they were interrupted."""
    if "fit_many" not in subject.manifest.capabilities:
        return
    contexts = [CheckContext(seed) for seed in MANY]
    together = subject.fit_many(contexts, epochs=2)
    _require(len(together) == len(MANY), f"fit_many returned {len(together)} posteriors for {len(MANY)} seeds")
    resumed = subject.fit_many([CheckContext(each.seed, resume=(1, each.states[1])) for each in contexts], epochs=2)
    for context, rows, *both in zip(contexts, subject.some_rows(), together, resumed, strict=True):
        alone = CheckContext(context.seed)
        wanted = subject.approach(2).fit(subject.train.select(rows), subject.task, alone).arrays()
        _require(context.traces.keys() == alone.traces.keys(), f"seed {context.seed}: epochs were not reported")
        for epoch, trace in alone.traces.items():
            for name, value in trace.items():
                seen = context.traces[epoch].get(name, math.nan)
                close = math.isclose(seen, value, rel_tol=ROUNDED)
                _require(close, f"seed {context.seed}, epoch {epoch}: {name} is {seen}, alone {value}")
        for posterior in both:
            for name, values in posterior.arrays().items():
                gap = float((values - wanted[name]).abs().max()) / (1e-6 + float(wanted[name].abs().max()))
                _require(gap < ROUNDED, f"seed {context.seed}: {name} is off by {gap} (relative) from a fit alone")


def check_per_row(subject: Subject) -> None:
    """`per_row` is the posterior itself, or has the same distribution for each row and says that it shares noise.

    For the same distribution the differences d of two independent draws are symmetric around zero, so that
    |sum d| / sqrt(sum d^2) exceeds t with probability 2 exp(-t^2 / 2) at most (Efron 1969); t is such that all rows and
    outputs together are falsely accused once in a million.
    """
    posterior, *fast = subject.posteriors()
    for alone in fast:
        _require(alone.noise == "shared", f"per_row has noise '{alone.noise}', wanted 'shared'")
        _require(alone.n_draws is None, f"per_row has n_draws {alone.n_draws}, wanted None")
        draws = range(PER_ROW_DRAWS)
        both = [_predict(one, subject.x, draws, subject.rows).double() for one in (posterior, alone)]
        if subject.task.kind == "classification":
            both = [log_probs.exp() for log_probs in both]
        gap = both[0] - both[1]
        gap /= gap.abs().amax(0).clamp(min=1e-300)  # probabilities of 1e-200 have no square
        limit = math.sqrt(2 * math.log(2 * gap[0].numel() / 1e-6))
        same = bool((gap.sum(0).abs() <= limit * gap.square().sum(0).sqrt()).all())
        _require(same, f"a row's mean over draws of per_row is more than {limit:.1f} standard errors away")
        try:
            alone.log_density_ratio(range(1))
        except Unsupported:
            continue
        raise ContractViolation("a draw of per_row is not one network, but has a log_density_ratio")


def check_global_state(subject: Subject) -> None:
    """Neither fit nor predict touches torch's global generator or the rows."""
    before, x, train_x = torch.get_rng_state(), subject.x.clone(), subject.train.x.clone()
    posterior = subject.fit_with(CheckContext(2))
    _predict(posterior, subject.x, range(subject.n_draws(posterior)), subject.rows)
    _require(torch.equal(before, torch.get_rng_state()), "torch's global generator was used and not restored")
    _require(torch.equal(x, subject.x) and torch.equal(train_x, subject.train.x), "rows were changed in place")


CHECKS: tuple[Callable[[Subject], None], ...] = (
    check_manifest,
    check_fields_unchanged,
    check_epochs_reported,
    check_prediction_shape,
    check_draws_have_names,
    check_blocks_do_not_matter,
    check_seed_repeats,
    check_measuring_is_harmless,
    check_resume,
    check_fits_are_apart,
    check_rebuild,
    check_capabilities,
    check_pruning,
    check_mean_network,
    check_density_ratio,
    check_many_seeds,
    check_per_row,
    check_global_state,
)
