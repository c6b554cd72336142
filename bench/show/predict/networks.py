"""Trained networks that answer pictures: a run keeps them in `fits`; the shipped ones have weights of float16."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from bench.core.errors import ConfigError, StoreError, check_known
from bench.core.fits import read_posterior
from bench.core.noise import without_compiling
from bench.core.records import Record
from bench.core.store import Store
from bench.core.text import one_line
from bench.interface import Posterior, Task
from bench.measure.measuring import categorical, draws_of, posterior_of
from bench.measure.metrics.arrays import FloatArray
from bench.measure.metrics.draws import reduce_draws
from bench.measure.metrics.refusal import STRICT_RULE
from bench.measure.metrics.uncertainty import entropies
from bench.plan.freshness import is_stale
from bench.plan.recipes import PROFILES, build, profile, resolve
from bench.plan.registry import manifest, manifests
from bench.show.predict.pictures import Normalised

SHIPPED = "shipped-fits"
TASK = Task("classification", n_outputs=10, n_train=60_000, n_inputs=784)
RULE = f"a network answers if the 10 % quantile of its draws of a digit's probability is above {STRICT_RULE.threshold}"


@dataclass(frozen=True)
class PictureAnswer:
    """What one network says of one picture; entropies in nats."""

    network: str  # see `label`
    digit: int | None  # None: "I don't know"
    probabilities: tuple[float, ...] = field(repr=False)  # of the digits 0 to 9, mean over the draws
    predictive_entropy: float
    mutual_information: float  # 0 for a deterministic network, which has one draw
    quantile: float  # the largest 10 % quantile over the draws of a digit's probability, see RULE
    draws: FloatArray = field(compare=False, repr=False)  # [S, 10], probabilities of each draw
    remarks: tuple[str, ...]  # see `Normalised`

    @property
    def says(self) -> str:
        """Return the digit, or "I don't know"."""
        return "I don't know" if self.digit is None else str(self.digit)


def label(fit: Record) -> str:
    """Return the approach, with the recipe if it is not the published one, and the profile if it is not full."""
    return " ".join((fit.approach, *(part for part in (fit.recipe, fit.profile) if part not in ("published", "full"))))


def posterior_path(store: Store, fit_key: str) -> Path:
    """Return the path of the trained posterior if that file exists, else of the shipped one, which may not exist."""
    trained = store.fit_path(fit_key, "posterior")
    return trained if trained.exists() else store.root / SHIPPED / trained.relative_to(store.root / "fits")


def choose(folders: Iterable[Path], named: Sequence[str] = (), recipe: str | None = None) -> list[tuple[Store, Record]]:
    """Return a record of one fit for each approach that is named, or of all that have one, and the folder that has it.

    Of an approach's fits, the first folder's come first, then corrected recipes, the full profile, the lowest seed.
    Raises ConfigError where a name is unknown, or no network is there; it says which command trains one.
    """
    classifiers = {name: entry for name, entry in manifests().items() if entry.task == "mnist"}
    check_known("classifier of digits", classifiers, *named)
    known = {each for entry in classifiers.values() for each in entry.recipes}
    check_known("recipe", known, (recipe or "published").split("+")[0])
    recipes = (recipe,) if recipe else ("corrected", "published")
    found: dict[str, tuple[Store, Record]] = {}
    for store in map(Store, dict.fromkeys(folders)):
        fits = [one for one in store.all_records()[0] if one.approach in classifiers and one.recipe in recipes]
        for fit in sorted(fits, key=lambda one: (recipes.index(one.recipe), one.profile != "full", one.seed)):
            is_usable = fit.outcome == "done" and fit.precision == "float32" and fit.profile in PROFILES
            if is_usable and not is_stale(fit) and posterior_path(store, fit.fit_key).exists():
                found.setdefault(fit.approach, (store, fit))
    names = list(dict.fromkeys(named)) or [name for name in classifiers if name in found] or ["mlp"]
    for name in names:
        if name not in found:
            trains = f"`python -m bench run {name} --recipe {recipes[0]} --results my-results` trains one"
            raise ConfigError(f"no trained network of {name}; {trains}; then give --results my-results")
    return [found[name] for name in names]


def load(store: Store, fit: Record) -> Posterior:
    """Return the posterior of a fit, which predicts whole networks where it has them; raises StoreError."""
    entry, path = manifest(fit.approach), posterior_path(store, fit.fit_key)
    kept = read_posterior(store, fit.fit_key, path)
    if kept is None:
        raise StoreError(f"posterior {path} cannot be trusted; `python -m bench run` elsewhere trains another")
    arrays = {name: value for name, value in kept[0].items() if not name.startswith("scores/")}
    arrays = {name: value.float() if value.dtype == torch.float16 else value for name, value in arrays.items()}
    return posterior_of(build(entry, resolve(entry, fit.recipe), profile(fit.profile)), arrays, TASK, fit.seed)


def ask(store: Store, fit: Record, images: Sequence[Normalised], n_draws: int = 100) -> list[PictureAnswer]:
    """Return a network's answers to pictures, each with the noise of row 0, as if alone; raises BenchError."""
    if not (images and 1 <= n_draws <= 10_000):
        raise ConfigError(f"{n_draws} draws, {len(images)} pictures; allowed are 1 to 10000, at least 1 picture")
    x = torch.from_numpy(np.stack([image.pixels.reshape(-1) for image in images]))
    try:
        with torch.no_grad(), without_compiling():  # to compile would take longer than to go without
            posterior = load(store, fit).per_row()
            log_probs = categorical(posterior, x, draws_of(posterior, n_draws), torch.zeros(len(x), dtype=torch.int64))
    except (LookupError, RuntimeError, ValueError, TypeError, AttributeError) as error:  # such as other shapes
        raise StoreError(f"the stored posterior does not fit {fit.approach}: {one_line(str(error))}") from error
    summary, each = reduce_draws(log_probs), log_probs.double().exp().cpu().numpy()
    nats, quantiles = entropies(summary), summary.quantile_probs[STRICT_RULE.quantile]
    digits = [int(one.argmax()) if one.max() > STRICT_RULE.threshold else None for one in quantiles]
    means, highest = summary.mean_probs.tolist(), quantiles.max(axis=1).tolist()
    entropy, mutual = (nats[name].tolist() for name in ("predictive_entropy", "mutual_information"))
    remarks = [image.remarks for image in images]
    rows = zip(digits, map(tuple, means), entropy, mutual, highest, np.moveaxis(each, 1, 0), remarks, strict=True)
    return [PictureAnswer(label(fit), *row) for row in rows]
