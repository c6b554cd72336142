"""Trained networks that answer pictures.

A run keeps its posteriors in `fits`. A few come with the suite, in `shipped-fits`, with weights rounded to float16.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from bench.measure.measuring import LONGEST_REASON, categorical, draws_of
from bench.measure.metrics.arrays import FloatArray
from bench.measure.metrics.draws import reduce_draws
from bench.measure.metrics.refusal import STRICT_RULE
from bench.measure.metrics.uncertainty import entropies
from bench.plan.freshness import is_stale
from bench.plan.recipes import PROFILES, build, profile, resolve
from bench.plan.registry import manifest, manifests
from bench.show.predict.pictures import Normalised

SHIPPED = "shipped-fits"
PREFERRED = ("corrected", "published")  # recipes, where none is asked for
NO_WEIGHTS = "scores/"  # names in a shipped file that begin so are of no weights
MAX_DRAWS = 10_000
BLOCK = 100  # pictures predicted at once
TASK = Task("classification", n_outputs=10, n_train=60_000, n_inputs=784)
RULE = f"a network answers if the 10 % quantile of its draws of a digit's probability is above {STRICT_RULE.threshold}"


@dataclass(frozen=True, repr=False)
class PictureAnswer:
    """What one network says of one picture; entropies in nats."""

    approach: str
    recipe: str
    profile: str
    seed: int  # run seed of the fit
    digit: int | None  # None: "I don't know"
    best_guess: int  # the answer; if the rule refuses, what it would answer if it did not
    probabilities: tuple[float, ...]  # of the digits 0 to 9, mean over the draws
    predictive_entropy: float
    mutual_information: float
    quantile: float  # the largest 10 % quantile over the draws of a digit's probability, see RULE
    draws: FloatArray = field(compare=False)  # [S, 10], probabilities of each draw; a deterministic network has one
    remarks: tuple[str, ...]  # see `Normalised`

    @property
    def says(self) -> str:
        """Return the digit, or "I don't know"."""
        return "I don't know" if self.digit is None else str(self.digit)

    def __repr__(self) -> str:
        """Return the answer in one line."""
        sure = f"probability {self.probabilities[self.best_guess]:.3f}, entropy {self.predictive_entropy:.3f} nats"
        mutual = f", mutual information {self.mutual_information:.3f}" if len(self.draws) > 1 else ""
        return "; ".join((f"{label(self)}: {self.says} ({sure}{mutual})", *self.remarks))


def label(of: Record | PictureAnswer) -> str:
    """Return the approach, with the recipe if it is not the published one, and the profile if it is not full."""
    return " ".join((of.approach, *(part for part in (of.recipe, of.profile) if part not in ("published", "full"))))


def posterior_path(store: Store, fit_key: str) -> Path:
    """Return the path of the trained posterior if that file exists, else of the shipped one, which may not exist."""
    trained = store.fit_path(fit_key, "posterior")
    return trained if trained.exists() else store.root / SHIPPED / trained.relative_to(store.root / "fits")


def choose(stores: Sequence[Store], named: Sequence[str] = (), recipe: str | None = None) -> list[tuple[Store, Record]]:
    """Return a record of one fit for each approach that is named, or of all that have one, and the folder that has it.

    Of an approach's fits, the first folder's come first, then PREFERRED recipes, the full profile, the lowest seed.
    Raises ConfigError where a name is unknown, or no network is there; it says which command trains one.
    """
    classifiers = {name: entry for name, entry in manifests().items() if entry.task == "mnist"}
    check_known("classifier of digits", classifiers, *named)
    known = {each for entry in classifiers.values() for each in entry.recipes}
    check_known("recipe", known, (recipe or "published").split("+")[0])
    recipes = (recipe,) if recipe else PREFERRED
    fits = [
        ((recipes.index(fit.recipe), fit.profile != "full", fit.seed, fit.protocol != "common", fit.key), store, fit)
        for store in stores
        for fit in store.all_records()[0]
        if fit.approach in classifiers and fit.recipe in recipes and fit.profile in PROFILES
        if fit.outcome == "done" and fit.precision == "float32" and not is_stale(fit)
        if posterior_path(store, fit.fit_key).exists()
    ]
    fits.sort(key=lambda one: (stores.index(one[1]), one[0]), reverse=True)
    first = {fit.approach: (store, fit) for _, store, fit in fits}  # of several, the last stays
    names = named or [name for name in classifiers if name in first] or ["mlp"]
    for name in names:
        if name not in first:
            raise ConfigError(
                f"no trained network of {name} ({' or '.join(recipes)}) in {stores[0].root}; `python -m bench run "
                f"{name} --recipe {recipes[0]} --results my-results` trains one; then give --results my-results"
            )
    return [first[name] for name in names]


def load(store: Store, fit: Record) -> Posterior:
    """Return the posterior of a fit, which predicts whole networks where it has them; raises StoreError."""
    entry, path = manifest(fit.approach), posterior_path(store, fit.fit_key)
    kept = read_posterior(store, fit.fit_key, path)
    if kept is None:
        raise StoreError(f"posterior {path} cannot be trusted; `python -m bench run` elsewhere trains another")
    weights = {name: value for name, value in kept[0].items() if not name.startswith(NO_WEIGHTS)}
    weights = {name: value.float() if value.dtype == torch.float16 else value for name, value in weights.items()}
    return build(entry, resolve(entry, fit.recipe), profile(fit.profile)).rebuild(weights, TASK, fit.seed)


def ask(store: Store, fit: Record, images: Sequence[Normalised], n_draws: int = 100) -> list[PictureAnswer]:
    """Return a network's answers to pictures, each as if it were alone; raises BenchError if it cannot answer."""
    if not 1 <= n_draws <= MAX_DRAWS:
        raise ConfigError(f"{n_draws} draws were asked for; allowed are 1 to {MAX_DRAWS}")
    if not images:
        return []
    x = torch.from_numpy(np.stack([image.pixels.reshape(-1) for image in images]))
    rows = torch.zeros(BLOCK, dtype=torch.int64)  # noise of row 0 for each: no answer depends on the others
    try:
        with torch.no_grad(), without_compiling():  # to compile would take longer than to go without
            posterior = load(store, fit).per_row()
            draws = draws_of(posterior, n_draws)
            blocks = [x[start : start + BLOCK] for start in range(0, len(x), BLOCK)]
            log_probs = torch.cat([categorical(posterior, one, draws, rows[: len(one)]) for one in blocks], dim=1)
    except (LookupError, RuntimeError, ValueError, TypeError, AttributeError) as error:
        path, why = posterior_path(store, fit.fit_key), one_line(str(error), LONGEST_REASON)
        raise StoreError(f"posterior {path} does not fit today's {fit.approach}: {why}; train it anew") from error
    summary, each = reduce_draws(log_probs), log_probs.double().exp().cpu().numpy()
    nats, quantiles = entropies(summary), summary.quantile_probs[STRICT_RULE.quantile]
    entropy, mutual = nats["predictive_entropy"], nats["mutual_information"]
    answers = []
    for row, image in enumerate(images):
        digit, highest = int(quantiles[row].argmax()), float(quantiles[row].max())
        answers.append(
            PictureAnswer(
                *(fit.approach, fit.recipe, fit.profile, fit.seed, digit if highest > STRICT_RULE.threshold else None),
                *(digit, tuple(summary.mean_probs[row].tolist()), float(entropy[row]), float(mutual[row])),
                *(highest, each[:, row], image.remarks),
            )
        )
    return answers
