"""Audits as tables and as lines of the terminal: known mistakes, and what a library's own example makes of the KL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from bench.judge.audit.findings import OUTCOMES, Finding
from bench.judge.audit.libraries.examples import EXAMPLES, N_TRAIN, Example
from bench.judge.audit.libraries.reading import LibraryReading, ObjectiveReading
from bench.judge.audit.rules import RULES
from bench.judge.samples import Gap
from bench.show.cells import EMPTY, Entry, Missing, Table, make_table

if TYPE_CHECKING:
    from bench.judge.audit.check import CheckLine  # imports PyTorch, which tables do not need

DOCUMENT_COLUMNS = ("rule", "severity", "outcome", "seen", "effect", "remedy")
NOT_AUDITED = "not applicable"
DOCUMENT_CAPTION = (
    "Rules for known mistakes, applied to the document; failures first. The ladders say what each mistake is worth."
)
COLUMNS = ["example", "version", "KL an epoch", "gradients are slopes", "prior", "as if N", "follows", "its line"]
COLUMNS += ["change", "KL after it"]
CAPTION = (
    f"The objective that each library's README or tutorial trains, on the network 784-400-400-10 for N = {N_TRAIN:,} "
    "images unless the row names other sizes, at the batch size in brackets. Nothing is trained. KL an epoch: how "
    "often an epoch counts the KL of a tensor while it counts the data once; 1 is an ELBO. W1 to W3 are the weights of "
    "the layers, b1 to b3 the biases; one number stands for all equal ones. Gradients are slopes: whether autograd's "
    "gradient is the slope of the loss. Prior: its standard deviation. As if N: the number of training images for "
    "which this weight would be an ELBO's. KL after it: KL an epoch, audited again with the change made."
)
TENSORS = ("W1", "b1", "W2", "b2", "W3", "b3")
ALIKE = 0.05  # of a weight: the tolerance of the rule kl-scale
INDENT = " " * 4


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
        make_table(f"audit_{document}", f"Audit of {document}", DOCUMENT_CAPTION, DOCUMENT_COLUMNS, rows)
        for document, rows in lines.items()
    ]


def libraries_table(found: Mapping[str, LibraryReading]) -> Table:
    """Return a row for each example, also for one that nobody measured."""
    rows: list[list[Entry]] = []
    for example in EXAMPLES.values():
        text = [example.source, example.line, example.change]
        if example.name not in found:
            gap = Gap("not measured", f"nobody has measured it yet; pip install {example.package}")
            rows.append([_name(example), *[Missing(gap)] * 5, *text, Missing(gap)])
            continue
        one = found[example.name]
        version = f"{example.package} {one.versions[example.package]}"
        published = one.published
        slopes = {"passes": "yes", "fails": "no"}.get(published.slopes, published.slopes)
        prior = None if published.prior_std is None else f"{published.prior_std:.3g}"
        measured = [weights(published), slopes, prior, as_if_n(published)]
        rows.append([_name(example), version, *measured, *text, weights(one.changed)])
    remarks = sorted({f"torch {one.versions['torch']}" for one in found.values()})
    return make_table("libraries", "Other people's libraries", CAPTION, COLUMNS, rows, remarks)


def _name(example: Example) -> str:
    return f"{example.name} ({example.batch_size})"


def weights(one: ObjectiveReading) -> str:
    """Return how often an epoch counts the KL: one number, or one for each tensor."""
    values = list(one.kl_weights.values())
    if not values:
        return "not measured: gradients are no slopes" if one.slopes == "fails" else "not measured"
    least, most = min(values), max(values)
    if most - least <= ALIKE * abs(most):
        return _number(sum(values) / len(values))
    names = TENSORS if len(values) == len(TENSORS) else one.kl_weights
    return ", ".join(f"{name} {_number(value)}" for name, value in zip(names, values, strict=True))


def _number(value: float) -> str:
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 1000 else f"{value:.3g}"


def as_if_n(one: ObjectiveReading) -> str | None:
    """Return for how many rows the KL would be weighed rightly: N divided by its weight; None without a weight."""
    values = list(one.kl_weights.values())
    if not values or min(values) <= 0:
        return None
    least, most = (_number(N_TRAIN / value) for value in (max(values), min(values)))
    return least if max(values) - min(values) <= ALIKE * max(values) else f"{least} to {most}"


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


def library_lines(example: Example, found: LibraryReading) -> list[str]:
    """Return an example: its name and version, what it follows, what was measured, and what the change gives."""
    heading = f"{example.name}: {example.package} {found.versions[example.package]}, {example.licence}"
    details = [
        f"follows: {example.source}",
        f"line: {example.line} (batch size {example.batch_size})",
        *_measured(found.published),
        f"change: {example.change}",
        f"after it the KL counts in an epoch: {weights(found.changed)}",
    ]
    return [heading, *(INDENT + detail for detail in details)]


def _measured(one: ObjectiveReading) -> Iterator[str]:
    yield f"gradients: {one.slopes_detail}"
    if not one.kl_weights:
        yield f"KL: {one.kl_detail}"
        return
    for name, value in one.kl_weights.items():
        yield f"KL of {name}: counts {value:.4g} times in an epoch"
    yield f"as if N were {as_if_n(one) or EMPTY}"
    if one.prior_std is not None:
        yield f"prior: standard deviation {one.prior_std:.4g}"
