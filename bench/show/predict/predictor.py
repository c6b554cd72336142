"""A trained approach that answers pictures."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from bench.core.errors import ConfigError, check_known
from bench.core.noise import without_compiling
from bench.core.records import Record
from bench.core.store import Store
from bench.measure.measuring import categorical, draws_of
from bench.measure.metrics.arrays import FloatArray
from bench.measure.metrics.draws import DrawSummary, reduce_draws
from bench.measure.metrics.refusal import MEDIAN_RULE, STRICT_RULE, RefusalRule
from bench.measure.metrics.uncertainty import entropies
from bench.show.predict import fits
from bench.show.predict.normalise import Normalised, normalise
from bench.show.predict.reading import Given

MAX_DRAWS = 10_000
BLOCK_IMAGES = 100  # pictures predicted at once
RULES: Mapping[str, RefusalRule] = {"median": MEDIAN_RULE, "strict": STRICT_RULE}
DEFAULT = "strict"
"""Most of the shipped corrected networks refuse 6 % of 300 MNIST digits, 56 % of 300 letters and 66 % of 300 pieces of
clothing by this rule; by the median rule 0, 1 and 2 %.
"""


@dataclass(frozen=True, repr=False)
class PictureAnswer:
    """What one approach says of one picture."""

    approach: str
    recipe: str
    profile: str
    seed: int  # run seed of the fit
    n_draws: int  # 1 for a deterministic network
    digit: int | None  # None: "I don't know"
    best_guess: int  # the answer; if the rule refuses, what it would answer if it did not
    probabilities: tuple[float, ...]  # of the digits 0 to 9, mean over the draws
    predictive_entropy: float  # nats
    mutual_information: float  # nats
    rule: str  # of RULES
    refused_by: str  # why the rule does not answer, '' if it does
    draws: FloatArray = dataclasses.field(compare=False)  # [S, 10], probabilities of each draw
    remarks: tuple[str, ...] = ()  # see `Normalised`

    @property
    def label(self) -> str:
        """Return the approach, with the recipe if it is not the published one."""
        return fits.label(self.approach, self.recipe)

    @property
    def says(self) -> str:
        """Return the digit, or "I don't know"."""
        return "I don't know" if self.digit is None else str(self.digit)

    def __str__(self) -> str:
        """Return the answer in one line."""
        why = f"; rule {self.rule}: {self.refused_by}" if self.refused_by else ""
        mutual = f"{self.mutual_information:.3f} nats" if self.n_draws > 1 else "-"
        return (
            f"{self.label}: {self.says} (probability {self.probabilities[self.best_guess]:.3f}, entropy "
            f"{self.predictive_entropy:.3f} nats, mutual information {mutual}{why})"
            + "".join(f"; {remark}" for remark in self.remarks)
        )

    def __repr__(self) -> str:
        """Return the line of `str`, because a notebook shows this form."""
        return f"<{self}>"


class Predictor:
    """A trained approach of a results folder that answers pictures."""

    def __init__(
        self,
        results: str | Path,
        approach: str,
        recipe: str | None = None,
        *,
        profile: str = "full",
        seed: int | None = None,
        n_draws: int = 100,
        rule: str = DEFAULT,
    ) -> None:
        """Load a posterior.

        Args:
            results: folder with records and fits.
            approach: its name, see `python -m bench list`.
            recipe: which recipe it was trained by; None for `corrected`, or where that has no fit, `published`.
            profile: how long it was trained.
            seed: run seed; None for the lowest that has a fit.
            n_draws: number of draws from the posterior.
            rule: when it says "I don't know": a name of RULES.

        Raises:
            ConfigError: a name is unknown, or the posterior is missing.
            StoreError: the file of the posterior is damaged.
            MissingFramework: a framework that the approach needs is not installed.
        """
        store = Store(Path(results))
        self._load(
            store, fits.choose(store, (approach,), () if recipe is None else (recipe,), profile, seed)[0], n_draws, rule
        )

    @classmethod
    def of(cls, store: Store, fit: Record, n_draws: int = 100, rule: str = DEFAULT) -> Predictor:
        """Return the predictor of a fit; raises as the constructor."""
        made = cls.__new__(cls)
        made._load(store, fit, n_draws, rule)
        return made

    def _load(self, store: Store, fit: Record, n_draws: int, rule: str) -> None:
        if not 1 <= n_draws <= MAX_DRAWS:
            raise ConfigError(f"{n_draws} draws were asked for; allowed are 1 to {MAX_DRAWS}")
        check_known("rule", RULES, rule)
        self.fit, self.rule = fit, rule
        # Shipped posteriors are small: to compile the loops would take longer than to go without.
        self._noise_mode = without_compiling if fits.is_shipped(store, fit) else contextlib.nullcontext
        with self._noise_mode():
            self._posterior = fits.load(store, fit)
        self._draws = draws_of(self._posterior, n_draws)

    def __call__(self, image: Given) -> PictureAnswer:
        """Answer a PNG or JPEG, or what else `reading.read` takes; raises UnusableImage."""
        return self.answers([normalise(image)])[0]

    def answers(self, images: Sequence[Normalised]) -> list[PictureAnswer]:
        """Answer pictures, each as if it were alone."""
        starts = range(0, len(images), BLOCK_IMAGES)
        return [answer for start in starts for answer in self._block(images[start : start + BLOCK_IMAGES])]

    def _block(self, images: Sequence[Normalised]) -> list[PictureAnswer]:
        x = torch.from_numpy(np.stack([image.pixels.reshape(-1) for image in images]))
        rows = torch.zeros(len(images), dtype=torch.int64)  # noise of row 0 for each: no answer depends on the others
        with torch.no_grad(), self._noise_mode():
            log_probs = categorical(self._posterior, x, self._draws, rows)
        summary = reduce_draws(log_probs)
        nats = entropies(summary)
        each = log_probs.double().exp().cpu().numpy()
        answers = []
        for row in range(len(images)):
            digit, refused = judged(self.rule, summary, row)
            answers.append(
                PictureAnswer(
                    approach=self.fit.approach,
                    recipe=self.fit.recipe,
                    profile=self.fit.profile,
                    seed=self.fit.seed,
                    n_draws=len(self._draws),
                    digit=None if refused else digit,
                    best_guess=digit,
                    probabilities=tuple(summary.mean_probs[row].tolist()),
                    predictive_entropy=float(nats["predictive_entropy"][row]),
                    mutual_information=float(nats["mutual_information"][row]),
                    rule=self.rule,
                    refused_by=refused,
                    draws=each[:, row],
                    remarks=images[row].remarks,
                )
            )
        return answers


def in_words(rule: str) -> str:
    """Return when a rule answers."""
    of = RULES[rule]
    return f"answers if the {_quantile(of)} over the draws of a digit's probability is above {of.threshold}"


def judged(rule: str, summary: DrawSummary, row: int) -> tuple[int, str]:
    """Return the answer to a row, and why the rule refuses it, '' if it does not."""
    of = RULES[rule]
    found = summary.quantile_probs[of.quantile][row]
    digit, highest = int(found.argmax()), float(found.max())
    if highest > of.threshold:
        return digit, ""
    what = f"no digit's {_quantile(of)} over the draws is above {of.threshold}"
    return digit, f"{what}; the highest is {highest:.3f}, of the digit {digit}"


def _quantile(rule: RefusalRule) -> str:
    return "median" if rule.quantile == 0.5 else f"{rule.quantile:.0%} quantile"
