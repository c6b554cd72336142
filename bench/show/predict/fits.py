"""Finds the trained posteriors of a results folder and loads them.

A run keeps its posteriors in `fits`. A few posteriors come with the suite, in `shipped-fits`: to keep them small, their
weights are rounded to float16. The same file holds the scores from which the rules of entropies take their thresholds.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from bench.core.errors import ConfigError, ContractViolation, StoreError, check_known
from bench.core.project import RESULTS
from bench.core.records import Record
from bench.core.row_scores import Scores, check_scores
from bench.core.store import Store
from bench.core.text import duration, one_line
from bench.interface import Posterior, Task
from bench.measure.measuring import categorical
from bench.plan.cells import Selection, cells
from bench.plan.costs import estimates, seconds_of, speed_here
from bench.plan.freshness import is_stale
from bench.plan.manifests import DOCUMENTS, ApproachManifest
from bench.plan.recipes import build, profile, resolve
from bench.plan.registry import manifest, manifests

PRECISION = "float32"  # pictures are predicted in float32; fits trained in another precision are left out
SHIPPED = "shipped-fits"
SCORES = "scores/"  # start of the names of a shipped fit's scores; all other names are of its weights
LONGEST_REASON = 300  # characters; PyTorch lists every tensor that does not fit
TASK = Task("classification", n_outputs=10, n_train=60_000, n_inputs=784)


def label(approach: str, recipe: str) -> str:
    """Return the name of a fit for people; the published recipe goes without saying."""
    return approach if recipe == "published" else f"{approach} {recipe}"


def posterior_path(store: Store, fit_key: str) -> Path:
    """Return the path of a fit's posterior: the trained one if it exists, else the shipped one, which may not exist."""
    trained = store.fit_path(fit_key, "posterior")
    return trained if trained.exists() else store.root / SHIPPED / trained.relative_to(store.root / "fits")


def is_shipped(store: Store, fit: Record) -> bool:
    """Return whether the posterior is one of those that come with the suite; they are small."""
    return posterior_path(store, fit.fit_key) != store.fit_path(fit.fit_key, "posterior")


def _fitted(store: Store, stored: Sequence[Record]) -> list[Record]:
    """Return a record of each trained classifier of digits whose posterior is there, the published of each first.

    A fit may have several records; one by the common protocol is returned if there is one.
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
    """Return the approaches that tell digits."""
    return {name: entry for name, entry in manifests().items() if entry.task == "mnist"}


def choose(
    store: Store,
    approaches: Sequence[str] = (),
    recipes: Sequence[str] = ("published",),
    budget: str = "full",
    seed: int | None = None,
) -> list[Record]:
    """Return one fit, as a record of it, for each approach and recipe: of the lowest seed, unless one is asked for.

    Args:
        store: the results folder.
        approaches: their names; none for all that are there. A named approach must be there with every recipe.
        recipes: names of recipes.
        budget: name of the profile that they were trained with.
        seed: run seed; None for the lowest that is there.

    Raises:
        ConfigError: unknown name, or no such posterior; says which command trains it.
    """
    if profile(budget).task != "mnist":
        raise ConfigError(f"networks of profile {budget} learnt no digits; give one such as full")
    check_known("classifier of digits", classifiers(), *approaches)
    for name in approaches:
        for recipe in recipes:
            resolve(manifest(name), recipe)
    for recipe in () if approaches else recipes:
        if not any(_has(entry, recipe) for entry in classifiers().values()):
            raise ConfigError(f"no approach has a recipe '{recipe}'; `python -m bench list` says what each has")
    stored = store.all_records()[0]
    there = _fitted(store, stored)
    right = [fit for fit in there if fit.profile == budget and seed in (None, fit.seed)]
    chosen = []
    for name in approaches or classifiers():
        for recipe in recipes:
            fits = [fit for fit in right if (fit.approach, fit.recipe) == (name, recipe)]
            if approaches and not fits:
                raise _not_there(store, stored, there, name, recipe, budget, seed)
            chosen += fits[:1]
    if not chosen:
        raise _not_there(store, stored, there, "", recipes[0], budget, seed)
    return chosen


def _has(entry: ApproachManifest, recipe: str) -> bool:
    try:
        resolve(entry, recipe)
    except ConfigError:
        return False
    return True


def _not_there(
    store: Store,
    stored: Sequence[Record],
    there: Sequence[Record],
    name: str,
    recipe: str,
    budget: str,
    seed: int | None,
) -> ConfigError:
    """Make the error for a posterior of an approach, or of all (''), that is not there: what is, what trains it."""
    what = f"of {name} {recipe}" if name else f"with recipe {recipe}"
    what += f", profile {budget}" + ("" if seed is None else f", seed {seed}")
    others = [fit for fit in there if name in ("", fit.approach)]
    named = [f"{label(fit.approach, fit.recipe)} ({fit.profile}, seed {fit.seed})" for fit in others[:4]]
    has = f"; there is {', '.join(dict.fromkeys(named))}"
    options = f" --recipe {recipe}" + ("" if budget == "full" else f" --profile {budget}")
    options += "" if seed is None else f" --seeds {seed},"
    # If the record is there without its fit, `run` has nothing to do in this folder. It trains in another one.
    asked = (recipe, budget, seed or 0)
    is_done = any(
        name in ("", record.approach) and (record.recipe, record.profile, record.seed) == asked for record in stored
    )
    place = "my-results" if is_done or store.root == RESULTS else store.root
    able = [entry for entry in classifiers().values() if name in ("", entry.name) and _has(entry, recipe)]
    makers = tuple(entry.name for entry in [one for one in able if one.group == DOCUMENTS] or able)
    choice = Selection(approaches=makers, recipes=(recipe,), profile=budget, seeds=(seed or 0,))
    chosen = cells(choice)
    seconds = seconds_of(chosen, estimates(chosen, stored, speed_here(choice.device)))  # on this machine
    how_long = f", in about {duration(seconds)}" if seconds else ""
    return ConfigError(
        f"no trained posterior {what} in {store.root}{has if others else ''}; "
        f"`python -m bench run {' '.join(makers)}{options} --results {place}` trains it{how_long}"
        + (f"; then give --results {place}" if place != store.root else "")
    )


def scores(store: Store, fit: Record) -> Scores:
    """Return the per-row scores of a fit's test digits, empty where there are none; raises StoreError."""
    if not is_shipped(store, fit):
        return store.scores(fit)
    path = posterior_path(store, fit.fit_key)
    kept = store.read_tensors(path)
    found = kept[0] if kept is not None else {}
    try:
        arrays = {name.removeprefix(SCORES): value.numpy() for name, value in found.items() if name.startswith(SCORES)}
        check_scores(arrays)
    except (TypeError, ValueError) as error:  # NumPy lacks some types of PyTorch
        raise StoreError(f"the scores in {path} cannot be trusted: {one_line(str(error))}") from error
    return arrays


def rebuilt(store: Store, fit: Record) -> Posterior:
    """Return the posterior of a fit as its approach made it; raises StoreError if its file cannot be trusted."""
    entry = manifest(fit.approach)
    approach = build(entry, resolve(entry, fit.recipe), profile(fit.profile))
    path = posterior_path(store, fit.fit_key)
    kept = store.read_tensors(path)
    if kept is None or kept[1].get("fit_key") != fit.fit_key:
        name = label(fit.approach, fit.recipe)
        raise StoreError(f"posterior {path} cannot be trusted; `python -m bench run` elsewhere trains {name} anew")
    weights = {name: value for name, value in kept[0].items() if not name.startswith(SCORES)}
    widened = {name: value.float() if value.dtype == torch.float16 else value for name, value in weights.items()}
    return approach.rebuild(widened, TASK, fit.seed)


def load(store: Store, fit: Record) -> Posterior:
    """Return the posterior of a fit after a trial prediction. It predicts each row by itself: answers need no more.

    Raises:
        StoreError: its file cannot be trusted (it is then set aside), or does not fit today's code.
        MissingFramework: what the approach needs is not installed.
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
