"""The rules over the documents: what was read, where, what shows it by running, and what it is worth."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from bench.core.errors import ConfigError, unknown_name
from bench.judge.audit.effects import RungNumber, effect_of
from bench.judge.audit.findings import Finding, Outcome
from bench.judge.audit.rules import RULES
from bench.judge.ladder.effects import Numbers
from bench.plan.recipes import Recipe
from bench.plan.registry import Manifest, manifests

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FactOutcome = Literal["found", "absent", "unclear", "not applicable"]

DOCUMENTS = ("alsibahi2019", "chopra2018", "feldman2018", "rabanser2017")
FILE = Path(__file__).with_name("documents.toml")
_TO_OUTCOME: dict[str, Outcome] = {
    "found": "fails",
    "absent": "passes",
    "unclear": "not measured",
    "not applicable": "not applicable",
}


@dataclass(frozen=True)
class Fact:
    """One rule in one document."""

    document: str
    rule: str
    outcome: FactOutcome
    what: str
    where: str = ""
    shown: str = ""
    approach: str = ""
    removed_by: str = ""
    effect: RungNumber | None = None  # in the ladder of `approach`


@cache
def facts() -> tuple[Fact, ...]:
    """Return all facts, one for every rule and document; raises ConfigError where the file is at fault."""
    return parse(FILE.read_text(encoding="utf-8"))


def parse(text: str) -> tuple[Fact, ...]:
    """Return the facts of a file's text; raises ConfigError that says which is at fault."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{FILE.name} cannot be read: {error}") from error
    found = [_fact(body) for body in raw.get("fact", ())]
    outcomes: tuple[tuple[str, FactOutcome], ...] = (
        ("absent", "absent"),
        ("unclear", "unclear"),
        ("not_applicable", "not applicable"),
    )
    for section, outcome in outcomes:
        for document, rules in raw.get(section, {}).items():
            found += [Fact(document, rule, outcome, what) for rule, what in rules.items()]
    seen: set[tuple[str, str]] = set()
    for fact in found:
        if fact.document not in DOCUMENTS:
            raise unknown_name("document", fact.document, DOCUMENTS)
        if fact.rule not in RULES:
            raise unknown_name("rule", fact.rule, RULES)
        if (fact.document, fact.rule) in seen:
            raise ConfigError(f"{FILE.name} has {fact.rule} of {fact.document} twice; keep one")
        seen.add((fact.document, fact.rule))
    return tuple(sorted(found, key=lambda fact: (DOCUMENTS.index(fact.document), list(RULES).index(fact.rule))))


def _fact(body: Mapping[str, Any]) -> Fact:
    fields = {name: value for name, value in body.items() if name != "effect"}
    try:
        return Fact(**fields, effect=RungNumber(**body["effect"]) if "effect" in body else None)
    except TypeError as error:
        raise ConfigError(f"{FILE.name}: a fact on {body.get('rule', '?')} is at fault: {error}") from error


def declared(entry: Manifest, recipe: Recipe) -> dict[str, str]:
    """Return the rules that a recipe is known to fail, each with the correction that removes it, or the reason.

    Those of the documents' recipes are in documents.toml; others declare theirs in table [known] of the manifest.
    """
    known = {
        fact.rule: f"on purpose, as {fact.document} has it; correction {fact.removed_by} removes it"
        for fact in facts()
        if fact.approach == entry.name and fact.removed_by and fact.removed_by not in recipe.changes
    }
    for rule, reason in entry.known.items():
        if rule not in RULES:
            raise unknown_name(f"rule in table [known] of {entry.name}.toml", rule, RULES)
        if reason in entry.changes:
            if reason not in recipe.changes:
                known[rule] = f"correction {reason} removes it"
        else:
            known[rule] = reason
    return known


def audit_documents(documents: Sequence[str], numbers: Numbers, run: bool = True) -> list[Finding]:
    """Return one finding for each rule and document.

    Args:
        documents: some of `DOCUMENTS`.
        numbers: of the ladders, which tell what a mistake is worth.
        run: also run the checks that show the mistakes.
    """
    found = []
    for fact in facts():
        if fact.document not in documents:
            continue
        detail = "; ".join(filter(None, [fact.what, fact.where and f"where: {fact.where}"]))
        outcome = _TO_OUTCOME[fact.outcome]
        measured: Mapping[str, float] = {}
        subject = fact.document
        if fact.shown and run:
            from bench.judge.audit.shown import show  # here: it needs the frameworks, what was read does not

            shown = show(fact.shown)
            detail += f"; {'shown by' if shown.outcome == 'found' else shown.outcome} {fact.shown}: {shown.detail}"
            measured = shown.measured
            if shown.outcome == "not found":
                detail = f"what was read is not what running shows; {detail}"
                subject = f"{FILE.name} on {fact.document}"  # a fault of ours, not of the document
        elif fact.outcome == "found":
            detail += "; read, not run" if not fact.shown else f"; shown by {fact.shown}, not run now"
        effect = "" if fact.effect is None else effect_of(fact.approach, fact.effect, numbers)
        found.append(Finding(fact.rule, subject, outcome, detail, measured, effect))
    return found


def document_of(approach: str) -> str:
    """Return the document that an approach is of, '' if none or unknown."""
    entry = manifests().get(approach)
    return "" if entry is None else entry.document
