"""The checks of the contract, in the order in which an approach is checked."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import torch

from bench.core.errors import ContractViolation, Unsupported
from bench.interface import Categorical, Gaussian, Posterior
from bench.judge.contract.checking import contract_check, require, same_arrays
from bench.judge.contract.under_test import MANY, PREDICTED, SAME, ApproachUnderTest, CheckContext, values
from bench.measure.measuring import check_answer
from bench.plan.manifests import CAPABILITIES
from bench.plan.recipes import build, profile, resolve
from bench.plan.registry import load_class

PER_ROW_DRAWS = 100
ROUNDED = 1e-4  # relative; how large the rounding of float32 can become in a few steps


@contract_check("repair `fit` first; all other checks need it")
def fit(subject: ApproachUnderTest) -> None:
    """Fit trains on a few rows and returns a posterior."""
    subject.fit()


@contract_check("make manifest and class agree: noise, the fields that changes set, @dataclass(frozen=True)")
def manifest(subject: ApproachUnderTest) -> None:
    """The manifest says what the class does: noise, fields of every change, a frozen dataclass."""
    cls = load_class(subject.name)
    require(cls.noise == subject.manifest.noise, f"manifest noise {subject.manifest.noise}, class noise {cls.noise}")
    frozen = cls.__dataclass_params__.frozen  # type: ignore[attr-defined]  # no public way to ask; typeshed lacks it
    require(frozen, "the approach must be a frozen dataclass")
    for recipe in (*(f"published+{name}" for name in subject.manifest.changes), *subject.manifest.recipes):
        build(subject.manifest, resolve(subject.manifest, recipe), profile("full"))


@contract_check("keep what fit computes in local variables, not in the approach")
def fields_unchanged(subject: ApproachUnderTest) -> None:
    """Fit never changes a hyper-parameter."""
    approach = subject.approach()
    before = dataclasses.asdict(approach)
    approach.fit(subject.train, subject.task, CheckContext(0))
    require(dataclasses.asdict(approach) == before, "fit changed a field of the approach")


@contract_check(
    "call ctx.epoch_end(epoch, trace, ...) after each epoch, with finite numbers named mnist/<split name>/<metric>"
)
def epochs_reported(subject: ApproachUnderTest) -> None:
    """epoch_end is called once for each epoch, with finite numbers named <dataset>/<split>/<metric>."""
    context = CheckContext(0)
    subject.fit_with(context, epochs=2)
    wanted = list(range(1, subject.approach(2).epochs + 1))
    require(list(context.traces) == wanted, f"epochs {list(context.traces)} were reported, wanted {wanted}")
    for trace in context.traces.values():
        require(bool(trace), "the trace of an epoch is empty")
        for name, value in trace.items():
            require(math.isfinite(value), f"{name} is {value}")
            require(subject.train.name in name.split("/"), f"trace key '{name}' does not name the split")


@contract_check("return Categorical(log_softmax over the classes, float32 [S, B, K])")
def prediction_shape(subject: ApproachUnderTest) -> None:
    """Predictions are float32 [S, B, K] and normalised, or a Gaussian with variances that are not negative."""
    posterior = subject.fit()
    draws = subject.draws_of(posterior)
    answer = posterior.predict(subject.x, draws, subject.rows)
    shape, who = (len(draws), PREDICTED, subject.task.n_outputs), type(posterior).__name__
    if isinstance(answer, Categorical):
        check_answer(answer.log_probs, shape, "classes", who)
        require(answer.log_probs.dtype == torch.float32, f"type {answer.log_probs.dtype}, wanted float32")
        worst = float(answer.log_probs.double().logsumexp(dim=2).abs().max())
        require(worst < SAME, f"probabilities sum to exp({worst})")
    else:
        assert isinstance(answer, Gaussian)
        for part in (answer.mean, answer.variance):
            check_answer(part, shape, "outputs", who)
        require(bool((answer.variance >= 0).all()), "a variance is negative")


@contract_check("seed draw d from the run seed and d alone: bench.core.streams.normals_ or row_noise")
def draws_have_names(subject: ApproachUnderTest) -> None:
    """Draw d is the same draw whatever other draws are asked for beside it, and draws differ."""
    for posterior in subject.posteriors():
        draws = subject.draws_of(posterior)
        together = subject.predict(posterior)
        for draw in draws:
            alone = subject.predict(posterior, range(draw, draw + 1))[0]
            same = torch.allclose(together[draw], alone, atol=SAME)
            require(same, f"draw {draw} predicted alone differs from draw {draw} predicted among {len(draws)}")
        if len(draws) > 1:
            require(not torch.allclose(together[0], together[1], atol=SAME), "two draws are equal")


@contract_check("let no row see another; no batch statistics; noise named by `rows`")
def blocks_do_not_matter(subject: ApproachUnderTest) -> None:
    """A row's prediction depends neither on the rows predicted with it nor on their order."""
    for posterior in subject.posteriors():
        whole = subject.predict(posterior)
        for size in (1, 7, PREDICTED):
            last_first = [range(end - 1, max(end - size, 0) - 1, -1) for end in range(PREDICTED, 0, -size)]
            parts = torch.cat([subject.predict(posterior, block=block) for block in last_first], dim=1).flip(1)
            difference = float(((parts - whole).abs() / (1 + whole.abs())).max())
            said = f"blocks of {size} rows, the last row first, differ from one block by {difference} (relative)"
            require(difference < 10 * SAME, said)


@contract_check("take all randomness from ctx.generator(name) or ctx.stream(name)")
def seed_repeats(subject: ApproachUnderTest) -> None:
    """The same seed gives the same posterior, to the bit; another seed gives another (if anything is trained)."""
    first, again = subject.fit(seed=3).arrays(), subject.fit_with(CheckContext(3)).arrays()
    require(same_arrays(first, again), "the same seed gave another posterior")
    if subject.approach().epochs:
        require(not same_arrays(first, subject.fit(seed=4).arrays()), "two seeds gave the same posterior")


@contract_check("predict must not draw from a generator that training uses, nor change its state")
def measuring_is_harmless(subject: ApproachUnderTest) -> None:
    """Measuring at the end of an epoch does not change training."""
    context = CheckContext(3)

    def measure(posterior: Posterior) -> None:
        subject.predict(posterior)

    context.on_epoch = measure
    measured = subject.fit_with(context, epochs=2).arrays()
    require(same_arrays(measured, subject.fit(seed=3, epochs=2).arrays()), "measuring changed the training")


@contract_check("return parameters and optimiser in `state`, and start where ctx.restore() says")
def resume(subject: ApproachUnderTest) -> None:
    """A fit resumed from the state after epoch 1 reports and ends as an uninterrupted one does, to the bit."""
    if subject.approach(2).epochs < 2:
        return
    context = CheckContext(5)
    whole = subject.fit_with(context, epochs=2)
    again = CheckContext(5, resume=(1, context.states[1]))
    resumed = subject.fit_with(again, epochs=2)
    require(same_arrays(whole.arrays(), resumed.arrays()), "the resumed fit ended elsewhere")
    require(again.traces == {2: context.traces[2]}, f"the resumed fit reported {again.traces}, not {context.traces[2]}")


@contract_check("copy the weights into the posterior; keep nothing in module globals")
def fits_are_apart(subject: ApproachUnderTest) -> None:
    """Another fit does not change a posterior."""
    posterior = subject.fit(seed=3)
    before = subject.predict(posterior).clone()
    subject.fit_with(CheckContext(11))
    require(torch.equal(before, subject.predict(posterior)), "another fit changed a posterior's predictions")


@contract_check("store in arrays() all that predict needs")
def rebuild(subject: ApproachUnderTest) -> None:
    """A posterior rebuilt from its stored arrays predicts the same."""
    posterior = subject.fit()
    arrays = {name: value.clone() for name, value in posterior.arrays().items()}
    rebuilt = subject.approach().rebuild(arrays, subject.task, 0)
    same = torch.equal(subject.predict(posterior), subject.predict(rebuilt, subject.draws_of(posterior)))
    require(same, "the rebuilt posterior predicts otherwise")


@contract_check("list in `capabilities` exactly the optional methods that are there")
def capabilities(subject: ApproachUnderTest) -> None:
    """Exactly the optional methods that the manifest declares are offered, `fit_many` of the approach among them."""
    posterior = subject.fit()
    calls: dict[str, Callable[[], object]] = {
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
        declared = subject.declares(name)
        require(
            offered == declared,
            f"{name} is {'' if declared else 'not '}declared and {'' if offered else 'not '}offered",
        )


@contract_check("set mean and sigma to zero where keep is False, and nothing elsewhere", needs="masked")
def pruning(subject: ApproachUnderTest) -> None:
    """An empty mask changes nothing. Masked weights have no mean and no noise. With all masked, predictions are 1/K."""
    posterior = subject.fit()
    marginals = posterior.weights()
    draws = subject.draws_of(posterior)
    everything = {name: torch.ones_like(m.used) for name, m in marginals.items()}
    kept = subject.predict(posterior.masked(everything), draws)
    require(torch.allclose(subject.predict(posterior), kept, atol=SAME), "masking nothing changed the predictions")
    source = torch.Generator().manual_seed(1)
    half = {n: torch.rand(m.mean.shape, generator=source) < 0.5 for n, m in marginals.items()}
    for name, marginal in posterior.masked(half).weights().items():
        require(not bool(marginal.mean[~half[name]].any()), f"{name}: a pruned weight has a mean")
        if marginal.std is not None:
            require(not bool(marginal.std[~half[name]].any()), f"{name}: a pruned weight has noise")
    nothing = {name: torch.zeros_like(m.used) for name, m in marginals.items()}
    flat = subject.predict(posterior.masked(nothing), draws)
    if subject.is_classifier:
        require(bool((flat + math.log(10)).abs().max() < SAME), "the empty network does not predict 1/K")
    else:
        require(not bool(flat.any()), "the empty network does not predict zero")


@contract_check("return one network without noise, n_draws 1", needs="mean_network")
def mean_network(subject: ApproachUnderTest) -> None:
    """The mean network is one deterministic network."""
    network = subject.fit().mean_network()
    require(network.n_draws == 1, f"the mean network has n_draws {network.n_draws}, wanted 1")
    once, renamed = (values(network.predict(subject.x, range(1), subject.rows + shift)) for shift in (0, 50))
    require(torch.allclose(once, renamed, atol=SAME), "the mean network depends on the rows' names")


@contract_check(
    "return log q - log p, float64 [S], of the networks that `predict` draws for the same indices",
    needs="log_density_ratio",
)
def density_ratio(subject: ApproachUnderTest) -> None:
    """Log q - log p of each draw is finite, float64, and belongs to the draw."""
    posterior = subject.fit()
    ratios = posterior.log_density_ratio(range(3))
    require(ratios.dtype == torch.float64 and ratios.shape == (3,), "log_density_ratio must be float64 [S]")
    require(bool(ratios.isfinite().all()), "a log density ratio is not finite")
    require(torch.equal(ratios[2:], posterior.log_density_ratio(range(2, 3))), "draw 2 alone has another density")


@contract_check("draw each seed's noise from its own context, as fit does", needs="fit_many")
def many_seeds(subject: ApproachUnderTest) -> None:
    """Seeds fitted together report and end as each does alone, up to rounding, also if they were interrupted."""
    contexts = [CheckContext(seed) for seed in MANY]
    together = subject.fit_many(contexts, epochs=2)
    require(len(together) == len(MANY), f"fit_many returned {len(together)} posteriors for {len(MANY)} seeds")
    resumed = subject.fit_many([CheckContext(each.seed, resume=(1, each.states[1])) for each in contexts], epochs=2)
    for context, rows, *both in zip(contexts, subject.some_rows(), together, resumed, strict=True):
        alone = CheckContext(context.seed)
        wanted = subject.approach(2).fit(subject.train.select(rows), subject.task, alone).arrays()
        require(context.traces.keys() == alone.traces.keys(), f"seed {context.seed}: epochs were not reported")
        for epoch, trace in alone.traces.items():
            for name, value in trace.items():
                seen = context.traces[epoch].get(name, math.nan)
                close = math.isclose(seen, value, rel_tol=ROUNDED)
                require(close, f"seed {context.seed}, epoch {epoch}: {name} is {seen}, alone {value}")
        for posterior in both:
            for name, array in posterior.arrays().items():
                difference = float((array - wanted[name]).abs().max()) / (1e-6 + float(wanted[name].abs().max()))
                require(
                    difference < ROUNDED,
                    f"seed {context.seed}: {name} is off by {difference} (relative) from a fit alone",
                )


@contract_check("return self, or a posterior with noise 'shared' and the same distribution of each row")
def per_row(subject: ApproachUnderTest) -> None:
    """`per_row` is the posterior itself, or has the same distribution for each row and says that it shares noise.

    If the distributions are the same, the differences d of two independent draws are symmetric around zero, so that
    |sum d| / sqrt(sum d^2) exceeds t with probability 2 exp(-t^2 / 2) at most (Efron 1969). With this t, a correct
    `per_row` fails once in a million, over all rows and outputs together.
    """
    posterior, *fast = subject.posteriors()
    for alone in fast:
        require(alone.noise == "shared", f"per_row has noise '{alone.noise}', wanted 'shared'")
        require(alone.n_draws is None, f"per_row has n_draws {alone.n_draws}, wanted None")
        both = [subject.predict(one, range(PER_ROW_DRAWS)).double() for one in (posterior, alone)]
        if subject.is_classifier:
            both = [log_probs.exp() for log_probs in both]
        difference = both[0] - both[1]
        # Scaled, because the square of a probability of 1e-200 would be 0.
        difference /= difference.abs().amax(0).clamp(min=1e-300)
        limit = math.sqrt(2 * math.log(2 * difference[0].numel() / 1e-6))
        same = bool((difference.sum(0).abs() <= limit * difference.square().sum(0).sqrt()).all())
        require(same, f"a row's mean over draws of per_row is more than {limit:.1f} standard errors away")
        try:
            alone.log_density_ratio(range(1))
        except Unsupported:
            continue
        raise ContractViolation("a draw of per_row is not one network, but has a log_density_ratio")


@contract_check("use generators of your own; do not write into x")
def global_state(subject: ApproachUnderTest) -> None:
    """Neither fit nor predict touches torch's global generator or the rows."""
    before, x, train_x = torch.get_rng_state(), subject.x.clone(), subject.train.x.clone()
    subject.predict(subject.fit_with(CheckContext(2)))
    require(torch.equal(before, torch.get_rng_state()), "torch's global generator was used and not restored")
    require(torch.equal(x, subject.x) and torch.equal(train_x, subject.train.x), "rows were changed in place")
