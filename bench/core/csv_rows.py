"""Read CSV files with a schema. An error is one line: the file, the row, the column, and what is allowed there."""

from __future__ import annotations

import csv
import io
import typing
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from bench.core.errors import ConfigError
from bench.core.files import reason
from bench.core.toml import LONGEST_VALUE, expected


class CsvRow(msgspec.Struct, frozen=True):
    """A row: a field for each column, in the order of the columns. A field with a default may be empty.

    `__post_init__` may raise ValueError that names the column.
    """


T = TypeVar("T", bound=CsvRow)


def columns(schema: type[CsvRow]) -> tuple[str, ...]:
    """Return the names of the columns."""
    return tuple(field.encode_name for field in msgspec.structs.fields(schema))


def read_csv(path: Path, schema: type[T], what: str, key: str = "") -> list[T]:
    """Read a CSV file whose first row names the columns. The last columns may be absent if their fields have defaults.

    Args:
        path: the file.
        schema: of a row.
        what: the kind of file, for errors.
        key: a column in which no value may appear twice; "": none.

    Raises:
        ConfigError: the file cannot be read, or a row does not have the form of the schema.
    """
    try:
        text = path.read_text(encoding="utf-8")
        header, *rows = list(csv.reader(io.StringIO(text, newline=""), strict=True)) or [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{what} {path} cannot be read: {reason(error)}") from error
    names = columns(schema)
    optional = {field.encode_name for field in msgspec.structs.fields(schema) if not field.required}
    if tuple(header) != names[: len(header)] or not optional.issuperset(names[len(header) :]):
        raise ConfigError(f"{what} {path}: the first row must name the columns {','.join(names)}")
    found: list[T] = []
    seen: set[object] = set()
    for number, row in enumerate(rows, start=2):
        where = f"{what} {path}, row {number}"
        if len(row) != len(header):
            raise ConfigError(f"{where}: {len(row)} columns instead of {len(header)}; quote texts that hold commas")
        named = {name: text for name, text in zip(header, row, strict=True) if text or name not in optional}
        found.append(_row(named, schema, where))
        if key and named[key] in seen:
            raise ConfigError(f"{where}, column {key}: '{named[key][:LONGEST_VALUE]}' appears twice")
        seen.add(named.get(key))
    return found


def _row(named: dict[str, str], schema: type[T], where: str) -> T:
    try:
        return msgspec.convert(named, schema, strict=False)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$.")
        column = place.removesuffix("`")
        if not column:  # __post_init__ raised it
            raise ConfigError(f"{where}, {message}") from None
        raise ConfigError(f"{where}, {refused(column, named[column], _allowed(schema, column, message))}") from None


def refused(column: str, given: str, allowed: str) -> str:
    """Return the error's text for a value that a column cannot have."""
    return f"column {column}: '{given[:LONGEST_VALUE]}' is not allowed; give {allowed}"


def _allowed(schema: type[CsvRow], column: str, message: str) -> str:
    kind = next(field.type for field in msgspec.structs.fields(schema) if field.encode_name == column)
    if typing.get_origin(kind) is Literal:
        return f"one of {', '.join(name or 'nothing' for name in typing.get_args(kind))}"
    return expected(message)
