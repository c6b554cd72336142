"""Read TOML files with a schema. An error is one line: the file, each wrong table or field, what is allowed there."""

from __future__ import annotations

import datetime
import math
import re
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeVar

import msgspec

from bench.core.errors import ConfigError, DataCorrupt, unknown_name
from bench.core.files import read_file
from bench.core.text import one_line

LARGEST = 1 << 20  # bytes; the largest file of this suite has 40 kB
MOST_TOLD = 20  # problems of a file that an error tells
LONGEST_VALUE = 80  # characters of a refused value that an error quotes
_WORDS = {"str": "text", "int": "whole number", "float": "number", "object": "table", "array": "list"}
_DATES = (datetime.date, datetime.datetime, datetime.time)  # types of TOML; a field of text must not accept them
_NAMES = re.compile(rf"\b({'|'.join(_WORDS)})\b")

T = TypeVar("T")
Text = typing.Annotated[str, msgspec.Meta(pattern=r"\S")]  # not blank
Sha256 = typing.Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
_PATTERNS = {r" matching regex '\\S'": "", " matching regex '^[0-9a-f]{64}$'": " of 64 hexadecimal digits"}


class TomlTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a TOML file. Each field has a type; no other field is allowed. Schemas inherit from it.

    `__post_init__` may raise ValueError if fields contradict each other; the error then names the table.
    """


def read_toml(
    path: Path,
    schema: type[T],
    what: str,
    remedy: str = "",
    gone: Mapping[str, str] = MappingProxyType({}),
    **given: object,
) -> T:
    """Read a TOML file.

    Args:
        path: the file, of at most `LARGEST` bytes.
        schema: a `TomlTable`, or a dict of them.
        what: the kind of file, for errors.
        remedy: what a user can do about an error; it ends the line.
        gone: keys that older versions had, and what to do instead.
        given: fields of the schema that do not come from the file, such as its name.

    Raises:
        ConfigError: the file cannot be read, or does not have the form of the schema.
    """
    try:
        text = read_file(path, LARGEST).decode("utf-8-sig")  # some editors begin a file with a byte order mark
        raw = tomllib.loads(text, parse_float=_finite)
    except (DataCorrupt, ValueError, RecursionError) as error:
        problem = one_line(str(error).removeprefix(f"{path}: "))
        raise ConfigError(_ended(f"{what} {path} cannot be read: {problem}", remedy)) from error
    if old := [f"{name} ({instead})" for name, instead in gone.items() if name in raw]:
        raise ConfigError(f"{what} {path} has what this version does not know; remove {', '.join(old)}")
    return check(raw, schema, f"{what} {path}", remedy, **given)


def check(raw: Mapping[str, object], schema: type[T], where: str, remedy: str = "", **given: object) -> T:
    """Return the content of a TOML file in the types of the schema; raises ConfigError, which begins with `where`."""
    for name in given.keys() & raw.keys():
        raise ConfigError(_ended(f"{where}: unknown key '{name}'", remedy))
    merged = {**raw, **given}
    try:
        return msgspec.convert(merged, schema, builtin_types=_DATES)
    except (msgspec.ValidationError, RecursionError) as error:
        first, *others = _problems(merged, schema, where, "", set(given))
        others = [one.removeprefix(f"{where}: ").replace(f"{where}, ", "").replace(where, "the file") for one in others]
        raise ConfigError(_ended("; also: ".join([first, *others][:MOST_TOLD]), remedy)) from error


def _finite(text: str) -> float:
    """Return a number; refuse inf and nan, which TOML allows and no file of this suite uses."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value


def _ended(message: str, remedy: str) -> str:
    return f"{message}; {remedy}" if remedy else message


def _problems(value: object, kind: object, where: str, place: str, given: set[str]) -> list[str]:
    """Return a text for each innermost wrong part. msgspec's own error tells the first, without the keys of dicts."""
    at = f"{where}, {place.lstrip('.')}" if place else where
    found: list[str] = []
    for name, part, its_kind in _parts(value, kind):
        if len(found) < MOST_TOLD and _message(part, its_kind):
            found += _problems(part, _table_of(its_kind), where, place + name, set())
    if _is_table(kind) and isinstance(value, dict):
        required = {field.encode_name: field.required for field in msgspec.structs.fields(kind)}
        unknown = [one_line(key, LONGEST_VALUE) for key in value if key not in {*required, *given}]
        found += [str(unknown_name(f"key in {at}:", key, required.keys() - given)) for key in unknown[:MOST_TOLD]]
        missing = [key for key, is_required in required.items() if is_required and key not in value]
        found += [f"{at}: '{key}' is missing" for key in missing if not any(f"mean '{key}'" in one for one in found)]
    return found or [_problem(value, kind, at)]


def _problem(value: object, kind: object, at: str) -> str:
    """Return what is wrong with a value that has no wrong part."""
    if typing.get_origin(kind) is Literal:
        shown = one_line(str(value), LONGEST_VALUE)
        return str(unknown_name(f"value in {at}:", shown, map(str, typing.get_args(kind))))
    message = _message(value, kind)
    if not message.startswith("Expected "):  # __post_init__ raised it
        return f"{at}: {message}"
    return f"{at}: {one_line(repr(value), LONGEST_VALUE)} given; give {expected(message)}"


def expected(message: str) -> str:
    """Return in plain words the type that msgspec's message expected."""
    for pattern, words in _PATTERNS.items():
        message = message.replace(pattern, words)
    allowed = _NAMES.sub(lambda name: _WORDS[name[0]], message.removeprefix("Expected ").partition(", got ")[0])
    return f"a {allowed.replace('`', '')}"


def _parts(value: object, kind: object) -> Iterator[tuple[str, object, object]]:
    """Yield name, value and type of the parts of a table or list, keys included."""
    if typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(value, dict) and _is_table(kind):
        for field in msgspec.structs.fields(kind):
            if field.encode_name in value:
                yield f".{field.encode_name}", value[field.encode_name], field.type
    elif isinstance(value, dict) and origin is dict:
        for key, part in value.items():
            name = f".{one_line(key, LONGEST_VALUE)}"
            yield from ((name, key, inner[0]), (name, part, inner[1]))
    elif isinstance(value, list) and origin is tuple:
        for number, part in enumerate(value, start=1):
            yield f" #{number}", part, inner[0]


def _table_of(kind: object) -> object:
    """Return the table type of an optional table, else the type itself."""
    first = typing.get_args(kind)[0] if isinstance(kind, types.UnionType) else None
    return first if _is_table(first) else kind


def _is_table(kind: object) -> typing.TypeGuard[type[msgspec.Struct]]:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _message(value: object, kind: object) -> str:
    """Return why a value does not have its type, '' if it has."""
    try:
        msgspec.convert(value, kind, builtin_types=_DATES)
    except msgspec.ValidationError as error:
        return str(error).partition(" - at `$")[0]
    return ""
