"""Entries of other people: a true one is not refused, and each kind of false one is refused with its reason."""

import shutil

import numpy as np
import pytest
from msgspec import structs

from bench.cli import FAILED, INCOMPLETE, USAGE, compare
from bench.cli.main import main
from bench.core.errors import DataMissing, StoreError
from bench.core.store import Store
from bench.data.fingerprint import split_hash
from bench.data.splits import load_split
from bench.judge.compare import verified as checks
from bench.judge.compare.verified import UNSEEN, verified


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder with two seeds of a short fit."""
    root = tmp_path_factory.mktemp("entry")
    command = ["run", "mlp", "--recipe", "corrected", "--protocol", "common", "--profile", "smoke", "--seeds", "2"]
    assert main([*command, "--executor", "inline", "--quiet", "--results", str(root)]) == 0
    return root


@pytest.fixture
def entry(made, tmp_path):
    """Return a store of a copy, its two records and the scores of the first."""
    shutil.copytree(made / "records", tmp_path / "records")
    store = Store(tmp_path)
    records = sorted(store.all_records()[0], key=lambda record: record.seed)
    return store, records, dict(store.scores(records[0]))


def refusals(store):
    return [remark.detail for remark in verified(store.root)[1] if remark.judged == "refused"]


def test_a_true_entry_is_not_refused_and_says_what_nobody_can_see(entry, capsys):
    store, _, _ = entry
    n_records, remarks = verified(store.root)
    assert (n_records, refusals(store)) == (2, [])
    *untold, unseen = (remark.detail for remark in remarks)
    assert unseen == UNSEEN
    assert len(untold) == 2
    assert all(why.startswith("its scores do not bound") and "mean_network/nll" in why for why in untold)
    assert main(["compare", str(store.root), "--verify"]) == 0
    assert "2 records: no contradiction was found in what could be checked" in capsys.readouterr().out


@pytest.mark.parametrize(("metric", "change"), [("accuracy", 0.01), ("ece", -0.02), ("risk_coverage_area", -0.05)])
def test_an_edited_metric_is_refused(entry, capsys, metric, change):
    store, (first, _), scores = entry
    better = first.metrics[f"mnist/{metric}"] + change
    store.write(structs.replace(first, metrics={**first.metrics, f"mnist/{metric}": better}), scores)
    assert any(f"mnist/{metric} is" in why for why in refusals(store))
    assert main(["compare", str(store.root), "--verify"]) == FAILED
    assert "refused" in capsys.readouterr().out


def flat_risk(arrays):
    """No risk at all, but at coverage 1: the column `refused` of two tables comes from this curve."""
    return structs.replace(
        arrays.risk_coverage, risk=[*[0.0] * (len(arrays.risk_coverage.risk) - 1), arrays.risk_coverage.risk[-1]]
    )


def fewer_points(arrays):
    """Every other coverage is moved, so that no score makes its risk."""
    return structs.replace(
        arrays.risk_coverage, coverage=[0.9 * at for at in arrays.risk_coverage.coverage[:-1]] + [1.0]
    )


@pytest.mark.parametrize(
    ("edited", "why"),
    [(flat_risk, "mnist/risk at coverage"), (fewer_points, "not one of the points that the scores make")],
)
def test_an_edited_risk_curve_is_refused(entry, edited, why):
    store, (first, _), scores = entry
    arrays = structs.replace(first.arrays, risk_coverage=edited(first.arrays))
    store.write(structs.replace(first, arrays=arrays), scores)
    assert any(why in one for one in refusals(store))


def test_a_curve_that_contradicts_the_metrics_is_refused_without_scores(entry):
    """Each bin as right as it is confident makes an ECE of 0; risk 0 of all rows makes an accuracy of 1."""
    store, (first, _), _ = entry
    bins, risk = first.arrays.reliability, first.arrays.risk_coverage
    perfect = structs.replace(
        first.arrays,
        reliability=structs.replace(bins, accuracy=bins.confidence),
        risk_coverage=structs.replace(risk, risk=[0.0] * len(risk.risk)),
    )
    store.write(structs.replace(first, arrays=perfect), {})
    found = refusals(store)
    assert any("mnist/ece is" in why and "its curve makes it 0 to 0" in why for why in found)
    assert any("mnist/accuracy is" in why and "its curve makes it 1 to 1" in why for why in found)


def test_other_settings_and_other_epochs_than_the_recipe_has_are_refused(entry):
    store, (first, second), scores = entry
    store.write(structs.replace(first, recipe_values={**first.recipe_values, "learning_rate": 0.5}), scores)
    store.write(structs.replace(second, epochs=[]), store.scores(second))
    found = refusals(store)
    assert "its learning_rate is 0.5, its recipe has 0.001" in found
    assert "it lists 0 epochs, its settings have 1" in found


def test_other_test_rows_are_refused(entry):
    """Labels and answers in another order: the metrics stay the same, but the rows are others."""
    store, (first, _), scores = entry
    order = np.random.default_rng(0).permutation(len(scores["mnist/label"]))
    moved = {name: values[order] if name.startswith("mnist/") and name != "mnist/draws" else values
             for name, values in scores.items()}  # fmt: skip
    store.write(first, moved)
    assert any("the scored rows are not the 128 test rows" in why for why in refusals(store))


@pytest.mark.parametrize("split", ["test10k", "train50k"])
def test_test_rows_and_rows_of_another_split_are_refused(entry, split):
    store, (first, _), scores = entry
    learnt = structs.replace(first.provenance, train_sha256=split_hash(load_split(split, 0)))
    store.write(structs.replace(first, provenance=learnt), scores)
    assert f"it learnt from {split}, its recipe from train60k" in refusals(store)


def copied(first, scores):
    """Yield metrics and scores that are copied from a seed: all metrics, or metrics or rows changed a little."""
    near = {key: value * 0.99999 for key, value in first.metrics.items() if value is not None}
    nudged = {**first.metrics, "mnist/mean_network/nll": first.metrics["mnist/mean_network/nll"] + 1e-9}
    yield first.metrics, scores
    yield nudged, scores
    yield {**first.metrics, **near}, {}
    yield {}, {**scores, "mnist/nll": scores["mnist/nll"] * np.float32(1.00001)}


@pytest.mark.parametrize("kind", range(4))
def test_one_seed_under_two_names_is_refused(entry, kind):
    store, (first, second), scores = entry
    metrics, rows = list(copied(first, scores))[kind]
    store.write(structs.replace(second, metrics={**second.metrics, **metrics}), rows)
    assert "its numbers are those of seed 0: one run is stored under two seeds" in refusals(store)


def test_data_that_are_not_here_are_not_checked(entry, monkeypatch):
    def missing(*_, **__):
        raise DataMissing("data set 'fashion_train' is not there")

    monkeypatch.setattr(checks, "load_split", missing)
    checks._split_hash.cache_clear()
    found = [remark.detail for remark in verified(entry[0].root)[1] if "fashion_train" in remark.detail]
    assert [why.partition(":")[0] for why in found] == 2 * ["from which rows it learnt", "which rows were scored"]
    assert refusals(entry[0]) == []


def test_other_data_and_old_versions_are_refused(entry):
    store, (first, second), scores = entry
    name = next(name for name in first.provenance.data_sha256 if name.startswith("mnist/"))
    data = {**first.provenance.data_sha256, name: "0" * 64}
    store.write(structs.replace(first, provenance=structs.replace(first.provenance, data_sha256=data)), scores)
    store.write(structs.replace(second, versions=structs.replace(second.versions, protocol=1)))
    found = refusals(store)
    assert any("made from other data: mnist/" in why for why in found)
    assert any("protocol had version 1" in why for why in found)


def test_a_record_of_an_unknown_recipe_is_refused_and_the_others_are_judged(entry):
    store, (first, _), scores = entry
    store.write(structs.replace(first, recipe="published+other", key="0" * 64), scores)
    assert [why for why in refusals(store) if "published+other" in why]


def test_scores_that_were_exchanged_are_refused_and_missing_ones_not_checked(entry):
    store, (first, second), _ = entry
    paths = [store.record_path(record).with_suffix(".npz") for record in (first, second)]
    shutil.copy(paths[1], paths[0])
    assert refusals(store) == ["its scores cannot be trusted: quarantine/reasons.txt says why"]
    paths[1].unlink()
    assert refusals(store) == []
    assert sum("no scores of its rows" in remark.detail for remark in verified(store.root)[1]) == 2


def test_a_folder_without_records_is_one_line(tmp_path, capsys):
    assert main(["compare", str(tmp_path), "--verify"]) == USAGE
    assert "no finished record" in capsys.readouterr().err


def test_a_submitted_entry_has_all_that_verifying_needs(entry, tmp_path, capsys):
    store, (first, _), scores = entry
    assert main(["submit", "mlp", "--results", str(store.root), "--to", str(tmp_path / "mine")]) == 0
    assert main(["compare", str(tmp_path / "mine"), "--verify"]) == 0
    assert "no scores" not in capsys.readouterr().out
    assert main(["submit", "mlp", "--results", str(store.root), "--to", str(tmp_path / "mine")]) == USAGE
    assert main(["submit", "uniform", "--results", str(store.root), "--to", str(tmp_path / "other")]) == USAGE
    store.write(structs.replace(first, metrics={**first.metrics, "mnist/nll": 0.01}), scores)
    assert main(["submit", "mlp", "--results", str(store.root), "--to", str(tmp_path / "edited")]) == FAILED
    store.record_path(first).write_text("{")
    assert main(["submit", "mlp", "--results", str(store.root), "--to", str(tmp_path / "rest")]) == INCOMPLETE
    assert "cannot be read" in capsys.readouterr().err


def test_a_submission_that_stops_leaves_nothing(entry, tmp_path, monkeypatch):
    def stops(_):
        raise StoreError("the disk is full")

    command = ["submit", "mlp", "--results", str(entry[0].root), "--to", str(tmp_path / "new" / "mine")]
    with monkeypatch.context() as patched:
        patched.setattr(compare, "verified", stops)
        assert main(command) == USAGE
    assert list((tmp_path / "new").iterdir()) == []
    assert main(command) == 0
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["mine"]
