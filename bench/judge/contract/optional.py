"""What the contract asks of the optional methods that a manifest declares."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from bench.core.errors import Unsupported
from bench.judge.contract.under_test import (
    MANY,
    SAME,
    ApproachUnderTest,
    CheckContext,
    contract_check,
    require,
    values,
)
from bench.plan.manifests import CAPABILITIES

ROUNDED = 1e-4  # relative; how far a few steps carry the rounding of float32


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
                gap = float((array - wanted[name]).abs().max()) / (1e-6 + float(wanted[name].abs().max()))
                require(gap < ROUNDED, f"seed {context.seed}: {name} is off by {gap} (relative) from a fit alone")
