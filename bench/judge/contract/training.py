"""What the contract asks of training: manifest, hyper-parameters, epochs, seeds, resuming, nothing global."""

from __future__ import annotations

import dataclasses
import math

import torch

from bench.interface import Posterior
from bench.judge.contract.under_test import ApproachUnderTest, CheckContext, contract_check, require, same_arrays
from bench.plan.recipes import build, profile, resolve
from bench.plan.registry import load_class


@contract_check("repair `fit` first; all other checks need it")
def fit(subject: ApproachUnderTest) -> None:
    """Fit trains on a few rows and returns a posterior."""
    subject.fit()


@contract_check("make manifest and class agree: noise, the fields that changes set, @dataclass(frozen=True)")
def manifest(subject: ApproachUnderTest) -> None:
    """The manifest says what the class does: noise, fields of every change, a frozen dataclass."""
    cls = load_class(subject.name)
    require(cls.noise == subject.manifest.noise, f"manifest noise {subject.manifest.noise}, class noise {cls.noise}")
    frozen = cls.__dataclass_params__.frozen  # type: ignore[attr-defined]  # Python keeps it there and types it nowhere
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
    """A posterior is unharmed by another fit."""
    posterior = subject.fit(seed=3)
    before = subject.predict(posterior).clone()
    subject.fit_with(CheckContext(11))
    require(torch.equal(before, subject.predict(posterior)), "another fit changed a posterior's predictions")


@contract_check("use generators of your own; do not write into x")
def global_state(subject: ApproachUnderTest) -> None:
    """Neither fit nor predict touches torch's global generator or the rows."""
    before, x, train_x = torch.get_rng_state(), subject.x.clone(), subject.train.x.clone()
    subject.predict(subject.fit_with(CheckContext(2)))
    require(torch.equal(before, torch.get_rng_state()), "torch's global generator was used and not restored")
    require(torch.equal(x, subject.x) and torch.equal(train_x, subject.train.x), "rows were changed in place")
