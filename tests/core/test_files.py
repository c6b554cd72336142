"""Files are written whole or not at all, and only our own leftovers are removed; of locks all are held or none."""

import errno
import fcntl
import os

import pytest

from bench.cli.main import main
from bench.core import files, locks
from bench.core.errors import StoreError
from bench.core.store import Store


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
