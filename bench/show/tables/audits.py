"""Tables `audit_*`: the known mistakes of each document."""

from __future__ import annotations

from collections.abc import Iterable

from bench.judge.audit.findings import OUTCOMES, Finding
from bench.judge.audit.rules import RULES
from bench.show.table import Table

COLUMNS = ("rule", "severity", "outcome", "seen", "effect", "remedy")
NOT_AUDITED = "not applicable"
CAPTION = (
    "Rules for known mistakes, applied to the document; failures first. The ladders say how much each mistake changes "
    "a number."
)


def audit_tables(findings: Iterable[Finding]) -> list[Table]:
    """Return a table for each document, without the rules that do not apply to it."""
    lines: dict[str, list[list[str | None]]] = {}
    for found in sorted(findings, key=lambda found: OUTCOMES.index(found.outcome)):
        if found.outcome != NOT_AUDITED:
            rule = RULES[found.rule]
            seen = f"{rule.title}: {found.detail}"
            line = [found.rule, rule.severity, found.outcome, seen, found.effect, found.remedy]
            lines.setdefault(found.subject, []).append([part or None for part in line])
    return [
        Table(f"audit_{document}", f"Audit of {document}", CAPTION, COLUMNS, rows) for document, rows in lines.items()
    ]
