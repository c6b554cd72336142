"""Locks: whether a disk refuses a second process a lock that is held."""

import fcntl

import pytest

from bench.cli.main import main
from bench.core import locks
from bench.core.errors import StoreError

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
