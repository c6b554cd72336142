"""The report of an audit."""

from __future__ import annotations

from dataclasses import dataclass

from elbo_audit.errors import unknown_name
from elbo_audit.findings import Finding

_NUMBERS = {  # of `ElboReport.numbers`: the rule that measures each, and its key in that finding
    "data_weight": ("wrong-likelihood", "weight"),
    "kl_per_epoch": ("kl-scale", "kl_per_epoch"),
    "prior_std": ("variance-as-std", "prior_std"),
}


@dataclass(frozen=True)
class ElboReport:
    """What an audit found."""

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Return whether no rule fails."""
        return all(finding.outcome != "fails" for finding in self.findings)

    @property
    def numbers(self) -> dict[str, float]:
        """Return what was measured: kl_per_epoch (1 for an ELBO), data_weight, prior_std."""
        measured = {finding.rule: finding.measured for finding in self.findings}
        return {name: measured[rule][key] for name, (rule, key) in _NUMBERS.items() if key in measured[rule]}

    @property
    def kl_weights(self) -> dict[str, float]:
        """Return how often an epoch counts the KL of each group of weights, by the group's name."""
        found = self.of("kl-scale").measured
        return {key.removeprefix("of "): value for key, value in found.items() if key.startswith("of ")}

    def of(self, rule: str) -> Finding:
        """Return the finding of a rule; raises AuditError for one that this audit did not apply."""
        found = {finding.rule: finding for finding in self.findings}
        if rule not in found:
            raise unknown_name("rule of this audit", rule, found)
        return found[rule]

    def __str__(self) -> str:
        return "\n".join(finding.line() for finding in self.findings)
