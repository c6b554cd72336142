"""Rules that decide when to say "I don't know", by name.

The two rules on quantiles have the thresholds of their document. The two rules on entropies take theirs from the fit
that answers: the value that a share REFUSED_DIGITS of the test digits exceeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.core.errors import ConfigError, check_known
from bench.measure.metrics.draws import DrawSummary
from bench.measure.metrics.refusal import MEDIAN_RULE, STRICT_RULE, RefusalRule
from bench.measure.metrics.uncertainty import entropies

REFUSED_DIGITS = 0.05  # share of the test digits that a rule of entropies refuses
QUANTILE_RULES: Mapping[str, RefusalRule] = {"median": MEDIAN_RULE, "strict": STRICT_RULE}
SCORES = {
    "entropy": ("predictive_entropy", "predictive entropy"),
    "mutual-information": ("mutual_information", "mutual information"),
}
RULES = (*QUANTILE_RULES, *SCORES)
DEFAULT = "median"


class RuleOutcome(NamedTuple):
    """What a rule says of one picture."""

    digit: int  # the answer; if the rule refuses, what it would answer if it did not
    refused: str  # why the rule refuses, '' if it answers


@dataclass(frozen=True)
class AnswerRule:
    """A rule with its threshold."""

    name: str
    words: str  # when it answers
    threshold: float
    judge: Callable[[DrawSummary, int], RuleOutcome]  # of one row of a summary


def rule_among_all(name: str, scores: Mapping[str, NDArray[np.generic]]) -> tuple[AnswerRule, list[AnswerRule]]:
    """Return the rule of that name, and all rules that have a threshold.

    Args:
        name: one of RULES.
        scores: the per-row scores of the fit's test digits, as records keep them. Without them, only the rules on
            quantiles have a threshold.

    Raises:
        ConfigError: the name is unknown, or the rule has no threshold.
    """
    check_known("rule", RULES, name)
    found = {known: _quantile_rule(known, quantiles) for known, quantiles in QUANTILE_RULES.items()}
    if {"mnist/predictive_entropy", "mnist/expected_entropy"} <= scores.keys():
        predictive = scores["mnist/predictive_entropy"].astype(np.float64)
        expected = scores["mnist/expected_entropy"].astype(np.float64)
        for known, values in (("entropy", predictive), ("mutual-information", predictive - expected)):
            found[known] = _score_rule(known, float(np.quantile(values.clip(0), 1 - REFUSED_DIGITS)))
    if name not in found:
        raise ConfigError(
            f"rule '{name}' takes its threshold from the per-row scores beside the record of protocol common, and "
            "there are none; measure it (`python -m bench run`), or take --rule median"
        )
    return found[name], list(found.values())


def _quantile_rule(name: str, quantiles: RefusalRule) -> AnswerRule:
    what = "median" if quantiles.quantile == 0.5 else f"{quantiles.quantile:.0%} quantile"

    def judge(summary: DrawSummary, row: int) -> RuleOutcome:
        found = summary.quantile_probs[quantiles.quantile][row]
        digit, highest = int(found.argmax()), float(found.max())
        refused = (
            f"no digit's {what} over the draws is above {quantiles.threshold}; the highest is {highest:.3f}, of the "
            f"digit {digit}"
        )
        return RuleOutcome(digit, "" if highest > quantiles.threshold else refused)

    words = f"answers if the {what} over the draws of a digit's probability is above {quantiles.threshold}"
    return AnswerRule(name, words, quantiles.threshold, judge)


def _score_rule(name: str, threshold: float) -> AnswerRule:
    measure, title = SCORES[name]

    def judge(summary: DrawSummary, row: int) -> RuleOutcome:
        value = float(entropies(summary)[measure][row])
        refused = f"{title} {value:.3f} nats is above {threshold:.3f}"
        return RuleOutcome(int(summary.log_mean_probs[row].argmax()), refused if value > threshold else "")

    words = f"answers if the {title} is at most what {1 - REFUSED_DIGITS:.0%} of the test digits have"
    return AnswerRule(name, words, threshold, judge)
