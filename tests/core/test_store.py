"""Records, scores and tensors on disk are sealed, and named and left out if they are damaged. Locks of fits."""

import errno
import hashlib
import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from bench.core.canonical import canonical, digest, digest_of_json, seal, unseal
from bench.core.errors import StoreError
from bench.core.reasons import message_reason
from bench.core.records import SCHEMA, Record
from bench.core.store import Store
from tests.core import record
from tests.synthetic import read_record


def test_not_a_number_is_stored_as_null(tmp_path):
    path = Store(tmp_path).write(record(metrics={"mnist/nll": float("nan")}))
    assert json.loads(path.read_text())["metrics"] == {"mnist/nll": None}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[: len(text) // 2], "was changed after"),
        (lambda text: text.replace("0.98", "0.99"), "was changed after"),
        (lambda text: "[1, 2]", "is not a sealed line"),
        (lambda text: "", "is not a sealed line"),
        (lambda text: "[" * 100_000, "is not a sealed line"),
    ],
    ids=["truncated", "edited", "foreign", "empty", "nested"],
)
def test_a_damaged_record_is_named_stays_and_is_written_again(tmp_path, caplog, damage, message):
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
    assert store.find(record()) is None
    assert caplog.text.count(str(path)) == 1
    assert path.read_bytes() == damaged
    store.write(record())
    assert store.find(record()) is not None


def test_a_metric_has_its_new_name_when_an_older_record_is_read(tmp_path):
    store = Store(tmp_path)
    path = store.write(record(metrics={"mnist/sure_expected@0.99": 0.5}))
    older = json.loads(path.read_text().replace("sure_expected", "sure_promised"))
    path.write_bytes(seal(older))
    assert b"/sure_promised@" in path.read_bytes()
    assert Store(tmp_path).find(record()).metrics == {"mnist/sure_expected@0.99": 0.5}


def test_a_record_without_numbers_does_not_replace_a_finished_one(tmp_path):
    store = Store(tmp_path)
    done = record()
    failed = structs.replace(done, outcome="failed", reason=message_reason("crashed", ""), metrics={})
    store.write(done)
    store.write(failed)
    assert store.find(done).metrics == done.metrics
    store.write(structs.replace(failed, versions=structs.replace(done.versions, metrics={"brier": 2})))
    assert store.find(done).metrics == done.metrics  # it has no brier: no number of it is of another version
    store.write(structs.replace(failed, versions=structs.replace(done.versions, metrics={"accuracy": 2})))
    assert store.find(done).outcome == "failed"  # the finished one was of other versions


def test_a_written_record_stays_if_others_cannot_be_tidied_away(tmp_path):
    store = Store(tmp_path)
    path = store.record_path(record())
    path.parent.mkdir(parents=True)
    path.with_name(path.name.replace(path.stem[-8:], "deadbeef")).write_text("{}")
    assert store.write(record()) == path
    assert store.find(record()) is not None


def test_scores_that_come_before_their_record_are_not_damaged(tmp_path):
    """`write` stores the scores first. Here the old record is of a failure and has no hash of scores."""
    store = Store(tmp_path)
    failed = record(outcome="failed", reason=message_reason("crashed", ""), metrics={})
    scores = store.write(failed).with_suffix(".npz")
    scores.write_bytes(b"of another process")
    assert not store.has_damaged_scores(failed)
    assert scores.exists()


def test_short_of_memory_a_checkpoint_stays_in_place(tmp_path, monkeypatch):
    store = Store(tmp_path)
    path = store.fit_path("a" * 64, "checkpoint")
    store.write_tensors(path, {"w": torch.ones(3)}, {"epoch": 1})
    for error in (MemoryError(), OSError("Cannot allocate memory (os error 12)"), OSError(errno.EMFILE, "too many")):
        monkeypatch.setattr("bench.core.store.safe_open", lambda *_, error=error, **__: (_ for _ in ()).throw(error))
        with pytest.raises(StoreError, match=r"cannot be read now: .*; try again"):
            store.read_tensors(path)
    monkeypatch.undo()
    assert store.read_tensors(path) is not None


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


@pytest.mark.parametrize("condition", ["device", "precision"])
def test_other_conditions_are_another_trained_run(tmp_path, condition):
    store = Store(tmp_path)
    store.write(record(key="c" * 64, outcome="skipped", reason="no such device", **{condition: "other"}))
    store.write(record(**{condition: "usual"}))
    assert {found.outcome for found in store.all_records()[0]} == {"done", "skipped"}


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_is_not_finite_is_refused_even_if_the_seal_fits(word, tmp_path):
    path = Store(tmp_path).write(record(metrics={"mnist/nll": None}))
    body = b"{" + path.read_bytes().removesuffix(b"\n").split(b",", 1)[1].replace(b":null,", f":{word},".encode(), 1)
    assert word.encode() in body
    path.write_bytes(b'{"sha256":"' + hashlib.sha256(body).hexdigest().encode() + b'",' + body[1:])
    with pytest.raises(StoreError, match="does not have the fields"):
        read_record(path)


def test_scores_come_back_and_damaged_ones_are_told_from_absent_ones(tmp_path):
    store = Store(tmp_path)
    path = store.write(record(), {"mnist/label": np.arange(3)}).with_suffix(".npz")
    kept = store.find(record())
    assert not store.has_damaged_scores(kept)
    assert store.scores(kept)["mnist/label"].tolist() == [0, 1, 2]
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"text"):
        path.write_bytes(damaged)
        assert store.scores(kept) == {}
        assert store.has_damaged_scores(kept)
        assert path.read_bytes() == damaged
    path.unlink()
    assert not store.has_damaged_scores(kept)  # absent, as in a clone
    path.write_bytes(whole)
    assert store.scores(record()) == {}  # of a record that has no hash of them
    assert store.scores(kept)["mnist/label"].tolist() == [0, 1, 2]


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
def test_damaged_tensors_are_named_and_left_out(tmp_path, caplog, position):
    store = Store(tmp_path)
    path = store.fit_path("d" * 64, "checkpoint")
    store.write_tensors(path, {"mu": torch.ones(100)}, {})
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    assert store.read_tensors(path) is None
    assert path.read_bytes() == content
    assert f"checkpoint {path} cannot be used" in caplog.text


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
    line = seal(record())
    assert seal(json.loads(line)) == line
    assert seal(unseal(line, Record, "record", SCHEMA, "")) == line


def test_a_line_begins_with_the_hash_of_the_rest():
    """`printf '{"schema":3}' | sha256sum` gives the hash."""
    hashed = "dff5301227e85f41ec2776b60d699f43920caefa2928d292d6ad4944296005d8"
    assert seal({"schema": 3}) == f'{{"sha256":"{hashed}","schema":3}}\n'.encode()


@pytest.mark.parametrize(
    "damage",
    [lambda content: b"", lambda content: content[:-1], lambda content: content + b"\0", lambda content: b"\xff" * 64],
    ids=["empty", "cut", "longer", "no header"],
)
def test_a_fit_that_has_not_its_length_is_not_kept(tmp_path, damage):
    """So `plan` does not take the training for done, whose posterior `run` cannot read."""
    store, key = Store(tmp_path), "d" * 64
    assert not store.has_fit(key)
    path = store.fit_path(key, "posterior")
    store.write_tensors(path, {"mu": torch.zeros(3)}, {})
    assert store.has_fit(key)
    path.write_bytes(damage(path.read_bytes()))
    assert not store.has_fit(key)
    assert store.read_tensors(path) is None
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    assert not store.has_fit(key)
