"""The rules of the audit: mistakes found in published Bayesian networks. Add a rule here.

A mistake that an objective or a prediction shows is described in `elbo_audit.rules`, and named here. `where` says which
code applies a rule: `elbo_audit` (objective, predictions), approach.py, records.py, data.py or documents.py.
A finding is what a rule finds in a subject.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

import elbo_audit.findings
import elbo_audit.rules
from elbo_audit.findings import FindingOutcome

Where = Literal["documents", "objective", "approach", "records", "data", "predictions"]


@dataclass(frozen=True)
class AuditRule(elbo_audit.rules.Rule):
    """One mistake, and what it is looked for in."""

    where: tuple[Where, ...] = ("documents",)


def _of_objectives(name: str, *where: Where) -> AuditRule:
    """Return a rule of `elbo_audit` with what it is applied to."""
    return AuditRule(**asdict(elbo_audit.rules.RULES[name]), where=where)


_RULES = (
    AuditRule(
        "test-looked-at",
        "test set looked at while training",
        "test rows among the training rows, or test numbers made while training that could choose the network shown",
        "choose by held-out training rows; report the last epoch",
        where=("documents", "records", "data"),
        severity="misleading",
    ),
    _of_objectives("kl-scale", "documents", "objective", "approach"),
    _of_objectives("kl-sign", "documents", "objective", "approach"),
    _of_objectives("dropout-at-test", "documents", "objective", "approach"),
    _of_objectives("log-average", "documents", "records", "predictions"),
    _of_objectives("unnormalised-probabilities", "documents", "records", "approach", "predictions"),
    _of_objectives("unnormalised-entropy", "documents", "records", "predictions"),
    AuditRule(
        "unlike-draws",
        "unlike draw counts compared",
        "numbers set side by side that were made with different numbers of posterior draws",
        "use one number of draws for all stochastic networks, and name it",
        where=("documents", "records"),
        severity="misleading",
    ),
    AuditRule(
        "truncated-printing",
        "truncated printing",
        "%d or int() applied to a percentage that is not whole",
        "print with %.2f",
        severity="weak",
    ),
    AuditRule(
        "dropped-class",
        "a class dropped silently",
        "rows of a class that the text counts and the code leaves out",
        "list the classes by name and check their counts",
        where=("documents", "data"),
    ),
    AuditRule(
        "ood-transform",
        "OOD images transformed otherwise than the training images",
        "images of another set transposed, scaled or centred otherwise than the training images",
        "send every set through the training images' transform, and look at one picture of it",
        where=("documents", "data"),
    ),
    AuditRule(
        "overlap",
        "overlap of train, test and OOD",
        "images that are byte for byte in two sets which should share none",
        "leave the repeated images out of the set that measures",
        where=("documents", "data"),
    ),
    AuditRule(
        "one-seed",
        "one seed",
        "a number from a single run, without a seed or a spread",
        "run two seeds or more and report each; a verdict needs five",
        where=("documents", "records"),
        severity="weak",
    ),
    _of_objectives("unused-layer", "documents", "objective", "approach"),
    _of_objectives("detached-gradient", "documents", "objective", "approach"),
    _of_objectives("sigma-frozen", "documents", "objective", "approach", "records"),
    _of_objectives("repeated-noise", "documents", "objective"),
    _of_objectives("pruned-noise", "documents", "objective", "approach"),
    _of_objectives("decayed-posterior", "documents", "objective"),
    AuditRule(
        "stale-result",
        "a result from another run",
        "printed numbers that the code shown cannot have printed",
        "restart and run all before publishing; keep the code's hash with the number",
        where=("documents", "records"),
        severity="misleading",
    ),
    AuditRule(
        "confounded-baseline",
        "baseline and method differ in more than the method",
        "another architecture, budget or schedule in the baseline",
        "train the method's own network without the method, with equal budget",
        severity="misleading",
    ),
    _of_objectives("variance-as-std", "documents", "objective"),
    _of_objectives("wrong-likelihood", "documents", "objective"),
    AuditRule(
        "unshuffled",
        "the same batches in every epoch",
        "training rows in one order throughout",
        "shuffle=True in the training loader",
        severity="weak",
    ),
    AuditRule(
        "lost-schedule",
        "a schedule without effect",
        "a learning rate that the code divides and the optimiser never sees",
        "change param_groups, or use a scheduler",
        severity="weak",
    ),
)

RULES: dict[str, AuditRule] = {rule.id: rule for rule in _RULES}


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
