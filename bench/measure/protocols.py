"""The base class of protocols, which protocol is whose, and `common`: official test set, mean of 100 draws."""

from __future__ import annotations

import importlib
import math
import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bench.core import timing
from bench.core.errors import ConfigError, DataMissing, Unsupported, check_known
from bench.core.reasons import message_reason
from bench.core.row_scores import LOG_OTHERS
from bench.data.manifest import TASKS
from bench.data.splits import load_ood, load_split
from bench.interface import Posterior, Split
from bench.measure.measuring import (
    EpochMetrics,
    Measurement,
    Predicted,
    categorical,
    draws_of,
    first_rows,
    on_device,
    predict_split,
)
from bench.measure.metrics.classification import accuracy, nll, row_brier, row_nll
from bench.measure.metrics.draws import VOTE_DRAWS, DrawSummary
from bench.measure.metrics.evaluate import evaluate_classification, evaluate_mean_network, evaluate_ood
from bench.measure.metrics.pruning import FRACTIONS, prune_at, pruning_row, score_name
from bench.measure.metrics.refusal import MEDIAN_RULE
from bench.measure.metrics.uncertainty import entropy, log_others
from bench.plan.manifests import ApproachManifest
from bench.plan.recipes import Profile
from bench.plan.trained_runs import PROTOCOLS

CPU = torch.device("cpu")
DRAWN_FRACTIONS = (0.0, 0.5, 0.75, 0.95)  # pruning levels that are also measured with draws
KEPT_ROWS = 24  # rows of each data set whose raw draws a record keeps for figures
LATENCY_REPEATS, LATENCY_LIMIT_S = 20, 5.0


class Protocol(ABC):
    """A way to measure the posteriors of one approach and seed."""

    def __init__(
        self,
        entry: ApproachManifest,
        seed: int,
        budget: Profile,
        data_dir: Path | None,
        device: torch.device = CPU,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.entry, self.seed, self.budget, self.data_dir = entry, seed, budget, data_dir
        self.device, self.dtype = device, dtype
        self.learnt = TASKS[budget.task]

    @property
    def n_rows(self) -> int | None:
        """Return how many rows of each data set are measured, from the first on; None: all."""
        return self.budget.rows

    def split(self, name: str) -> Split:
        """Return the first `n_rows` rows of a split of the learnt data set, on the device that predicts."""
        split = load_split(name, self.seed, self.data_dir, self.budget.task)
        return on_device(first_rows(split, self.n_rows), self.device, self.dtype)

    def ood(self, name: str) -> Split:
        """Return the first `n_rows` rows of an out-of-distribution data set, on that device; raises DataMissing."""
        split = load_ood(name, self.seed, self.data_dir, self.budget.task, self.dtype)
        return on_device(first_rows(split, self.n_rows), self.device, self.dtype)

    def epoch(self, posterior: Posterior, epoch: int) -> Mapping[str, float]:
        """Measure what the document prints after an epoch; nothing by default."""
        del posterior, epoch
        return {}

    @abstractmethod
    def final(self, posterior: Posterior, epochs: Sequence[EpochMetrics]) -> Measurement:
        """Measure the trained posterior; `epochs`: the numbers of each epoch."""


class Common(Protocol):
    """Official test set, 100 draws, mean of probabilities; every out-of-distribution set; pruning; speed."""

    @property
    def n_rows(self) -> int | None:
        """See `Protocol.n_rows`."""
        return self.budget.common_rows

    def final(self, posterior: Posterior, epochs: Sequence[EpochMetrics]) -> Measurement:
        """See `Protocol.final`."""
        del epochs
        found = Measurement()
        test = self.split("test10k")
        draws = draws_of(posterior, self.budget.draws)
        predicted = predict_split(posterior, test, draws, KEPT_ROWS)
        metrics, missing, arrays = evaluate_classification(
            predicted.summary, test.y.numpy(), hits=predicted.hits, noise=posterior.noise
        )
        inside, outside = self.learnt.inside, self.learnt.outside
        found.add(inside, metrics, missing)
        found.arrays.update({f"{inside}/{name}": value for name, value in arrays.items()})
        found.scores.update(_scores(inside, predicted, test))
        answer = partial(categorical, posterior, test.x[:1], draws, test.rows[:1])
        found.timings.update(speed(answer, predicted.seconds, len(test), len(draws), test.x.device))
        alone = posterior.per_row()  # allowed: no metric of the sets below depends on two rows of one draw
        for name in outside:
            self._ood(found, alone, predicted.summary, name, draws)
        found.arrays["noise"] = {inside: posterior.noise, **dict.fromkeys(outside, alone.noise)}
        self._mean_network(found, posterior, test)
        self._pruning(found, posterior, test)
        return found

    def _ood(self, found: Measurement, posterior: Posterior, inside: DrawSummary, name: str, draws: range) -> None:
        try:
            outside = self.ood(name)
        except DataMissing as error:
            found.missing[name] = message_reason("no-data", error)
            return
        predicted = predict_split(posterior, outside, draws, KEPT_ROWS)
        found.add(name, *evaluate_ood(inside, predicted.summary))
        found.scores.update(_scores(name, predicted, outside))

    def _mean_network(self, found: Measurement, posterior: Posterior, test: Split) -> None:
        try:
            network = posterior.mean_network()
        except Unsupported as error:
            names = (f"{self.learnt.inside}/mean_network/{name}" for name in ("accuracy", "nll"))
            found.missing.update(dict.fromkeys(names, message_reason("unsupported", error)))
            return
        predicted = predict_split(network, test, range(1))
        found.add(self.learnt.inside, *evaluate_mean_network(predicted.summary, test.y.numpy()))

    def _accuracy_and_nll(self, posterior: Posterior, test: Split, draws: range) -> dict[str, float | None]:
        summary, labels = predict_split(posterior, test, draws).summary, test.y.numpy()
        mean_nll = nll(summary.log_mean_probs, labels)
        return {
            "accuracy": accuracy(summary.mean_probs, labels),
            "nll": mean_nll if math.isfinite(mean_nll) else None,
        }

    def _pruning(self, found: Measurement, posterior: Posterior, test: Split) -> None:
        try:
            marginals = posterior.weights()
            kept = prune_at(marginals, FRACTIONS)
            rows = [row for fraction in FRACTIONS for row in self._pruned(posterior, fraction, kept[fraction], test)]
        except Unsupported as error:
            found.missing["pruning"] = message_reason("unsupported", error)
            return
        found.arrays["pruning"] = {"score": score_name(marginals), "rows": rows}

    def _pruned(
        self, posterior: Posterior, fraction: float, keep: Mapping[str, Tensor], test: Split
    ) -> list[dict[str, object]]:
        marginals = posterior.weights()
        pruned = posterior.masked(keep)
        mean = self._accuracy_and_nll(pruned.mean_network(), test, range(1))
        rows: list[dict[str, object]] = [
            {"fraction": fraction, "network": "mean", **mean, **pruning_row(marginals, keep, with_sigma=False)}
        ]
        if fraction in DRAWN_FRACTIONS and posterior.n_draws is None:
            draws = range(min(VOTE_DRAWS, self.budget.draws))
            pruned = pruned.per_row()
            noise = predict_split(pruned, self.ood("noise_uniform"), draws)
            rows.append(
                {
                    "fraction": fraction,
                    "network": "30 draws",
                    "noise": pruned.noise,
                    **self._accuracy_and_nll(pruned, test, draws),
                    "noise_refusal_rate": float((~MEDIAN_RULE.accepted(noise.summary)).mean()),
                    **pruning_row(marginals, keep),
                }
            )
        return rows


def _scores(name: str, predicted: Predicted, split: Split) -> dict[str, NDArray[np.generic]]:
    """Return the numbers of each row, from which comparisons are made, and the draws of a few rows, for figures."""
    summary = predicted.summary
    log_probs = summary.log_mean_probs
    probs = np.exp(log_probs)
    labelled: dict[str, NDArray[np.generic]] = {}
    if bool((split.y >= 0).all()):
        labels = split.y.numpy()
        labelled = {
            f"{name}/nll": row_nll(log_probs, labels).astype(np.float32),
            f"{name}/brier": row_brier(probs, labels).astype(np.float16),
        }
    return {
        f"{name}/label": split.y.numpy().astype(np.int8),
        f"{name}/predicted": log_probs.argmax(axis=1).astype(np.int8),
        f"{name}/max_probability": probs.max(axis=1).astype(np.float16),
        f"{name}/{LOG_OTHERS}": log_others(log_probs).astype(np.float32),
        f"{name}/predictive_entropy": entropy(log_probs).astype(np.float32),
        f"{name}/expected_entropy": summary.expected_entropy.astype(np.float16),
        f"{name}/votes": summary.votes.astype(np.uint8),
        f"{name}/draws": predicted.kept,
        **labelled,
    }


def speed(
    answer: Callable[[], object], seconds: float, n_images: int, n_draws: int, device: torch.device = CPU
) -> dict[str, float | int]:
    """Return the timings of predicting the test set in `seconds`; `answer`, which is timed here, predicts one image."""
    repeats = timing.repeat_seconds(answer, device, LATENCY_REPEATS, LATENCY_LIMIT_S)
    return {
        "predict_draw_images_per_s": n_images * n_draws / seconds,
        "predict_s": seconds,
        "predict_draws": n_draws,
        "predict_images": n_images,
        "latency_s": statistics.median(repeats),
        "latency_min_s": min(repeats),
        "latency_max_s": max(repeats),
        "latency_repeats": len(repeats),
    }


_PUBLISHED = {
    "dropout_fcn": ("alsibahi2019", "Alsibahi2019"),
    "pyro_hidden_layer": ("alsibahi2019", "Alsibahi2019"),
    "pyro_random_module": ("chopra2018", "Chopra2018"),
    "mlp": ("feldman2018", "Feldman2018Mlp"),
    "linear_bbb": ("feldman2018", "Feldman2018Bbb"),
    "toy_mlp": ("toys", "Feldman2018Toy"),
    "toy_bbb": ("toys", "Feldman2018Toy"),
    "mxnet_bbb": ("rabanser2017", "Rabanser2017"),
    "blundell_sgd": ("blundell2015", "Blundell2015"),
    "blundell_dropout": ("blundell2015", "Blundell2015"),
    "blundell_bbb": ("blundell2015", "Blundell2015"),
}
"""Module and class of the protocol `published` by approach: it measures as the document did, with its split, draws,
estimators and rounding. Claims in results/reference/published.csv have the same keys as its numbers."""


def protocol_of(
    entry: ApproachManifest,
    name: str,
    seed: int,
    budget: Profile,
    data_dir: Path | None,
    device: torch.device = CPU,
    dtype: torch.dtype = torch.float32,
) -> Protocol:
    """Return a protocol for one approach and seed: `common`, `shift`, or `published`, that of the document."""
    check_known("protocol", PROTOCOLS, name)
    module, class_name = _place(entry, name)
    found: type[Protocol] = getattr(importlib.import_module(f"bench.measure.{module}"), class_name)
    return found(entry, seed, budget, data_dir, device, dtype)


def _place(entry: ApproachManifest, name: str) -> tuple[str, str]:
    """Return module and class of a protocol; the module is imported when the protocol is used."""
    if name == "shift":
        return "shifted", "Shift"
    if name == "common":
        return ("protocols", "Common") if entry.task == "mnist" else ("toys", "ToyCommon")
    if not entry.document:
        raise ConfigError(f"{entry.name} has no document; measure it with protocol common")
    if entry.name not in _PUBLISHED:
        raise ConfigError(f"{entry.name} names document '{entry.document}', whose protocol is not known here")
    return _PUBLISHED[entry.name]
