"""Archives of records and scores: what counts, what is read, and that nothing is lost when files move into them."""

import pytest
from msgspec import structs

from bench.core.errors import StoreError
from bench.core.store import Store
from tests.core.stores import SCORES, record
from tools.archive import archive_folder, archive_scores
from tools.archive import main as archive


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
    with pytest.raises(StoreError, match=r"scores of mlp .* are damaged; `bench run` makes them again"):
        archive_scores(store)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.npz")} == before


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
