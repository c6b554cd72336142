"""A job that goes to another interpreter or machine, and its files that come back."""

import msgspec
import pytest

from bench.core.errors import ConfigError, StoreError
from bench.core.store import Store
from bench.plan.cells import Selection, cells
from bench.run import jobs
from bench.run.options import Options
from bench.run.remote.parcels import deliver, outgoing
from bench.run.runner import run
from tests.run.watching import Recorder, assert_equal, results

SMOKE = cells(Selection(approaches=("mlp",), recipes=("published",), profile="smoke"))


def test_a_job_survives_json():
    chosen = [*SMOKE, *cells(Selection(approaches=("linear_bbb", "mxnet_bbb"), seeds=(0, 3)))]
    for job in (
        jobs.work_job(chosen, Options("results", interpreters={"mlp": "python"})),
        jobs.plan_job(Selection(approaches=("mlp",), seeds=(1, 2), apart=True)),
    ):
        assert jobs.decode_job(msgspec.json.encode(job)) == job


def test_a_job_loses_its_data_folder_if_this_machine_does_not_have_it(tmp_path):
    for folder, kept in ((tmp_path, str(tmp_path)), (tmp_path / "none", None)):
        job = jobs.work_job(SMOKE, Options("results", data_dir=str(folder)))
        assert jobs.decode_job(msgspec.json.encode(job)).options.data_dir == kept


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("harness", "0", "code of the suite"),
        ("approach", "0", "code of the approach"),
        ("data", {}, "manifests of the data sets"),
        ("present", ["mnist", "other"], "data set 'other' is not on"),
    ],
)
def test_a_machine_that_would_give_different_numbers_is_refused(field, value, words):
    found = jobs.here("mlp", None)
    jobs.check(found, found)
    with pytest.raises(ConfigError, match=words):
        jobs.check(msgspec.structs.replace(found, **{field: value}), found)


@pytest.fixture(scope="module")
def inline(tmp_path_factory):
    """Results of an approach, fitted in this process."""
    root = tmp_path_factory.mktemp("inline")
    run(SMOKE, Store(root), Options(str(root), threads=1), Recorder(), "inline")
    return SMOKE, Store(root)


def parcel(store, chosen):
    files = outgoing(store, chosen)
    for cell in chosen:
        path = store.record_path(cell.naming())
        for each in (path, path.with_suffix(".npz")):
            if each.exists():
                files[each.relative_to(store.root).as_posix()] = each.read_bytes()
    return chosen, files


def test_a_posterior_that_cannot_be_trusted_stays_here_and_is_set_aside(inline, tmp_path):
    chosen, store = inline
    target = Store(tmp_path)
    path = target.fit_path(chosen[0].fit_key, "posterior")
    tensors, info = store.read_tensors(store.fit_path(chosen[0].fit_key, "posterior"))
    target.write_tensors(path, tensors, {**info, "fit_key": "0" * 64})
    content = path.read_bytes()
    assert outgoing(target, chosen) == {}
    (kept,) = [each for each in (tmp_path / "quarantine").iterdir() if each.name != "reasons.txt"]
    assert kept.read_bytes() == content


def test_only_the_expected_files_of_a_worker_are_written(inline, tmp_path):
    chosen, store = inline
    group, files = parcel(store, chosen)
    strange = {"../outside": b"x", "/etc/outside": b"x", "records/mlp/other.json": b"{}", "fits/0/posterior": b"x"}
    target = Store(tmp_path / "results")
    assert deliver(target, group, {**files, **strange}).keys() == {cell.key for cell in group}
    assert_equal(results(store), results(target))
    assert len(list(target.root.rglob("*.*"))) == len(files)
    assert not (tmp_path / "outside").exists()


def test_damaged_files_of_a_worker_count_as_absent(inline, tmp_path):
    group, files = parcel(inline[1], inline[0])
    spoilt = {name: content[: len(content) // 2] for name, content in files.items()}
    assert deliver(Store(tmp_path), group, spoilt) == {}
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_without_room_for_a_posterior_the_records_count(inline, tmp_path, monkeypatch, caplog):
    group, files = parcel(inline[1], inline[0])
    monkeypatch.setattr(Store, "write_tensors", lambda *_: (_ for _ in ()).throw(StoreError("no space left")))
    assert deliver(Store(tmp_path), group, files).keys() == {cell.key for cell in group}
    assert "the posterior is not kept: no space left" in caplog.text


def test_a_record_of_another_cell_is_not_taken(inline, tmp_path):
    chosen, store = inline
    (first, second), files = parcel(store, chosen)
    names = [store.record_path(cell.naming()).relative_to(store.root).as_posix() for cell in (first, second)]
    assert deliver(Store(tmp_path), [first], {names[0]: files[names[1]]}) == {}
