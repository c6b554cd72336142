"""What a rule finds in a subject, and the report of an audit."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from elbo_audit.errors import unknown_name
from elbo_audit.rules import RULES, Rule

FindingOutcome = Literal["passes", "fails", "known", "not applicable", "not measured"]
"""`known`: the subject fails, and its maker declared it. `not measured`: the rule applies, but nothing was seen."""

_NUMBERS = {  # of `ElboReport.numbers`: the rule that measures each, and its key in that finding
    "data_weight": ("wrong-likelihood", "weight"),
    "kl_per_epoch": ("kl-scale", "kl_per_epoch"),
    "prior_std": ("variance-as-std", "prior_std"),
}
_LINES = 10  # of a report as text
_FIRST = ("wrong-likelihood", "detached-gradient")  # a fault of these hides or changes what the others see


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


@dataclass(frozen=True)
class ElboReport:
    """What an audit found."""

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Return whether no rule fails."""
        return all(finding.outcome != "fails" for finding in self.findings)

    @property
    def judged(self) -> bool:
        """Return whether the audit saw how often the KL counts. Without it, `ok` says nothing of the KL."""
        return any(f.rule == "kl-scale" and f.outcome in ("passes", "fails") for f in self.findings)

    @property
    def numbers(self) -> dict[str, float]:
        """Return what was measured: kl_per_epoch (1 for an ELBO), data_weight, prior_std."""
        measured = {finding.rule: finding.measured for finding in self.findings}
        return {name: measured[rule][key] for name, (rule, key) in _NUMBERS.items() if key in measured.get(rule, {})}

    @property
    def kl_weights(self) -> dict[str, float]:
        """Return how often an epoch counts the KL of each group of weights, by the group's name."""
        found = self.of("kl-scale").measured
        return {key.removeprefix("of "): value for key, value in found.items() if key.startswith("of ")}

    @property
    def advice(self) -> list[dict[str, object]]:
        """Return what to change, one entry for each rule that fails, for programs.

        `rule`, `cause`, `part` (of the objective: KL, entropy, prior or likelihood), `text`; `multiply`: factors by the
        group's name, or "all"; `add`: how often to add the part to each step's loss. If both are empty, no factor
        mends the objective. `interval`: of 95 %, of the factor "all".
        """
        return [_entry(finding) for finding in self._failed]

    def to_dict(self) -> dict[str, object]:
        """Return the report as numbers and words that JSON can hold."""
        return {
            "ok": self.ok,
            "judged": self.judged,
            "numbers": self.numbers,
            "kl_weights": self.kl_weights,
            "advice": self.advice,
            "findings": [
                {"rule": f.rule, "outcome": f.outcome, "text": f.detail, "measured": dict(f.measured)}
                for f in self.findings
            ],
        }

    def of(self, rule: str) -> Finding:
        """Return the finding of a rule; raises AuditError for one that this audit did not apply."""
        found = {finding.rule: finding for finding in self.findings}
        if rule not in found:
            raise unknown_name("rule of this audit", rule, found)
        return found[rule]

    @property
    def _failed(self) -> list[Finding]:
        failed = [finding for finding in self.findings if finding.outcome == "fails"]
        return sorted(failed, key=lambda finding: finding.rule not in _FIRST)

    def _repr_html_(self) -> str:
        """Return the lines of `str` for a notebook; `repr` has all findings."""
        return f"<pre>{html.escape(str(self))}</pre>"

    def __str__(self) -> str:
        """Return at most ten lines: what fails, cause first; a KL that is not judged; numbers; what is not measured."""
        lines: dict[tuple[str, str], list[str]] = {}  # rules by what is said of them: several may have one reason
        numbers = dict(_NUMBERS.values())
        shown = [f for f in self.findings if f.outcome == "passes" and f.rule in numbers]
        unjudged = {} if self.judged else {f.words(): "KL not judged" for f in self.findings if f.rule == "kl-scale"}
        hidden = [f for f in self.findings if f.outcome != "fails" and f.words() in unjudged]
        unseen = [f for f in self.findings if f.outcome == "not measured" and f not in hidden]
        for finding in [*self._failed, *hidden, *shown, *unseen]:
            is_seen = finding.outcome == "not measured" and numbers.get(finding.rule) in finding.measured
            label = unjudged.get(finding.words(), "not judged" if is_seen else finding.outcome)
            lines.setdefault((label, finding.words()), []).append(finding.rule)
        rest = [f.rule for f in self.findings if f.outcome == "passes" and f.rule not in numbers]
        texts = [f"{label:<12}  {words} [{', '.join(rules)}]" for (label, words), rules in lines.items()]
        texts += [f"passes        {', '.join(rest)}"] if rest else []
        more = len(texts) - _LINES
        return "\n".join(texts if more <= 0 else [*texts[: _LINES - 1], f"and {more + 1} more: report.findings"])


def _entry(finding: Finding) -> dict[str, object]:
    advice = finding.advice or Advice(finding.rule, "")
    plain = {"multiply": dict(advice.multiply), "add": dict(advice.add), "interval": list(advice.interval)}
    return {"rule": finding.rule, **advice._asdict(), **plain, "text": finding.words()}
