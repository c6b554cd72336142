"""The report of an audit."""

from __future__ import annotations

import html
from dataclasses import dataclass

from elbo_audit.errors import unknown_name
from elbo_audit.findings import Advice, Finding

_NUMBERS = {  # of `ElboReport.numbers`: the rule that measures each, and its key in that finding
    "data_weight": ("wrong-likelihood", "weight"),
    "kl_per_epoch": ("kl-scale", "kl_per_epoch"),
    "prior_std": ("variance-as-std", "prior_std"),
}
_LINES = 10  # of a report as text
_FIRST = ("wrong-likelihood", "detached-gradient")  # a fault of these hides or changes what the others see


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
