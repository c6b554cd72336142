"""What a rule finds in a subject."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from bench.judge.audit.rules import RULES

FindingOutcome = Literal["passes", "fails", "known", "not applicable", "not measured"]
"""`known`: the subject fails, and its maker declared it. `not measured`: the rule applies, but nothing was seen."""

OUTCOMES: tuple[FindingOutcome, ...] = ("fails", "known", "passes", "not measured", "not applicable")


class Seen(NamedTuple):
    """What a rule saw. `Finding` adds the rule and the subject."""

    outcome: FindingOutcome
    detail: str  # what was seen, with its numbers
    measured: Mapping[str, float] = {}
    advised: bool = False  # whether `detail` says what to do; the rule's remedy is then left out


@dataclass(frozen=True)
class Finding:
    """One rule applied to one subject."""

    rule: str
    subject: str
    outcome: FindingOutcome
    detail: str  # what was seen, with its numbers
    measured: Mapping[str, float] = field(default_factory=dict)
    advised: bool = False  # as in `Seen`
    effect: str = ""  # how much the mistake changes a number, by a rung of a ladder

    def __post_init__(self) -> None:
        assert self.rule in RULES, f"'{self.rule}' is no rule"

    @property
    def remedy(self) -> str:
        """Return what the rule says to do about a failure; '' if the detail says it."""
        return RULES[self.rule].remedy if self.outcome == "fails" and not self.advised else ""

    def line(self) -> str:
        """Return the finding on one line."""
        more = [self.detail]
        if self.remedy:
            more.append(f"to do: {self.remedy}")
        if self.effect:
            more.append(f"effect: {self.effect}")
        return f"{self.outcome:<14}  {self.rule:<25}  {self.subject}: {'; '.join(more)}".replace("\n", " ")

    def as_json(self) -> dict[str, object]:
        """Return the finding for machines, with its rule's title and severity."""
        rule = RULES[self.rule]
        return {
            "rule": self.rule,
            "severity": rule.severity,
            "title": rule.title,
            "subject": self.subject,
            "outcome": self.outcome,
            "detail": self.detail,
            "measured": dict(self.measured),
            "remedy": self.remedy,
            "effect": self.effect,
        }
