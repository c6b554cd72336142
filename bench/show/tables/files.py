"""Tables on disk: one Markdown and one CSV file each, and the generated blocks of the README."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bench.core.errors import ConfigError, unknown_name
from bench.core.files import write_atomically
from bench.show.tables.cells import Table
from bench.show.tables.render import markdown_body, render

_BLOCK = re.compile(r"<!-- table:(?P<name>\S+) -->(?P<body>.*?)<!-- /table -->", re.DOTALL)
_OPEN = "<!-- table:"
_CLOSE = "<!-- /table -->"


def write_tables(tables: Iterable[Table], folder: Path, forms: Sequence[str] = ("md", "csv")) -> list[Path]:
    """Write NAME.FORM of every table and form of `render`, each file whole or not at all; raises StoreError."""
    written = []
    for table in tables:
        for form in forms:
            path = folder / f"{table.name}.{form}"
            write_atomically(path, render(table, form).encode())
            written.append(path)
    return written


def update_readme(path: Path, tables: Mapping[str, Table], check: bool = False) -> bool:
    """Put today's tables between the markers of a README.

    Args:
        path: a file with `<!-- table:NAME -->` ... `<!-- /table -->`, any number of them.
        tables: the tables by name.
        check: change nothing.

    Returns:
        Whether the file's tables differ (or differed) from the given ones.

    Raises:
        ConfigError: the file cannot be read, has no markers, an unclosed one, or names an unknown table.
        StoreError: the file cannot be written.
    """
    try:
        old = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    blocks = list(_BLOCK.finditer(old))
    if not blocks:
        raise ConfigError(f"{path} has no block {_OPEN}NAME --> ... {_CLOSE}; put one where a table shall stand")
    if not len(blocks) == old.count(_OPEN) == old.count(_CLOSE):
        raise ConfigError(f"{path} has a table block without its other end; close each {_OPEN}NAME --> with {_CLOSE}")
    for block in blocks:
        if block["name"] not in tables:
            raise unknown_name(f"table in {path}", block["name"], tables)
    new = _BLOCK.sub(lambda block: _block(tables[block["name"]]), old)
    if new != old and not check:
        write_atomically(path, new.encode())
    return new != old


def _block(table: Table) -> str:
    return f"{_OPEN}{table.name} -->\n\n{markdown_body(table)}\n{_CLOSE}"
