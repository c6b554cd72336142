"""Files are written whole or not at all, and only this suite's own leftovers are removed."""

import errno
import os

import pytest

from bench.core import files
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
