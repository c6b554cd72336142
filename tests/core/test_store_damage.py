"""What is damaged in a folder of results is named and left out; archives count alike, and nothing is lost in them."""

import errno
import os
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from bench.cli.main import main
from bench.core.errors import StoreError
from bench.core.store import Store
from tests import synthetic
from tests.core import SCORES, record
from tools.archive import archive_folder, archive_scores
from tools.archive import main as archive

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


def test_a_record_that_cannot_be_read_is_named_once(tmp_path):
    path = Store(tmp_path).write(record())
    path.unlink()
    path.mkdir()  # a folder in its place: root may read every file
    _, (problem,) = Store(tmp_path).all_records()
    assert problem.reason.count(str(path)) == 1


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


def test_a_file_counts_in_place_of_the_line_of_an_archive_and_damage_to_a_line_is_named(tmp_path):
    store = Store(tmp_path)
    first, second = record(), record(seed=1, key="c" * 64)
    store.write(first, SCORES)
    store.write(second)
    archive_scores(store)
    assert archive_folder(store.folder) == 2
    archived = Store(tmp_path)
    assert not list(tmp_path.rglob("*.json"))
    assert [found.seed for found in archived.all_records()[0]] == [0, 1]
    assert archived.scores(archived.find(first)).keys() == SCORES.keys()
    assert archived.scores(archived.find(second)) == {}
    changed = structs.replace(first, metrics={"mnist/accuracy": 0.5})
    archived.write(changed)
    assert [found.metrics["mnist/accuracy"] for found in Store(tmp_path).all_records()[0]] == [0.5, 0.98]
    (archive,) = tmp_path.glob("records/*.jsonl")
    archive.write_bytes(archive.read_bytes().replace(b"0.98", b"0.99"))
    records, problems = Store(tmp_path).all_records()
    assert [found.metrics["mnist/accuracy"] for found in records] == [0.5]
    assert [problem.reason.partition(" was changed")[0] for problem in problems] == [
        f"record {archive}, line {number}" for number in (1, 2)
    ]


def test_only_the_archives_of_the_approaches_that_are_asked_for_are_read(tmp_path):
    store = Store(tmp_path)
    for approach in ("mlp", "mlp2", "uniform"):
        store.write(record(approach=approach))
    archive_folder(store.folder)
    store.write(record(approach="mlp", seed=1, key="c" * 64))
    (tmp_path / "records" / "uniform.jsonl").write_text("damaged")
    again = Store(tmp_path)
    records, problems = again.records_of(["mlp"])
    assert [(one.approach, one.seed) for one in records] == [("mlp", 0), ("mlp", 1)]
    assert problems == []
    assert again.records_of([]) == ([], [])
    assert len(again.records_of(["mlp2", "uniform", "absent"])[1]) == 1
    assert again.records_of(["mlp"])[1] == []  # nothing about what was read for somebody else


@pytest.mark.parametrize("damaged", ["records/mlp.npz", "records/mlp/SECOND.npz"])
def test_no_scores_are_lost_because_others_are_damaged(tmp_path, damaged):
    store = Store(tmp_path)
    store.write(record(), SCORES)
    archive_scores(store)
    second = store.write(record(recipe="corrected", key="c" * 64), SCORES).with_suffix(".npz")
    broken = tmp_path / damaged.replace("SECOND", second.stem)
    broken.write_bytes(broken.read_bytes()[:-40])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.npz")}
    with pytest.raises(StoreError, match=r"scores of mlp .* are damaged; `python -m bench run` makes them again"):
        archive_scores(store)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.npz")} == before


FULL = {
    **SCORES,
    "mnist/log_others": np.array([-0.5, -40, -np.inf], np.float32),
    "mnist/votes": np.zeros((3, 10), np.uint8),
}


def seeds(store, *numbers):
    """Write records with scores, as runs do, and return them as they are stored."""
    made = [record(seed=number, key=f"{number}" * 64) for number in numbers]
    for one in made:
        store.write(one, FULL)
    return [store.find(one) for one in made]


def test_scores_of_every_seed_are_archived_if_asked_for_and_reduced(tmp_path):
    store = Store(tmp_path)
    first, second = seeds(store, 0, 1)
    older = record(seed=2, key="c" * 64)
    store.write(older, SCORES)
    assert archive([str(tmp_path), "--every-seed", "mlp,uniform"]) == 0
    assert not list(tmp_path.rglob("*seed[01]*"))
    (left,) = (path for path in tmp_path.rglob("*.npz") if path.name != "mlp.npz")
    assert "seed2" in left.name  # it lacks log_others: only a run can make it
    again = Store(tmp_path)
    assert again.scores(again.find(first)).keys() == FULL.keys()
    reduced = again.scores(again.find(second))
    assert reduced.keys() == FULL.keys() - {"mnist/votes", "mnist/max_probability"}
    assert all(np.array_equal(values, FULL[name]) for name, values in reduced.items())
    kept = structs.replace(again.find(second), sha256=second.sha256, scores_sha256=second.scores_sha256)
    assert kept == second
    assert not any(map(again.has_damaged_scores, again.all_records()[0]))


def test_archived_scores_of_a_seed_stay_when_others_follow_and_when_it_is_made_again(tmp_path):
    seeds(Store(tmp_path), 0, 1)
    assert archive([str(tmp_path), "--every-seed", "mlp"]) == 0
    before = (tmp_path / "records" / "mlp.npz").read_bytes()
    assert archive([str(tmp_path)]) == 0
    assert (tmp_path / "records" / "mlp.npz").read_bytes() == before
    made = seeds(Store(tmp_path), 0, 1, 2)
    assert archive([str(tmp_path)]) == 0
    again = Store(tmp_path)
    assert [bool(again.scores(again.find(one))) for one in made] == [True] * 3
    assert [one.name.partition("__seed")[2][:1] for one in tmp_path.rglob("*__*.npz")] == ["2"]  # not asked for
    assert (tmp_path / "records" / "mlp.npz").read_bytes() == before


def test_without_scores_no_archive_is_made_and_an_unknown_approach_is_one_line(tmp_path, capsys):
    (one,) = seeds(Store(tmp_path), 1)
    assert archive([str(tmp_path)]) == 0
    assert [path.name for path in tmp_path.rglob("*.npz")] == [Store(tmp_path).record_path(one).stem + ".npz"]
    capsys.readouterr()
    assert archive([str(tmp_path), "--every-seed", "mpl"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "mpl" in line


def test_files_are_archived_with_the_table_of_their_metrics_or_an_error_is_one_line(tmp_path, capsys):
    assert archive([str(tmp_path / "absent")]) == archive(["--chek"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2
    Store(tmp_path).write(record())
    assert archive([str(tmp_path), "--check"]) == 1
    assert archive([str(tmp_path)]) == archive([str(tmp_path), "--check"]) == 0
    assert (tmp_path / "metrics.csv").read_text().splitlines()[1].endswith(",mnist/accuracy,0.98")
    (path,) = tmp_path.glob("records/*.jsonl")
    path.write_bytes(path.read_bytes()[:-10])
    assert archive([str(tmp_path), "--check"]) == 1
    assert archive([str(tmp_path)]) == 2
