"""An error in a TOML file is one line, which names the table or field and what is allowed there."""

from typing import Annotated, Literal

import pytest
from msgspec import Meta

from bench.core.errors import ConfigError
from bench.core.toml import LARGEST, MOST_TOLD, Text, TomlTable, read_toml


class Part(TomlTable, frozen=True):
    size: Annotated[int, Meta(ge=1)]
    kind: Literal["square", "round"] = "round"
    note: Text = "-"


class Whole(TomlTable, frozen=True, kw_only=True):
    name: str
    weight: float
    parts: tuple[Part, ...] = ()
    named: dict[str, Part] = {}  # noqa: RUF012 - msgspec makes a new one each time
    extra: Part | None = None


def read(tmp_path, text):
    path = tmp_path / "whole.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_toml(path, Whole, "example", "restore it", name=path.stem)


def test_a_file_becomes_its_type(tmp_path):
    found = read(tmp_path, "weight = 1\n[[parts]]\nsize = 2\n[named.a]\nsize = 3\nkind = 'square'")
    assert found == Whole(name="whole", weight=1.0, parts=(Part(2),), named={"a": Part(3, "square")})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("wieght = 2", "unknown key in FILE: 'wieght'; known: extra, named, parts, weight; did you mean 'weight'?"),
        ("weight = 1\ncolour = 3", "unknown key in FILE: 'colour'; known: extra, named, parts, weight"),
        ("weight = 1\nname = 'a'", "FILE: unknown key 'name'"),
        ("", "FILE: 'weight' is missing"),
        ("weight = 'high'", "FILE, weight: 'high' given; give a number"),
        ("weight = true", "FILE, weight: True given; give a number"),
        ("weight = inf", "FILE cannot be read: inf is not a finite number"),
        ("weight = 1\nparts = [{size = 1}, {size = 0}]", "FILE, parts #2.size: 0 given; give a whole number >= 1"),
        ("weight = 1\nparts = 3", "FILE, parts: 3 given; give a list"),
        (
            "weight = 1\nnamed.a = {size = 1, kind = 'red'}",
            "unknown value in FILE, named.a.kind: 'red'; known: round, square; did you mean 'round'?",
        ),
        (
            "weight = 1\nnamed.a = {siez = 1}",
            "unknown key in FILE, named.a: 'siez'; known: kind, note, size; did you mean 'size'?",
        ),
        ("weight = 1\nextra = {kind = 'round'}", "FILE, extra: 'size' is missing"),
        ("weight = 1\nextra = {size = 1, note = ' '}", "FILE, extra.note: ' ' given; give a text"),
        ('weight = 1\nnamed."\\u001b[2J" = {size = 0}', r"FILE, named.\x1b[2J.size: 0 given; give a whole number >= 1"),
        (
            "colour = 3\nparts = [{}, {size = 0, siez = 1}]\nnamed.a = {kind = 'red', seiz = 1}",
            "FILE, parts #1: 'size' is missing; also: parts #2.size: 0 given; give a whole number >= 1; also: unknown "
            "key in parts #2: 'siez'; known: kind, note, size; did you mean 'size'?; also: unknown value in "
            "named.a.kind: 'red'; known: round, square; did you mean 'round'?; also: unknown key in named.a: 'seiz'; "
            "known: kind, note, size; did you mean 'size'?; also: unknown key in the file: 'colour'; known: extra, "
            "named, parts, weight; also: 'weight' is missing",
        ),
        ("weight = ", "FILE cannot be read: Invalid value (at end of document)"),
        (b"\xff", "FILE cannot be read: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (b"#" * (LARGEST + 1), "FILE cannot be read: more than 1,048,576 bytes; expected at most 1,048,576"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(tmp_path, text, problem):
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert str(caught.value) == problem.replace("FILE", f"example {tmp_path / 'whole.toml'}") + "; restore it"


def test_a_file_full_of_problems_is_not_told_in_full(tmp_path):
    with pytest.raises(ConfigError) as caught:
        read(
            tmp_path,
            "weight = 1\nparts = [" + "{size = 0}," * 1_000 + "]\n" + "\n".join(f"k{n} = 1" for n in range(99)),
        )
    assert str(caught.value).count("; also: ") == MOST_TOLD - 1


def test_what_is_nested_too_deeply_is_told(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: maximum recursion depth exceeded"):
        read(tmp_path, "a = " + "[" * 5000)


def test_a_folder_or_nothing_in_the_place_of_a_file_is_told(tmp_path):
    for path, problem in ((tmp_path, "it is a folder"), (tmp_path / "none.toml", "No such file")):
        with pytest.raises(ConfigError, match=f"example {path} cannot be read: .*{problem}"):
            read_toml(path, Whole, "example")
