"""What the audit of a library's example found, as lines for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from bench.judge.audit.libraries.examples import Example
from bench.judge.audit.libraries.reading import LibraryReading, ObjectiveReading
from bench.show.audit import INDENT
from bench.show.tables.libraries import as_if_n, weights


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
    yield f"as if N were {as_if_n(one)}"
    if one.prior_std is not None:
        yield f"prior: standard deviation {one.prior_std:.4g}"
