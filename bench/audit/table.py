"""The rules as the Markdown table of docs/audit.md."""

from __future__ import annotations

from bench.audit.documents import facts
from bench.audit.rules import RULES

BEGIN, END = "<!-- rules -->", "<!-- /rules -->"


def rules_table() -> str:
    """Return the table, with the documents that have each mistake and what shows it (* read, not run)."""
    lines = ["| rule | severity | mistake | it looks for | runs on | found in |", "|---|---|---|---|---|---|"]
    for rule in RULES.values():
        has = [fact for fact in facts() if fact.rule == rule.id and fact.outcome == "found"]
        found = [f"{fact.document}{'' if fact.shown else '*'}" for fact in has]
        where = ", ".join(place for place in rule.where if place != "documents") or "-"
        cells = [f"`{rule.id}`", rule.severity, rule.title, rule.looks_for, where, ", ".join(found) or "-"]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    note = "\\* read in the document; the others are shown by running our rewriting of its code."
    return "\n".join([*lines, "", note])
