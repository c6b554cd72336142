"""What a rule finds in a subject."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from elbo_audit.rules import RULES, Rule

FindingOutcome = Literal["passes", "fails", "known", "not applicable", "not measured"]
"""`known`: the subject fails, and its maker declared it. `not measured`: the rule applies, but nothing was seen."""


class Advice(NamedTuple):
    """What to change, for programs. Factors and terms are by the name of a group of weights, or "all".

    `cause` is a word such as weight, entropy, missing, prior, sign, likelihood, rows or another KL; `part` says which
    part of the objective is meant. If both `multiply` and `add` are empty, no factor mends the objective.
    """

    cause: str
    part: str = "KL"  # or "entropy" (b in b H + c C), "prior" (c), "likelihood"
    multiply: Mapping[str, float] = {}
    add: Mapping[str, float] = {}  # times the part of this group, to the loss of each step
    interval: tuple[float, ...] = ()  # of 95 %, for a factor that all have


class Seen(NamedTuple):
    """What a rule saw. `Finding` adds the rule and the subject."""

    outcome: FindingOutcome
    detail: str  # what was seen, with its numbers
    measured: Mapping[str, float] = {}
    advised: bool = False  # whether `detail` says what to do; the rule's remedy is then left out
    advice: Advice | None = None


@dataclass(frozen=True)
class Finding:
    """One rule applied to one subject."""

    rule: str
    subject: str
    outcome: FindingOutcome
    detail: str  # what was seen, with its numbers
    measured: Mapping[str, float] = field(default_factory=dict)
    advised: bool = False  # as in `Seen`
    advice: Advice | None = None

    @property
    def of_rule(self) -> Rule:
        """Return the rule that was applied."""
        return RULES[self.rule]

    @property
    def remedy(self) -> str:
        """Return what the rule says to do about a failure; '' if the detail says it."""
        return self.of_rule.remedy if self.outcome == "fails" and not self.advised else ""

    def words(self) -> str:
        """Return what was seen, and what to do about a failure."""
        return (f"{self.detail}; to do: {self.remedy}" if self.remedy else self.detail).replace("\n", " ")

    def line(self) -> str:
        """Return the finding on one line."""
        return f"{self.outcome:<14}  {self.rule:<25}  {self.subject}: {self.words()}"
