"""What an audit found, as lines for the terminal: a heading, and the details below it."""

from __future__ import annotations

from bench.judge.audit.check import CheckLine
from bench.judge.audit.findings import Finding
from bench.judge.audit.rules import RULES

INDENT = " " * 4


def finding_lines(found: Finding) -> list[str]:
    """Return a finding: severity, outcome, rule and subject, then what was seen, what to do and what it is worth."""
    heading = f"{RULES[found.rule].severity:<10}  {found.outcome:<14}  {found.rule:<25}  {found.subject}"
    return [heading, *_details(found.detail, found.remedy, found.effect)]


def check_lines(check: CheckLine) -> list[str]:
    """Return a check of an approach: outcome, part, name and recipe, then what was seen and what to do."""
    heading = f"{check.outcome:<14}  {check.part:<8}  {check.name:<27}  {check.recipe}"
    return [heading, *_details(check.detail, check.remedy, "")]


def _details(detail: str, remedy: str, effect: str) -> list[str]:
    named = (("", detail), ("to do: ", remedy), ("effect: ", effect))
    return [f"{INDENT}{name}{' '.join(text.split())}" for name, text in named if text]
