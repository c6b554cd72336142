"""`compare --verify` computes metrics again from stored scores: a true folder passes, an edited number is named."""

import shutil

import pytest
from msgspec import structs

from bench.cli import FAILED, INCOMPLETE, USAGE
from bench.cli.main import main
from bench.core.store import Store
from tools.archive import main as archive


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder with two seeds of a short fit."""
    root = tmp_path_factory.mktemp("made")
    command = ["run", "mlp", "--recipe", "corrected", "--protocol", "common", "--profile", "smoke", "--seeds", "2"]
    assert main([*command, "--executor", "inline", "--quiet", "--results", str(root)]) == 0
    return root


@pytest.fixture
def copy(made, tmp_path):
    """Return a store of a copy, its two records and the scores of the first."""
    shutil.copytree(made / "records", tmp_path / "records")
    store = Store(tmp_path)
    records = sorted(store.all_records()[0], key=lambda record: record.seed)
    return store, records, dict(store.scores(records[0]))


def verify(store, capsys):
    code = main(["compare", str(store.root), "--verify"])
    return code, capsys.readouterr()


def test_a_true_folder_passes_and_says_what_was_left_out(copy, capsys):
    store, _, _ = copy
    code, found = verify(store, capsys)
    *left_out, counts = found.out.splitlines()
    assert code == 0
    assert left_out[0].startswith("not determined by the scores of every record: ")
    assert "mean_network/nll" in " ".join(left_out)
    assert counts.startswith("2 of 2 finished records have scores; ")
    assert counts.endswith(" computed again, 0 differ")


@pytest.mark.parametrize(
    ("metric", "change"), [("accuracy", 0.01), ("nll", -0.01), ("ece", -0.05), ("risk_coverage_area", -0.05)]
)
def test_an_edited_metric_is_named(copy, capsys, metric, change):
    """Its seal and the hash of its scores fit, as somebody who edits numbers can make them."""
    store, (first, _), scores = copy
    better = first.metrics[f"mnist/{metric}"] + change
    store.write(structs.replace(first, metrics={**first.metrics, f"mnist/{metric}": better}), scores)
    code, found = verify(store, capsys)
    assert code == FAILED
    said = f"mlp corrected x common, seed 0, profile smoke: mnist/{metric} is {better:.6g}, its scores make it "
    assert said in " ".join(found.out.split())


def test_scores_that_the_archive_reduces_are_verified_too(copy, capsys):
    store, (_, second), _ = copy
    assert archive([str(store.root), "--every-seed", "mlp"]) == 0
    capsys.readouterr()
    code, found = verify(Store(store.root), capsys)
    assert code == 0
    assert "2 of 2 finished records have scores" in found.out
    reduced = Store(store.root).find(second)
    wrong = {**reduced.metrics, "mnist/accuracy": reduced.metrics["mnist/accuracy"] + 0.01}
    store.write(structs.replace(reduced, sha256="", metrics=wrong))
    code, found = verify(Store(store.root), capsys)
    assert code == FAILED
    assert "mlp corrected x common, seed 1, profile smoke: mnist/accuracy is " in " ".join(found.out.split())


def test_a_record_without_scores_is_counted_and_a_folder_without_any_fails(copy, capsys):
    store, (first, second), _ = copy
    store.record_path(first).with_suffix(".npz").unlink()
    code, found = verify(store, capsys)
    assert code == 0
    assert "1 of 2 finished records have scores" in found.out
    store.record_path(second).with_suffix(".npz").unlink()
    code, found = verify(store, capsys)
    assert code == USAGE
    assert "none of the 2 finished records" in found.err


def test_a_damaged_record_is_named_and_the_exit_code_says_so(copy, capsys):
    store, (first, _), _ = copy
    store.record_path(first).write_text("{")
    code, found = verify(store, capsys)
    assert code == INCOMPLETE
    assert "is not a sealed line" in found.err
    assert "1 of 1 finished record have scores" in found.out.replace("records", "record")


def test_no_folder_and_no_records_are_one_line(tmp_path, capsys):
    for place, problem in ((tmp_path, "none of the 0 finished records"), (tmp_path / "no", "is not a folder")):
        code, found = verify(Store(place), capsys)
        assert code == USAGE
        (line,) = found.err.splitlines()
        assert problem in line
