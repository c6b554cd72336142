"""Lines that `audit` prints: findings, checks of an approach, and measurements of each library's example."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bench.judge.audit.libraries.audited import LibraryAudit, ObjectiveAudit
from bench.judge.audit.libraries.examples import Example
from bench.judge.audit.rules import Finding
from bench.show.table import EMPTY
from bench.show.tables.lists import as_if_n, weights

if TYPE_CHECKING:
    from bench.judge.audit.check import CheckLine  # imports PyTorch, which tables do not need

INDENT = " " * 4


def finding_lines(found: Finding, is_whole: bool = True) -> list[str]:
    """Return the lines of a finding: severity, outcome, rule, subject; if it is whole, detail, remedy and effect."""
    heading = f"{found.of_rule.severity:<10}  {found.outcome:<14}  {found.rule:<25}  {found.subject}"
    is_whole = is_whole and found.outcome != "passes"
    return [heading, *(_details(found.detail, found.remedy, found.effect) if is_whole else ())]


def check_lines(check: CheckLine, is_whole: bool = True) -> list[str]:
    """Return the lines of a check of an approach: outcome, part, name, recipe; if it is whole, detail and remedy."""
    heading = f"{check.outcome:<14}  {check.part:<8}  {check.name:<27}  {check.recipe}"
    is_whole = (is_whole or check.outcome != "not applicable") and check.outcome != "passed"
    return [heading, *(_details(check.detail, check.remedy, "") if is_whole else ())]


def _details(detail: str, remedy: str, effect: str) -> list[str]:
    named = (("", detail), ("to do: ", remedy), ("effect: ", effect))
    return [f"{INDENT}{name}{' '.join(text.split())}" for name, text in named if text]


def library_lines(example: Example, found: LibraryAudit) -> list[str]:
    """Return the lines of an example: name, version, source, measurements, and the KL's weight after the change."""
    heading = f"{example.name}: {example.package} {found.versions[example.package]}, {example.licence}"
    details = [
        f"follows: {example.source}",
        f"line: {example.line} (batch size {example.batch_size})",
        *_measured(found.published, example.n_train),
        f"change: {example.change}",
        f"after it the KL counts in an epoch: {weights(found.changed)}",
    ]
    return [heading, *(INDENT + detail for detail in details)]


def _measured(one: ObjectiveAudit, n_train: int) -> Iterator[str]:
    yield f"gradients: {one.slopes_detail}"
    if not one.kl_weights:
        yield f"KL: {one.kl_detail}"
        return
    for name, value in one.kl_weights.items():
        yield f"KL of {name}: counts {value:.4g} times in an epoch"
    yield f"as if N were {as_if_n(one, n_train) or EMPTY}"
    if one.prior_std is not None:
        yield f"prior: standard deviation {one.prior_std:.4g}"
