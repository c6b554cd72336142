"""Files are written whole or not at all, only our own leftovers are removed; an error in a TOML file is one line."""

import errno
import fcntl
import os
from typing import Annotated, Literal

import pytest
from msgspec import Meta

from bench.cli.main import main
from bench.core import files, locks
from bench.core.errors import ConfigError, StoreError
from bench.core.store import Store
from bench.core.toml import LARGEST, MOST_TOLD, Text, TomlTable, read_toml


@pytest.mark.parametrize("stop", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_the_old_file_and_no_part(tmp_path, monkeypatch, stop):
    path = tmp_path / "file"
    files.write_atomically(path, b"old")

    def fail(_):
        raise stop

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises((StoreError, KeyboardInterrupt)) as caught:
        files.write_atomically(path, b"new")
    if caught.type is StoreError:
        assert str(caught.value) == f"cannot write {path}: No space left on device; free space or choose another folder"
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_only_old_parts_of_this_suite_are_swept(tmp_path):
    """A young part, another program's file, a link, and files in other folders or behind a link stay."""
    results, elsewhere = tmp_path / "results", tmp_path / "elsewhere"
    name = ".bnn-bench-abcdefgh.part"
    old, young, other, link = (
        results / "fits" / "a" / each
        for each in (name, name.replace("abc", "xyz"), ".a.json.part", name[:-6] + "x.part")
    )
    kept = [results / "mine" / name, elsewhere / name, young, other]
    for path in (old, *kept):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half")
        if path != young:
            os.utime(path, (0, 0))
    link.symlink_to(elsewhere / name)
    (results / "derived_metrics").symlink_to(elsewhere)
    (results / "fits" / "b").symlink_to(elsewhere)
    Store(results).check_writable()
    assert not old.exists()
    assert all(path.exists() for path in (*kept, link))


WIRING = ["run", "uniform", "--profile", "smoke", "--protocol", "common", "--executor", "inline", "--quiet"]


def test_a_disk_that_grants_a_lock_twice_is_named_at_the_start_of_a_run(tmp_path, monkeypatch, capsys):
    """As on some network disks, `flock` succeeds always."""
    assert locks.are_kept(tmp_path)
    assert list((tmp_path / locks.FOLDER).iterdir()) == []
    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", lambda *_: None)
        assert not locks.are_kept(tmp_path)
        assert main([*WIRING, "--results", str(tmp_path)]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: this disk grants a lock twice")
    assert main([*WIRING, "--results", str(tmp_path)]) == 0
    assert capsys.readouterr().err == ""


def test_a_folder_where_no_lock_can_be_made_is_one_line_about_the_lock(tmp_path):
    (tmp_path / "locks").write_text("in the way")
    with pytest.raises(StoreError, match=r"cannot lock .*'locks' on the way is not a folder"):
        locks.are_kept(tmp_path)


def test_all_locks_are_held_or_none(tmp_path):
    store = Store(tmp_path)
    with locks.hold(store.root, ["b" * 64]):
        with pytest.raises(locks.Busy), locks.hold(store.root, ["a" * 64, "b" * 64, "c" * 64]):
            pass
        assert not locks.is_held(tmp_path, "a" * 64)
        assert locks.is_held(tmp_path, "b" * 64)
        assert locks.holder(tmp_path, "b" * 64).pid == os.getpid()
    assert not locks.is_held(tmp_path, "b" * 64)
    assert locks.holder(tmp_path, "b" * 64) is None


def test_who_asks_for_a_lock_leaves_no_file(tmp_path):
    assert not locks.is_held(tmp_path, "a" * 64)
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_may_not_be_looked_at_counts_as_free(tmp_path):
    """`status` then says nothing about the fit, and does not end with an error."""
    with locks.hold(tmp_path, ["a" * 64]):
        (tmp_path / locks.FOLDER).chmod(0)
        user = os.geteuid()
        if user == 0:  # root may look at every file
            os.seteuid(65534)
        try:
            assert not locks.is_held(tmp_path, "a" * 64)
        finally:
            os.seteuid(user)
            (tmp_path / locks.FOLDER).chmod(0o755)


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
