"""Records, scores and tensors on disk are sealed, and named and left out if they are damaged. Locks of fits."""

import errno
import hashlib
import json
import os
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from bench.cli.main import main
from bench.core import locks
from bench.core.canonical import canonical, digest, digest_of_json
from bench.core.errors import StoreError
from bench.core.reasons import message_reason
from bench.core.records import SCHEMA, Record
from bench.core.sealed import seal, unseal
from bench.core.store import Store
from tests import synthetic
from tests.core.stores import record
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


def test_records_of_an_older_version_are_one_problem(tmp_path):
    store = Store(tmp_path)
    for seed in range(3):
        path = store.write(record(seed=seed))
        path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 2}, indent=1))
    records, problems = store.all_records()
    assert records == []
    (problem,) = problems
    assert "3 records" in problem.reason
    assert "version 0.1 of this suite reads it" in problem.reason
    assert "`bench run` makes it again" in problem.reason


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


# files that cannot be trusted, and locks


def test_a_record_elsewhere_than_its_name_says_is_not_used(tmp_path):
    """A copy under the name of another seed has the right seal. Only its name shows that it is wrong."""
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
    store.write(record())
    assert store.find(record()) is not None
    path.unlink()
    path.mkdir()
    assert store.find(record()) is None
    with pytest.raises(StoreError, match=r"cannot write .*directory"):
        store.write(record())


def test_a_bomb_among_scores_is_not_unpacked(tmp_path, monkeypatch):
    """The scores unpack to eight megabytes, and one is allowed. Their hash fits."""
    monkeypatch.setattr("bench.core.score_files.LARGEST_SCORES", 1 << 20)
    path = Store(tmp_path).write(record()).with_suffix(".npz")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("a.npy", bytes(8 << 20))
    forged = record(scores_sha256="0" * 64)
    tracemalloc.start()
    try:
        assert Store(tmp_path).scores(forged) == {}
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_a_folder_that_may_not_be_listed_is_named(tmp_path, monkeypatch):
    """It may hold records of other approaches than those that are read."""
    store = Store(tmp_path)
    hidden = store.write(record()).parent
    store.write(record(approach="linear_bbb", key="c" * 64))
    forbid(monkeypatch, hidden)
    records, (problem,) = store.all_records()
    assert [found.approach for found in records] == ["linear_bbb"]
    assert problem.reason == f"the records in {hidden} cannot be read: Permission denied"
    forbid(monkeypatch, store.records)
    assert store.has_records()
    records, (problem,) = store.all_records()
    assert (records, problem.path) == ([], store.records)


def forbid(monkeypatch, folder):
    """Let nobody list a folder; the tests may run as root, who may list every folder."""
    listed = os.listdir

    def refuse(path):
        if Path(path) == folder:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return listed(path)

    monkeypatch.setattr(os, "listdir", refuse)


@pytest.mark.parametrize(
    "words",
    [
        "table accuracy --baseline none --results {}",
        "report --no-figures --baseline none --results {}",
        "verdict --results {}",
        "compare {} {}",
        "audit records --rule unlike-draws --results {}",
    ],
)
def test_commands_name_a_folder_that_may_not_be_listed_and_do_not_exit_with_0(words, tmp_path, monkeypatch, capsys):
    store = Store(tmp_path)
    hidden = store.write(synthetic.record("mlp", metrics={"mnist/test10k/accuracy": 0.98})).parent
    store.write(synthetic.record("linear_bbb", metrics={"mnist/test10k/accuracy": 0.98}))
    forbid(monkeypatch, hidden)
    assert main(words.replace("{}", str(tmp_path)).split()) != 0
    assert "Permission denied" in " ".join("".join(capsys.readouterr()).split())


def test_what_could_not_be_read_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr("bench.core.folder.LARGEST_RECORD", 10_000)
    store = Store(tmp_path)
    with pytest.raises(StoreError, match=r"cannot be written: it has .* bytes; at most 10,000 are read"):
        store.write(record(detail="x" * 20_000))
    with pytest.raises(StoreError, match="cannot be written"):
        store.write(structs.replace(record(), metrics={"x" * 300: 1.5}))
    assert store.all_records() == ([], [])


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
