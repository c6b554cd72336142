"""Tables on disk: one Markdown and one CSV file each, and the generated blocks of the README."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bench.core.errors import ConfigError, StoreError, unknown_name
from bench.core.files import reason, write_atomically
from bench.show.table import Table
from bench.show.tables.render import escape, markdown_grid, render

_BLOCK = re.compile(r"<!-- (?P<kind>table|finding):(?P<name>\S+) -->(?P<body>.*?)<!-- /(?P=kind) -->", re.DOTALL)
_END = re.compile(r"<!-- (?:(?:table|finding):|/(?:table|finding) -->)")  # either end of a block
EXAMPLE = "<!-- table:NAME --> ... <!-- /table -->"


def write_tables(
    tables: Iterable[Table], folder: Path, forms: Sequence[str] = ("md", "csv"), below: Path | None = None
) -> list[Path]:
    """Write NAME.FORM of every table and form of `render`, each file whole or not at all; raises StoreError.

    `below`: see `bench.core.files.opened_folder`.
    """
    written = []
    for table in tables:
        for form in forms:
            path = folder / f"{table.name}.{form}"
            write_atomically(path, render(table, form).encode(), below)
            written.append(path)
    return written


def with_block(path: Path, begin: str, end: str, block: str) -> bytes:
    """Return a file's bytes with a new block between two marks, for `write_atomically`.

    Raises:
        StoreError: a mark is missing.
    """
    before, first, rest = path.read_text(encoding="utf-8").partition(begin)
    _, last, after = rest.partition(end)
    if not (first and last):
        raise StoreError(f"{path}: expected {begin!r}, then {end!r}; put the marks where the block belongs")
    return f"{before}{begin}{block}{end}{after}".encode()


def update_readme(
    path: Path, tables: Mapping[str, Table], findings: Mapping[str, str] | None = None, check: bool = False
) -> bool:
    """Put today's tables and sentences between the markers of a README.

    Args:
        path: a file with `<!-- table:NAME -->` ... `<!-- /table -->` or `<!-- finding:NAME -->` ...
            `<!-- /finding -->`, any number of them.
        tables: the tables by name.
        findings: the sentences by name.
        check: change nothing.

    Returns:
        Whether the file's blocks differ (or differed) from the given ones.

    Raises:
        ConfigError: the file cannot be read, has no markers, an unclosed one, or names what is unknown.
        StoreError: the file cannot be written.
    """
    try:
        old = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {reason(error)}") from error
    blocks = list(_BLOCK.finditer(old))
    if not blocks:
        raise ConfigError(f"{path} has no block {EXAMPLE}; put one where a table shall stand")
    if len(_END.findall(old)) != 2 * len(blocks):
        raise ConfigError(f"{path} has a block without its other end; close each as {EXAMPLE}")
    bodies = {"table": {name: readme_body(table) for name, table in tables.items()}, "finding": findings or {}}
    for block in blocks:
        if block["name"] not in bodies[block["kind"]]:
            raise unknown_name(f"{block['kind']} in {path}", block["name"], bodies[block["kind"]])

    def renewed(block: re.Match[str]) -> str:
        kind, name = block["kind"], block["name"]
        body = bodies[kind][name].rstrip()
        return "\n".join(filter(None, [f"<!-- {kind}:{name} -->", body, f"<!-- /{kind} -->"]))

    new = _BLOCK.sub(renewed, old)
    if new != old and not check:
        write_atomically(path, new.encode())
    return new != old


def readme_body(table: Table) -> str:
    """Return the rows of a table, what they are, and its notes; machine and code stand in the table `provenance`."""
    notes = "".join(f"- {escape(note)}\n" for note in table.own_notes)
    return f"{markdown_grid(table)}\n\n{escape(table.explanation)}\n" + (f"\n{notes}" if notes else "")
