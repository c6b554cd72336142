"""The rules over the documents: what reading found and where, which check shows it, and what the mistake is worth."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from msgspec import field

from bench.core.errors import ConfigError, unknown_name
from bench.core.toml import TomlTable, read_toml
from bench.judge.audit.effects import RungNumber, effect_of
from bench.judge.audit.findings import Finding, Outcome
from bench.judge.audit.rules import RULES
from bench.judge.audit.shown import ShownMistake, shown_mistakes
from bench.judge.ladder.effects import Numbers
from bench.plan.manifests import ApproachManifest
from bench.plan.recipes import Recipe
from bench.plan.registry import manifests

FactOutcome = Literal["found", "absent", "unclear", "not applicable"]

DOCUMENTS = ("alsibahi2019", "chopra2018", "feldman2018", "rabanser2017")
FILE = Path(__file__).with_name("documents.toml")
_TO_OUTCOME: dict[str, Outcome] = {
    "found": "fails",
    "absent": "passes",
    "unclear": "not measured",
    "not applicable": "not applicable",
}


class Fact(TomlTable, frozen=True):
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


class _File(TomlTable, frozen=True):
    """The file: `fact` has all fields of a fact, the other tables only what was read, by document and rule."""

    fact: tuple[Fact, ...] = ()
    absent: dict[str, dict[str, str]] = field(default_factory=dict)
    unclear: dict[str, dict[str, str]] = field(default_factory=dict)
    not_applicable: dict[str, dict[str, str]] = field(default_factory=dict)

    def facts(self) -> Iterator[Fact]:
        """Yield all facts."""
        yield from self.fact
        short: tuple[tuple[FactOutcome, dict[str, dict[str, str]]], ...] = (
            ("absent", self.absent),
            ("unclear", self.unclear),
            ("not applicable", self.not_applicable),
        )
        for outcome, documents in short:
            for document, rules in documents.items():
                yield from (Fact(document, rule, outcome, what) for rule, what in rules.items())


@cache
def facts(path: Path = FILE) -> tuple[Fact, ...]:
    """Return all facts, one for every rule and document; raises ConfigError where the file is at fault."""
    found = sorted(read_toml(path, _File, "facts").facts(), key=_place)
    for before, fact in itertools.pairwise(found):
        if _place(before) == _place(fact):
            raise ConfigError(f"{path} has {fact.rule} of {fact.document} twice; keep one")
    return tuple(found)


def _place(fact: Fact) -> tuple[int, int]:
    """Return what sorts facts: document, then rule; raises ConfigError if one is unknown."""
    if fact.document not in DOCUMENTS:
        raise unknown_name("document", fact.document, DOCUMENTS)
    if fact.rule not in RULES:
        raise unknown_name("rule", fact.rule, RULES)
    return DOCUMENTS.index(fact.document), list(RULES).index(fact.rule)


def declared(entry: ApproachManifest, recipe: Recipe) -> dict[str, str]:
    """Return the rules that a recipe is known to fail, each with the correction that removes it, or the reason.

    documents.toml has the rules that the documents' recipes fail. Other approaches declare them in table [known] of
    their manifest.
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


def audit_documents(documents: Sequence[str], numbers: Numbers) -> list[Finding]:
    """Return one finding for each rule and document.

    Args:
        documents: some of `DOCUMENTS`.
        numbers: of the ladders, which tell what a mistake is worth.
    """
    found = []
    for fact in facts():
        if fact.document not in documents:
            continue
        detail = "; ".join(filter(None, [fact.what, fact.where and f"where: {fact.where}"]))
        outcome = _TO_OUTCOME[fact.outcome]
        measured: Mapping[str, float] = {}
        subject = fact.document
        if fact.shown:
            shown = _shown(fact.shown)
            detail += f"; {'shown by' if shown.outcome == 'found' else shown.outcome} {fact.shown}: {shown.detail}"
            measured = shown.measured
            if shown.outcome == "not found":
                detail = f"what was read is not what running shows; {detail}"
                subject = f"{FILE.name} on {fact.document}"  # a fault of ours, not of the document
        elif fact.outcome == "found":
            detail += "; read, not run"
        effect = "" if fact.effect is None else effect_of(fact.approach, fact.effect, numbers)
        found.append(Finding(fact.rule, subject, outcome, detail, measured, effect))
    return found


def _shown(check: str) -> ShownMistake:
    found = shown_mistakes()
    if check not in found:
        raise unknown_name(f"check in {FILE.name}", check, found)
    return found[check]


def document_of(approach: str) -> str:
    """Return the document that an approach is of, '' if none or unknown."""
    entry = manifests().get(approach)
    return "" if entry is None else entry.document
