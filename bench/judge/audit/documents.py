"""The rules for the documents: which mistakes they make, what shows them, and how much each changes a number.

documents.toml has what we found by reading, shown.json what `python -m documents_code --write` found by running.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import field
from msgspec.structs import asdict

from bench.core.errors import ConfigError, unknown_name
from bench.core.files import reason
from bench.core.metric_table import metrics
from bench.core.toml import TomlTable, read_toml
from bench.judge.ablation.definition import ablation
from bench.judge.ablation.effects import Numbers, effect_text
from bench.judge.ablation.single_changes import STORED, SingleChange
from bench.judge.audit.rules import RULES, Finding
from bench.plan.manifests import ApproachManifest
from bench.plan.recipes import Recipe
from elbo_audit.findings import FindingOutcome

FactOutcome = Literal["found", "absent", "unclear", "not applicable"]

DOCUMENTS = ("alsibahi2019", "chopra2018", "feldman2018", "rabanser2017")
FILE = Path(__file__).with_name("documents.toml")
SHOWN = Path(__file__).with_name("shown.json")
_TO_OUTCOME: dict[str, FindingOutcome] = {
    "found": "fails",
    "absent": "passes",
    "unclear": "not measured",
    "not applicable": "not applicable",
}


class SingleChangeNumber(TomlTable, frozen=True):
    """Which number of which single change of an approach's ablation."""

    single_change: str
    data_set: str
    quantity: str
    kind: str = ""  # of the single change, where single changes of several kinds share the name


class _Found(TomlTable, frozen=True):
    """A mistake of a document. The first lines of documents.toml explain the fields."""

    what: str
    where: str = ""
    shown: str = ""
    approach: str = ""
    removed_by: str = ""
    effect: SingleChangeNumber | None = None  # in the ablation of `approach`


class Fact(_Found, frozen=True, kw_only=True):
    """One rule in one document."""

    document: str
    rule: str
    outcome: FactOutcome


class ShownMistake(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one check of a document's code showed."""

    outcome: Literal["found", "not found"]
    ran: Literal["code", "expression"]  # our rewriting of the document's code, or the one expression in question
    detail: str  # what was measured, in words
    measured: Mapping[str, float]


class _File(TomlTable, frozen=True):
    """documents.toml: a table for each outcome, by document and rule. Only `found` has more than one sentence."""

    found: dict[str, dict[str, _Found]] = field(default_factory=dict)
    absent: dict[str, dict[str, str]] = field(default_factory=dict)
    unclear: dict[str, dict[str, str]] = field(default_factory=dict)
    not_applicable: dict[str, dict[str, str]] = field(default_factory=dict)

    def facts(self) -> Iterator[Fact]:
        """Yield all facts."""
        for document, found in self.found.items():
            for rule, fact in found.items():
                yield Fact(document=document, rule=rule, outcome="found", **asdict(fact))
        short: dict[FactOutcome, dict[str, dict[str, str]]] = {
            "absent": self.absent,
            "unclear": self.unclear,
            "not applicable": self.not_applicable,
        }
        for outcome, documents in short.items():
            for document, rules in documents.items():
                yield from (
                    Fact(document=document, rule=rule, outcome=outcome, what=what) for rule, what in rules.items()
                )


@cache
def facts(path: Path = FILE) -> tuple[Fact, ...]:
    """Return all facts, at most one for each rule and document; raises ConfigError if the file has a mistake."""
    found = sorted(read_toml(path, _File, "facts").facts(), key=_place)
    for before, fact in itertools.pairwise(found):
        if _place(before) == _place(fact):
            raise ConfigError(f"{path} has {fact.rule} of {fact.document} twice; keep one")
    return tuple(found)


def _place(fact: Fact) -> tuple[int, int]:
    """Return the sort key of a fact: document, then rule; raises ConfigError if one is unknown."""
    if fact.document not in DOCUMENTS:
        raise unknown_name("document", fact.document, DOCUMENTS)
    if fact.rule not in RULES:
        raise unknown_name("rule", fact.rule, RULES)
    return DOCUMENTS.index(fact.document), list(RULES).index(fact.rule)


@cache
def shown_mistakes(path: Path = SHOWN) -> Mapping[str, ShownMistake]:
    """Return what each check showed, by the name of the check; raises ConfigError if the file has a mistake."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, ShownMistake])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path.name} cannot be read: {reason(error)}; python -m documents_code --write makes it"
        ) from error


def declared(entry: ApproachManifest, recipe: Recipe) -> dict[str, str]:
    """Return the rules that a recipe is known to fail, each with the correction that removes the mistake, or a reason.

    For the documents' recipes, documents.toml names these rules. Other approaches declare them in the table [known] of
    their manifest.
    """
    known = {
        fact.rule: f"on purpose, as {fact.document} has it; correction {fact.removed_by} removes it"
        for fact in facts()
        if fact.approach == entry.name and fact.removed_by and fact.removed_by not in recipe.changes
    }
    for rule, why in entry.known.items():
        if rule not in RULES:
            raise unknown_name(f"rule in table [known] of {entry.name}.toml", rule, RULES)
        if why in entry.changes:
            if why not in recipe.changes:
                known[rule] = f"correction {why} removes it"
        else:
            known[rule] = why
    return known


def audit_documents(documents: Sequence[str], numbers: Numbers) -> list[Finding]:
    """Return one finding for each rule and document.

    Args:
        documents: some of `DOCUMENTS`.
        numbers: of the ablations; they say how much a mistake changes a number.
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
            if fact.shown not in shown_mistakes():
                raise unknown_name(f"check in {FILE.name}", fact.shown, shown_mistakes())
            shown = shown_mistakes()[fact.shown]
            detail += f"; {'shown by' if shown.outcome == 'found' else shown.outcome} {fact.shown}: {shown.detail}"
            measured = shown.measured
            if shown.outcome == "not found":
                detail = f"what was read is not what running shows; {detail}"
                subject = f"{FILE.name} on {fact.document}"  # a fault of ours, not of the document
        elif fact.outcome == "found":
            detail += "; read, not run"
        effect = "" if fact.effect is None else effect_of(fact.approach, fact.effect, numbers)
        found.append(Finding(fact.rule, subject, outcome, detail, measured, effect=effect))
    return found


def single_change_of(approach: str, wanted: SingleChangeNumber) -> SingleChange:
    """Return the single change that `wanted` names; raises ConfigError unless there is just one, and has the number."""
    single_changes = ablation(approach).single_changes
    named = [single_change for single_change in single_changes if single_change.name == wanted.single_change]
    if not named:
        raise unknown_name(
            f"single change of {approach}",
            wanted.single_change,
            {single_change.name for single_change in single_changes},
        )
    found = [single_change for single_change in named if wanted.kind in ("", single_change.kind)]
    if len(found) != 1:
        kinds = ", ".join(single_change.kind for single_change in named)
        raise ConfigError(
            f"single change {wanted.single_change} of {approach} was given kind '{wanted.kind}'; give one of {kinds}"
        )
    number = (wanted.data_set, wanted.quantity)
    if number not in found[0].numbers:
        known = {" ".join(what) for what in found[0].numbers}
        raise unknown_name(f"number of single change {wanted.single_change} of {approach}", " ".join(number), known)
    return found[0]


def effect_of(approach: str, wanted: SingleChangeNumber, numbers: Numbers) -> str:
    """Return a single change's effect with its 95 % interval over seeds, or why there is none, and how to measure it.

    Raises:
        ConfigError: the ablation has no such number.
    """
    single_change = single_change_of(approach, wanted)
    effect = numbers.effect(*single_change.numbers[wanted.data_set, wanted.quantity])
    named = f"{single_change.name} ({single_change.kind}: {single_change.title})"
    what = f"ablation {approach}, single change {named}, {wanted.data_set} {wanted.quantity}"
    if effect.estimate is None:
        return f"{what}: {effect.missing_values[0].code}: {effect.missing_values[0].reason}"
    n, unit = effect.estimate.n, metrics()[STORED[wanted.quantity]].unit.name
    seeds = "1 seed, no interval" if n == 1 else f"{n} seeds"
    return f"{what}: {effect_text(effect, wanted.quantity)} ({unit}; {seeds})"
