"""Whether the objective of the fits after Blundell et al. 2015 has converged: sentences, and lines for the table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bench.core.records import Record
from bench.core.text import Digits, counted, listed
from bench.judge.flatness import BLOCK, PART, SHARE, TIMES, Flatness, flatness, terms_of
from bench.judge.results import Results
from bench.judge.stats.papers import INTERPRETATIONS, with_mean_of_last
from bench.measure.metrics.epochs import TEST
from bench.plan.recipes import resolve
from bench.plan.registry import manifest

APPROACH = "blundell_bbb"
ROWS = {"train50k": 50_000, "train60k": 60_000}
CLASSES = 10
PUBLISHED = {
    "published": "the scale mixture, 400 units",
    "published+gaussian-prior": "one Gaussian, 400 units",
    "published+units-1200": "the scale mixture, 1200 units",
    "published+gaussian-prior+units-1200": "one Gaussian, 1200 units",
}
OWN_RATES = {
    "published+own-rates": "the scale mixture",
    "published+gaussian-prior+own-rates": "one Gaussian",
    "published+gaussian-e1+own-rates": "one Gaussian of sd e^-1",
    "published+gaussian-e2+own-rates": "one Gaussian of sd e^-2",
    "all-images+own-rates": "the scale mixture, 60,000 images",
    "all-images+gaussian-prior+own-rates": "one Gaussian, 60,000 images",
    "all-images+gaussian-e1+own-rates": "one Gaussian of sd e^-1, 60,000 images",
    "all-images+gaussian-e2+own-rates": "one Gaussian of sd e^-2, 60,000 images",
}
SHOWN = ("means", "draws", "last-100")  # interpretations


FLAT = (
    f"An ELBO is flat if the means of its last two blocks of {BLOCK} epochs differ by less than {TIMES:g} standard "
    f"errors, made from blocks of {PART} epochs, and by less than {100 * SHARE:g} % of the KL of the last epoch."
)


@dataclass(frozen=True)
class Judged:
    """A finished fit with its KL after each epoch, nats."""

    record: Record
    kl: Sequence[float]
    flatness: Flatness


def objective(results: Results) -> list[str]:
    """Say whether the ELBO of the published recipe is flat, and of those with a learning rate of its own for rho."""
    found = _judged(results, "published")
    if not found:
        return []
    others = [said for recipe, name in OWN_RATES.items() if (said := _own_rates(_judged(results, recipe), name))]
    none = "Fits with a learning rate of its own for rho have not run yet."
    own = f"With a learning rate of its own for rho: {'; '.join(others)}." if others else none
    return [f"{_verdict(found)} {_how_far(found)}", own]


def in_short(results: Results) -> str:
    """Return the first sentence of `objective`; '' without a fit."""
    found = _judged(results, "published")
    return _verdict(found) if found else ""


def flatness_lines(results: Results) -> Iterator[str]:
    """Say for each recipe by how much the last two blocks of epochs differ, and in how many fits the ELBO is flat."""
    for recipe, name in {**PUBLISHED, **OWN_RATES}.items():
        if found := _judged(results, recipe):
            own = ", own rate for rho" * (recipe in OWN_RATES)
            change, error, data, kl = (_mean(found, part) for part in ("change", "error", "data", "kl"))
            yield (
                f"ELBO of {name}{own}: flat in {_flat(found)}; the last two blocks differ by {change} nats (standard "
                f"error {error}); at the end the data term is {data}, the KL {kl} (means of the fits)."
            )


def _judged(results: Results, recipe: str) -> list[Judged]:
    """Return the finished fits of a recipe that have a KL by epoch and are long enough."""
    n_train = ROWS[resolve(manifest(APPROACH), recipe).split]
    found = []
    for record in results.trained_run(APPROACH, recipe, "published"):
        terms = terms_of(record, n_train) if record.outcome == "done" else None
        flat = flatness(*terms) if terms else None
        if terms and flat:
            found.append(Judged(record, terms[1], flat))
    return found


def _verdict(found: Sequence[Judged]) -> str:
    n_flat = sum(one.flatness.is_flat for one in found)
    some = "has converged" if n_flat == len(found) else "has not converged in every fit"
    state = some if n_flat else "has not converged"
    return f"As published, the objective {state}: with 400 units the ELBO is flat at the end of {_flat(found)}."


def _how_far(found: Sequence[Judged]) -> str:
    """Say the KL and the data term of the last epoch, what a network that guesses has, and how the KL moved."""
    ends = [
        statistics.fmean(one.kl[-back] for one in found)
        for back in (1, 101, 201)
        if all(len(one.kl) >= back for one in found)
    ]
    moves = [f"{after - before:+,.0f}" for after, before in pairwise(ends)]
    moved = f"; in the last 100 epochs the KL changed by {moves[0]} nats" if moves else ""
    also = f", in the 100 before by {moves[1]}" if len(moves) > 1 else ""
    guess = ROWS["train50k"] * math.log(CLASSES)
    beside = f" (a network that guesses has {guess:,.0f} nats in all)" if ends[0] > guess else ""
    data, kl = (_mean(found, part) for part in ("data", "kl"))
    n_epochs = len(found[0].kl)
    return f"After {n_epochs} epochs the KL is {kl} nats and the data term {data}{beside}{moved}{also}."


def _own_rates(found: Sequence[Judged], name: str) -> str:
    if not found:
        return ""
    metrics = [with_mean_of_last(one.record).metrics for one in found]
    errors = {way: [one.get(f"mnist/{TEST}/{INTERPRETATIONS[way][0]}") for one in metrics] for way in SHOWN}
    said = [
        f"{Digits(decimals=2).text(100 * statistics.fmean(values))} % ({way})"
        for way, given in errors.items()
        if (values := [one for one in given if one is not None])
    ]
    data, kl = (_mean(found, part) for part in ("data", "kl"))
    return f"{name}, flat in {_flat(found)}, KL {kl} and data term {data} nats, mistakes {listed(said)}"


def _flat(found: Sequence[Judged]) -> str:
    return f"{sum(one.flatness.is_flat for one in found)} of {counted(len(found), 'fit')}"


def _mean(found: Sequence[Judged], part: str) -> str:
    """Return the mean of a field of `Flatness` over the fits."""
    return f"{statistics.fmean(getattr(one.flatness, part) for one in found):,.0f}"
