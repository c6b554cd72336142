"""Locks: whether a disk refuses a second process a lock that is held."""

import fcntl

from bench.cli.main import main
from bench.core import locks

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
