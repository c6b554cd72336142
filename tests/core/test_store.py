"""Records and tensors on disk: atomic, sealed, and set aside when they cannot be trusted."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.core.canonical import canonical, digest, digest_of_json
from bench.core.errors import StoreError
from bench.core.sealed import seal
from bench.core.store import Store
from tests.core.stores import record, set_aside
from tests.synthetic import read_record


def test_not_a_number_is_stored_as_null(tmp_path):
    path = Store(tmp_path).write(record(metrics={"mnist/nll": float("nan")}))
    assert json.loads(path.read_text())["metrics"] == {"mnist/nll": None}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[: len(text) // 2], "cannot be read"),
        (lambda text: text.replace("0.98", "0.99"), "was changed after"),
        (lambda text: "[1, 2]", "is not a record"),
        (lambda text: "", "cannot be read"),
        (lambda text: "[" * 100_000, "cannot be read"),
    ],
    ids=["truncated", "edited", "foreign", "empty", "nested"],
)
def test_a_damaged_record_is_named_and_set_aside(tmp_path, damage, message):
    store = Store(tmp_path)
    path = store.write(record())
    path.write_text(damage(path.read_text()))
    damaged = path.read_bytes()
    with pytest.raises(StoreError, match=message) as caught:
        read_record(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    records, problems = store.all_records()
    assert records == []
    assert [problem.path for problem in problems] == [path]
    assert store.find(record()) is None
    (kept,) = set_aside(tmp_path)
    assert kept.read_bytes() == damaged
    assert str(path) in (tmp_path / "quarantine" / "reasons.txt").read_text()


@given(st.binary(max_size=300))
def test_any_bytes_are_a_record_or_a_store_error(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("fuzz") / "record.json"
    path.write_bytes(content)
    with pytest.raises(StoreError):
        read_record(path)


def test_a_record_of_another_measurement_is_not_used(tmp_path):
    store = Store(tmp_path)
    path = store.write(record())
    other = record(key="a" * 8 + "c" * 56)
    assert store.record_path(other) == path
    assert store.find(other) is None


def test_a_skipped_record_gives_way_to_a_finished_one(tmp_path):
    store = Store(tmp_path)
    store.write(record(key="c" * 64, outcome="skipped", reason="no framework"))
    store.write(record())
    assert [found.outcome for found in store.all_records()[0]] == ["done"]


def test_a_skipped_cell_finds_what_was_done_elsewhere(tmp_path):
    store = Store(tmp_path)
    store.write(record())
    assert store.find_done_elsewhere(record(key="c" * 64), counts=lambda found: True).key == "a" * 64
    assert store.find_done_elsewhere(record(key="c" * 64), counts=lambda found: False) is None
    assert store.find_done_elsewhere(record(key="c" * 64, seed=1), counts=lambda found: True) is None


@pytest.mark.parametrize("condition", ["device", "precision"])
def test_other_conditions_are_another_cell(tmp_path, condition):
    store = Store(tmp_path)
    store.write(record(key="c" * 64, outcome="skipped", reason="no such device", **{condition: "other"}))
    store.write(record(**{condition: "usual"}))
    assert {found.outcome for found in store.all_records()[0]} == {"done", "skipped"}
    assert store.find_done_elsewhere(record(key="d" * 64, **{condition: "other"}), counts=lambda found: True) is None


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_what_json_has_not_is_no_null(word, tmp_path):
    """The hash is of null in the place of what is not a number; a record says null itself."""
    path = Store(tmp_path).write(record(metrics={"mnist/nll": None}))
    path.write_text(path.read_text().replace("null", word))
    with pytest.raises(StoreError, match=f"'{word}' is not a JSON number"):
        read_record(path)


def test_damaged_scores_are_told_from_absent_ones(tmp_path):
    store = Store(tmp_path)
    path = store.write(record(), {"mnist/label": np.arange(3)}).with_suffix(".npz")
    found = store.find(record())
    assert not store.set_aside_if_scores_are_damaged(found)
    path.write_bytes(path.read_bytes()[:100])
    assert store.set_aside_if_scores_are_damaged(found)
    assert sorted(kept.suffix for kept in set_aside(tmp_path)) == [".json", ".npz"]
    path = store.write(record(), {"mnist/label": np.arange(3)}).with_suffix(".npz")
    path.unlink()
    assert not store.set_aside_if_scores_are_damaged(store.find(record()))  # as in a clone


def test_scores_come_back_and_damaged_ones_are_none(tmp_path):
    store = Store(tmp_path)
    path = store.write(record(), {"mnist/label": np.arange(3)}).with_suffix(".npz")
    kept = store.find(record())
    assert store.scores(kept)["mnist/label"].tolist() == [0, 1, 2]
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"text"):
        path.write_bytes(damaged)
        assert store.scores(kept) == {}
        assert not path.exists()
    assert store.scores(kept) == {}
    path.write_bytes(whole)
    assert store.scores(record()) == {}  # of a record that has no hash of them
    assert len(set_aside(tmp_path)) == 4


def test_tensors_come_back_to_the_bit(tmp_path):
    store = Store(tmp_path)
    path = store.fit_path("d" * 64, "posterior")
    tensors = {"mu": torch.randn(3, 4, generator=torch.Generator().manual_seed(0)), "step": torch.tensor(7)}
    store.write_tensors(path, tensors, {"epochs": [{"epoch": 1}]})
    found, info = store.read_tensors(path)
    assert info == {"epochs": [{"epoch": 1}]}
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)


@pytest.mark.parametrize("position", [10, -3], ids=["header", "data"])
def test_damaged_tensors_are_set_aside(tmp_path, position):
    store = Store(tmp_path)
    path = store.fit_path("d" * 64, "checkpoint")
    store.write_tensors(path, {"mu": torch.ones(100)}, {})
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    assert store.read_tensors(path) is None
    assert not path.exists()
    assert len(set_aside(tmp_path)) == 1


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), json_values, max_size=5))
def test_hash_survives_a_round_trip_through_json(value):
    read = json.loads(canonical(value))
    assert digest_of_json(read) == digest(read) == digest(value)


def test_hash_ignores_the_order_of_keys():
    assert digest({"a": 1, "b": [1.5, None]}) == digest({"b": (1.5, None), "a": 1})


def test_seal_replaces_an_old_seal():
    assert seal(seal(record())) == seal(record())


def test_relative_and_absolute_roots_are_one_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Store(Path("here")).write(record())
    assert Store(tmp_path / "here").find(record()) is not None
