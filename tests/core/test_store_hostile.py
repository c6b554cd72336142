"""Files of a results folder that are not what they seem: in the wrong place, of another form, links, pipes, bombs."""

import os
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch

from bench.core import locks, quarantine
from bench.core.store import Store
from tests.core.stores import record, set_aside


def test_a_record_elsewhere_than_its_name_says_is_not_used(tmp_path):
    """A copy for another seed has a right seal; only its place gives it away."""
    store = Store(tmp_path)
    path = store.write(record())
    copy = path.with_name(path.name.replace("seed0", "seed1"))
    copy.write_bytes(path.read_bytes())
    records, problems = store.all_records()
    assert [found.seed for found in records] == [0]
    assert [problem.path for problem in problems] == [copy]
    assert "in the wrong place" in problems[0].reason


def test_a_pipe_and_a_folder_in_the_place_of_a_record_do_not_block(tmp_path):
    store = Store(tmp_path)
    path = store.write(record())
    path.unlink()
    os.mkfifo(path)
    assert store.find(record()) is None
    path.mkdir()
    assert store.find(record()) is None
    assert len(set_aside(tmp_path)) == 2


def test_a_bomb_among_scores_is_not_unpacked(tmp_path):
    store = Store(tmp_path)
    path = store.write(record(), {"mnist/label": np.arange(3)}).with_suffix(".npz")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bomb, bomb.open("a.npy", "w", force_zip64=True) as member:
        for _ in range(300):
            member.write(bytes(1 << 20))
    tracemalloc.start()
    try:
        assert store.scores(record()) == {}
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_the_scores_of_an_untrusted_record_go_with_it(tmp_path):
    store = Store(tmp_path)
    path = store.write(record(), {"mnist/label": np.arange(3)})
    path.write_text("{}")
    assert store.find(record()) is None
    assert {each.suffix for each in set_aside(tmp_path)} == {".json", ".npz"}


def test_nothing_in_quarantine_is_ever_replaced(tmp_path):
    store = Store(tmp_path)
    for content in ("one", "two", "three"):
        path = store.write(record())
        path.write_text(content)
        assert store.find(record()) is None
    assert sorted(each.read_text() for each in set_aside(tmp_path)) == ["one", "three", "two"]


def test_what_another_process_has_set_aside_is_no_fault(tmp_path):
    assert quarantine.set_aside(tmp_path, tmp_path / "gone.json", "it is broken") is None


def test_tensors_of_another_fit_are_set_aside(tmp_path):
    store = Store(tmp_path)
    path = store.fit_path("d" * 64, "posterior")
    store.write_tensors(path, {"mu": torch.ones(2)}, {"fit_key": "e" * 64})
    assert store.read_tensors(path, lambda info: info["fit_key"] == "d" * 64) is None
    assert len(set_aside(tmp_path)) == 1
    store.write_tensors(path, {"mu": torch.ones(2)}, {})  # without the field, sealed as it may be
    assert store.read_tensors(path, lambda info: info["fit_key"] == "d" * 64) is None
    assert len(set_aside(tmp_path)) == 2


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
