"""What a rule of the suite finds in a subject: as `elbo_audit.findings`, with all rules and a mistake's effect."""

from __future__ import annotations

from dataclasses import dataclass

import elbo_audit.findings
from bench.judge.audit.rules import RULES, AuditRule
from elbo_audit.findings import FindingOutcome

OUTCOMES: tuple[FindingOutcome, ...] = ("fails", "known", "passes", "not measured", "not applicable")


@dataclass(frozen=True)
class Finding(elbo_audit.findings.Finding):
    """One rule applied to one subject."""

    effect: str = ""  # how much the mistake changes a number, by a single change of an ablation

    @property
    def of_rule(self) -> AuditRule:
        """Return the rule that was applied."""
        return RULES[self.rule]

    def as_json(self) -> dict[str, object]:
        """Return the finding for machines, with its rule's title and severity."""
        return {
            "rule": self.rule,
            "severity": self.of_rule.severity,
            "title": self.of_rule.title,
            "subject": self.subject,
            "outcome": self.outcome,
            "detail": self.detail,
            "measured": dict(self.measured),
            "remedy": self.remedy,
            "effect": self.effect,
        }
