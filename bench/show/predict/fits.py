"""Finds the trained posteriors of a results folder and loads them.

A run keeps its posteriors in `fits`. A few posteriors come with the suite, in `shipped-fits`. To keep their files
small, the weights are rounded to float16.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path

import torch

from bench.core.errors import ConfigError, ContractViolation, StoreError, check_known
from bench.core.fits import read_posterior
from bench.core.records import Record
from bench.core.store import Store
from bench.core.text import one_line
from bench.interface import Posterior, Task
from bench.measure.measuring import LONGEST_REASON, categorical, posterior_of
from bench.plan.freshness import is_stale
from bench.plan.manifests import ApproachManifest
from bench.plan.recipes import build, profile, resolve
from bench.plan.registry import manifest, manifests

PRECISION = "float32"  # pictures are predicted in float32; fits trained in another precision are left out
SHIPPED = "shipped-fits"
PREFERRED = ("corrected", "published")  # where no recipe is asked for: of each approach, the first that is trained
NO_WEIGHTS = "scores/"  # names in a shipped file that begin so are of no weights
TASK = Task("classification", n_outputs=10, n_train=60_000, n_inputs=784)


def label(approach: str, recipe: str) -> str:
    """Return the name of a fit as users see it: the approach, and the recipe unless it is the published one."""
    return approach if recipe == "published" else f"{approach} {recipe}"


def posterior_path(store: Store, fit_key: str) -> Path:
    """Return the path of the trained posterior if that file exists, else of the shipped one, which may not exist."""
    trained = store.fit_path(fit_key, "posterior")
    return trained if trained.exists() else store.root / SHIPPED / trained.relative_to(store.root / "fits")


def is_shipped(store: Store, fit: Record) -> bool:
    """Return whether a fit's posterior is one of those that come with the suite."""
    return posterior_path(store, fit.fit_key) != store.fit_path(fit.fit_key, "posterior")


def _fitted(store: Store, stored: Sequence[Record]) -> list[Record]:
    """Return one record of each fit of digits whose posterior exists, in the order of the approaches.

    The published recipe of an approach comes first. If a fit has several records, the common protocol's is taken.
    """
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in stored:
        counts = record.outcome == "done" and record.precision == PRECISION and not is_stale(record)
        if counts and record.approach in classifiers():
            groups.setdefault((record.approach, record.recipe, record.fit_key), []).append(record)
    found = [
        min(records, key=lambda record: record.protocol != "common")
        for (_, _, fit_key), records in groups.items()
        if posterior_path(store, fit_key).exists()
    ]
    order = list(manifests())

    def place(fit: Record) -> tuple[int, bool, str, int, bool, str]:
        is_changed = fit.recipe != "published"
        return order.index(fit.approach), is_changed, fit.recipe, fit.seed, fit.device != "cpu", fit.fit_key

    return sorted(found, key=place)


def classifiers() -> dict[str, ApproachManifest]:
    """Return the manifests of the approaches that classify digits, by name."""
    return {name: entry for name, entry in manifests().items() if entry.task == "mnist"}


def choose(
    store: Store,
    approaches: Sequence[str] = (),
    recipes: Sequence[str] = (),
    budget: str = "full",
    seed: int | None = None,
) -> list[Record]:
    """Return a record of one fit of a results folder for each approach and recipe; see `choose_from`."""
    return [fit for _, fit in choose_from((store,), approaches, recipes, budget, seed)]


def choose_from(
    stores: Sequence[Store],
    approaches: Sequence[str] = (),
    recipes: Sequence[str] = (),
    budget: str = "full",
    seed: int | None = None,
) -> list[tuple[Store, Record]]:
    """Return a record of one fit for each approach and recipe, and the folder that has it.

    Args:
        stores: the results folders; of each approach, the first that has a fit which was asked for.
        approaches: their names; empty for all that have a fit. A named approach must have a fit of every recipe.
        recipes: names of recipes; empty for the first of PREFERRED that has a fit, of each approach.
        budget: name of the profile that the fits were trained with.
        seed: run seed; None for the lowest that has a fit.

    Raises:
        ConfigError: a name is unknown, or a posterior is missing; the message says which command trains it.
    """
    if profile(budget).task != "mnist":
        raise ConfigError(f"networks of profile {budget} learnt no digits; give another profile, such as full")
    check_known("classifier of digits", classifiers(), *approaches)
    for name in approaches:
        for recipe in recipes:
            resolve(manifest(name), recipe)
    for recipe in () if approaches else recipes:
        if not any(_has(entry, recipe) for entry in classifiers().values()):
            raise ConfigError(f"no approach has a recipe '{recipe}'; `python -m bench list` says what each has")
    fitted = [(store, fit) for store in stores for fit in _fitted(store, store.all_records()[0])]
    every = [fit for _, fit in fitted]
    right = [one for one in fitted if one[1].profile == budget and seed in (None, one[1].seed)]
    chosen = []
    for name in approaches or classifiers():
        trained = {one[1].recipe: one for one in reversed(right) if one[1].approach == name}  # the first stays
        wanted = [(store, fit) for store, fit in right if fit.approach == name and fit.recipe in (recipes or PREFERRED)]
        of_first = wanted[0][0] if wanted else None
        there = {recipe for recipe, one in trained.items() if one[0] is of_first}
        for recipe in recipes or _preferred(classifiers()[name], there):
            if recipe in trained:
                chosen.append(trained[recipe])
            elif approaches:
                raise _missing(stores[0], every, name, recipe, budget, seed)
    if not chosen:
        raise _missing(stores[0], every, "", (*recipes, *PREFERRED)[0], budget, seed)
    return chosen


def _preferred(entry: ApproachManifest, trained: Container[str]) -> list[str]:
    """Return the first of PREFERRED that is trained, else the first that the approach has."""
    known = [recipe for recipe in PREFERRED if _has(entry, recipe)]
    return ([recipe for recipe in known if recipe in trained] or known)[:1]


def _has(entry: ApproachManifest, recipe: str) -> bool:
    try:
        resolve(entry, recipe)
    except ConfigError:
        return False
    return True


def _missing(
    store: Store, fitted: Sequence[Record], name: str, recipe: str, budget: str, seed: int | None
) -> ConfigError:
    """Return the error for a missing posterior of an approach ('': any): which ones exist, and what trains this one."""
    others = [
        f"{label(fit.approach, fit.recipe)} ({fit.profile}, seed {fit.seed})"
        for fit in fitted
        if name in ("", fit.approach)
    ]
    has = f"; there is {', '.join(dict.fromkeys(others[:4]))}" if others else ""
    makers = [one.name for one in classifiers().values() if name in ("", one.name) and _has(one, recipe)]
    seeds = "" if seed is None else f" --seeds {seed},"
    return ConfigError(
        f"no trained posterior of {name or 'any approach'} {recipe}, profile {budget}"
        f"{'' if seed is None else f', seed {seed}'} in {store.root}{has}; `python -m bench run {' '.join(makers)} "
        f"--recipe {recipe} --profile {budget}{seeds} --results my-results` trains it; then give --results my-results"
    )


def rebuilt(store: Store, fit: Record) -> Posterior:
    """Return the posterior of a fit, which predicts whole networks where it has them; raises StoreError."""
    entry = manifest(fit.approach)
    approach = build(entry, resolve(entry, fit.recipe), profile(fit.profile))
    path = posterior_path(store, fit.fit_key)
    kept = read_posterior(store, fit.fit_key, path)
    if kept is None:
        name = label(fit.approach, fit.recipe)
        raise StoreError(f"posterior {path} cannot be trusted; `python -m bench run` elsewhere trains {name} anew")
    weights = {name: value for name, value in kept[0].items() if not name.startswith(NO_WEIGHTS)}
    widened = {name: value.float() if value.dtype == torch.float16 else value for name, value in weights.items()}
    return posterior_of(approach, widened, TASK, fit.seed)


def load(store: Store, fit: Record) -> Posterior:
    """Return the posterior of a fit in its faster form (`per_row`), after a trial prediction.

    Raises:
        StoreError: the file is damaged, or does not fit today's code.
        MissingFramework: a framework that the approach needs is not installed.
    """
    try:
        posterior = rebuilt(store, fit).per_row()
        categorical(posterior, torch.zeros(1, TASK.n_inputs), range(1), torch.zeros(1, dtype=torch.int64))
        return posterior
    except (LookupError, RuntimeError, ValueError, TypeError, AttributeError, MemoryError, ContractViolation) as error:
        reason = one_line(str(error), LONGEST_REASON)
        raise StoreError(
            f"posterior {posterior_path(store, fit.fit_key)} does not fit today's {fit.approach} ({reason}); "
            f"`python -m bench run {fit.approach} --results my-results` trains it anew"
        ) from error
