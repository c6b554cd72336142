"""Write the list of rules in docs/audit.md from the rules of the audit: `python -m tools.audit_rules`.

tests/judge/test_audit_rules.py checks that the page has today's list.
"""

from __future__ import annotations

from bench.core.files import write_atomically
from bench.core.project import TOP
from bench.judge.audit.documents import Fact, facts, shown_mistakes
from bench.judge.audit.rules import RULES
from bench.show.tables.files import with_block

PAGE = TOP / "docs" / "audit.md"
MARKS = ("<!-- rules -->\n\n", "\n\n<!-- /rules -->")


def rules_list() -> str:
    """Return the rules as a list, with the documents that have each mistake; marks say how a mistake was found."""
    lines = []
    for rule in RULES.values():
        found = [fact.document + _mark(fact) for fact in facts() if fact.rule == rule.id and fact.outcome == "found"]
        lines.append(f"- `{rule.id}`, {rule.severity}: {rule.title}" + (f" ({', '.join(found)})" if found else ""))
    notes = (
        "\\* read in the document. + shown by running the one expression in question on made-up numbers. "
        "The others are shown by running our rewriting of the document's code."
    )
    return "\n".join([*lines, "", notes])


def _mark(fact: Fact) -> str:
    if not fact.shown:
        return "*"
    return "+" if shown_mistakes()[fact.shown].ran == "expression" else ""


def page() -> bytes:
    """Return the page with today's list."""
    return with_block(PAGE, *MARKS, rules_list())


if __name__ == "__main__":
    write_atomically(PAGE, page())
