"""Defines the numbers of derived metrics, by key: DATA_SET/NAME or DATA_SET/NAME@PARAMETER.

    geometric_accuracy, geometric_nll, geometric_ece
        of the normalised geometric mean of the draws' probabilities; its argmax is that of the mean logits
    normalised_geometric_entropy
        entropy of that mean, in nats
    refusal_rate@T, selective_accuracy@T
        by the median rule of chopra2018 with threshold T instead of .2
    pruned_used_accuracy@F
        of the network of posterior means, without the share F of the weights in use, lowest score first
    draw_NAME, mean_network_NAME (nll, ece, entropy, auroc, refusal_rate)
        of a single draw (the mean of the first `SINGLE_DRAWS` such numbers), or of the network of posterior means
    weights/mean@I, weights/std@I
        posterior mean and standard deviation of weight I of the first parameter tensor, counted row by row

If you change a definition, raise `bench.judge.ablation.derived_metrics.VERSION`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from statistics import fmean
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from bench.core.errors import DataMissing, Unsupported, unknown_name
from bench.core.reasons import Reason, message_reason
from bench.interface import Posterior, Split
from bench.measure.measuring import draws_of, predict_split
from bench.measure.metrics import classification, ood, uncertainty
from bench.measure.metrics.arrays import FloatArray, IntArray
from bench.measure.metrics.draws import DrawSummary
from bench.measure.metrics.pruning import prune
from bench.measure.metrics.refusal import MEDIAN_RULE, RefusalRule
from bench.measure.protocols import Common

TEST, TEST_SPLIT = "mnist", "test10k"
PRUNED = "pruned_used_accuracy"
DRAW, MEAN_NETWORK, ALL_DRAWS = "draw_", "mean_network_", "all draws"
SINGLE_DRAWS = 10  # enough: draws of one fit differ far less than fits do
WEIGHTS, MOMENTS = "weights", ("mean", "std")

Reader = Callable[[DrawSummary, IntArray, float], float | None]


class Key(NamedTuple):
    """The parts of a key."""

    dataset: str
    name: str
    parameter: float  # 0 if the key has none


def read_keys(
    posterior: Posterior, protocol: Common, keys: Sequence[str]
) -> tuple[dict[str, float | None], dict[str, Reason]]:
    """Return the numbers of a classifier's posterior by key, and for each key without a number the reason.

    `protocol` gives data sets, rows and number of draws. Raises ConfigError for an unknown name.
    """
    metrics: dict[str, float | None] = {}
    missing: dict[str, Reason] = {}
    wanted = {text: parse(text) for text in keys}
    read = _reader(posterior, protocol)
    for text, key in wanted.items():
        try:
            value = read(key)
        except DataMissing as error:
            missing[text] = message_reason("no-data", error)
        except Unsupported as error:
            missing[text] = message_reason("unsupported", error)
        else:
            if value is None:
                missing[text] = Reason("rows-refused")
            elif not np.isfinite(value):
                missing[text] = Reason("not-finite")
            else:
                metrics[text] = value
    return metrics, missing


def parse(text: str) -> Key:
    """Return the parts of a key; raises ConfigError for an unknown name."""
    dataset, _, rest = text.partition("/")
    name, _, parameter = rest.partition("@")
    known = MOMENTS if dataset == WEIGHTS else (PRUNED, *READERS, *SINGLE)
    if name not in known:
        raise unknown_name("derived metric of an ablation", name, known)
    return Key(dataset, name, float(parameter) if parameter else 0.0)


def _reader(posterior: Posterior, protocol: Common) -> Callable[[Key], float | None]:
    """Return a function from a key to its number. It caches predictions, so each network predicts a data set once."""

    @cache
    def split_of(dataset: str) -> Split:
        return protocol.split(TEST_SPLIT) if dataset == TEST else protocol.ood(dataset)

    @cache
    def predicted(network: str, dataset: str) -> list[DrawSummary]:
        if network == MEAN_NETWORK:
            drawn, draws = posterior.mean_network(), range(1)
        else:  # the draws that the common protocol takes on the data set
            drawn = posterior if dataset == TEST else posterior.per_row()
            draws = draws_of(drawn, SINGLE_DRAWS if network == DRAW else protocol.budget.draws)
        parts = [draws] if network == ALL_DRAWS else [range(draw, draw + 1) for draw in draws]
        return [predict_split(drawn, split_of(dataset), part).summary for part in parts]

    def read(key: Key) -> float | None:
        if key.dataset == WEIGHTS:
            return _weight(posterior, key)
        split = split_of(key.dataset)
        if key.name == PRUNED:
            return _pruned_used(posterior, split, key.parameter)
        labels = split.y.numpy()
        if key.name in READERS:
            (summary,) = predicted(ALL_DRAWS, key.dataset)
            return READERS[key.name](summary, labels, key.parameter)
        network = MEAN_NETWORK if key.name.startswith(MEAN_NETWORK) else DRAW
        pairs = zip(predicted(network, TEST), predicted(network, key.dataset), strict=True)
        return fmean(SINGLE[key.name](known, one, labels) for known, one in pairs)

    return read


def _weight(posterior: Posterior, key: Key) -> float:
    first = next(iter(posterior.weights().values()))
    if first.std is None:
        raise Unsupported("the network has no sigma")
    values = first.mean if key.name == "mean" else first.std
    return float(values.flatten()[int(key.parameter)])


def _pruned_used(posterior: Posterior, split: Split, fraction: float) -> float:
    keep = prune(posterior.weights(), fraction, used_only=True)
    network = posterior.masked(keep).mean_network()
    return int(predict_split(network, split, range(1)).hits[0]) / len(split)


def geometric(summary: DrawSummary) -> FloatArray:
    """Return log-probabilities [N, K]: the normalised geometric mean of the draws."""
    logs = summary.mean_log_probs
    return np.asarray(logs - logsumexp(logs, axis=1, keepdims=True))


def _rule(threshold: float) -> RefusalRule:
    return RefusalRule(MEDIAN_RULE.quantile, threshold)


READERS: Mapping[str, Reader] = {
    "geometric_accuracy": lambda summary, labels, _: classification.accuracy(geometric(summary), labels),
    "geometric_nll": lambda summary, labels, _: classification.nll(geometric(summary), labels),
    "geometric_ece": lambda summary, labels, _: classification.ece(np.exp(geometric(summary)), labels),
    "normalised_geometric_entropy": lambda summary, _, __: float(uncertainty.entropy(geometric(summary)).mean()),
    "refusal_rate": lambda summary, _, threshold: _rule(threshold).refusal_rate(summary),
    "selective_accuracy": lambda summary, labels, threshold: _rule(threshold).selective_accuracy(summary, labels),
}

Single = Callable[[DrawSummary, DrawSummary, IntArray], float]
"""A number of one network, from its predictions on the test set, those on a data set, and that set's labels."""

_OF_ONE: Mapping[str, Single] = {
    "nll": lambda _, here, labels: classification.nll(here.log_mean_probs, labels),
    "ece": lambda _, here, labels: classification.ece(here.mean_probs, labels),
    "entropy": lambda _, here, __: float(here.expected_entropy.mean()),
    "auroc": lambda inside, here, _: ood.auroc(inside.expected_entropy, here.expected_entropy),
    "refusal_rate": lambda _, here, __: MEDIAN_RULE.refusal_rate(here),
}
SINGLE: Mapping[str, Single] = {
    f"{network}{name}": of for network in (DRAW, MEAN_NETWORK) for name, of in _OF_ONE.items()
}
