"""Parts of the page that other commands know: their results as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.plan.manifests import ApproachManifest
from bench.show.tables.cells import Table, make_table

AUDIT = ("rule", "severity", "outcome", "seen", "effect", "remedy")
NOT_AUDITED = "not applicable"


def audit_tables(findings: Iterable[Mapping[str, Any]]) -> dict[str, list[Table]]:
    """Return a table of known mistakes for each document.

    Args:
        findings: as `python -m bench audit documents --json` prints them: rule, severity, title, subject (document),
            outcome, detail, remedy, effect.
    """
    lines: dict[str, list[list[str]]] = {}
    for found in findings:
        if found["outcome"] != NOT_AUDITED:
            seen = f"{found['title']}: {found['detail']}"
            line = [found["rule"], found["severity"], found["outcome"], seen, found["effect"], found["remedy"]]
            lines.setdefault(found["subject"], []).append([part or "-" for part in line])
    caption = "Rules for known mistakes, applied to the document; what a mistake is worth is in the ladder."
    return {
        document: [make_table(f"audit_{document}", f"Audit of {document}", caption, AUDIT, rows, [])]
        for document, rows in lines.items()
    }


def ladder_tables(
    tables: Mapping[str, Sequence[Table]], manifests: Mapping[str, ApproachManifest]
) -> dict[str, list[Table]]:
    """Return the answers and ladders of each document; `tables` are those of the approaches."""
    found: dict[str, list[Table]] = {}
    for approach, mine in tables.items():
        found.setdefault(manifests[approach].document, []).extend(mine)
    return found


def fault_tables(lines: Mapping[str, Sequence[str]]) -> list[Table]:
    """Return what the fault tests came to, none without any; `lines` of text for each kind of test."""
    rows = [[kind, line.removeprefix(f"{kind}: ")] for kind, found in lines.items() for line in found]
    caption = "Kills, planted failures, runs that share a folder and hostile input, as last tried here."
    return (
        [make_table("fault_tests", "What was tried to break it", caption, ["test", "result"], rows, [])] if rows else []
    )
