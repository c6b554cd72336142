"""Locks: all are held or none, they leave nothing behind, and whether a disk refuses a second process one."""

import fcntl
import os

import pytest

from bench.cli.main import main
from bench.core import locks
from bench.core.errors import StoreError
from bench.core.store import Store

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
