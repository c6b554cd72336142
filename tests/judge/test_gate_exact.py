"""The exact checks of the gate, on records with made-up numbers."""

import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from msgspec import structs

from bench.cli import FAILED, INCOMPLETE
from bench.core.store import Store
from bench.judge.gate.config import load_gate
from bench.judge.gate.fresh import AGAIN
from tests.gate_folders import folders, gate_file, numbers, planned_records, reference_folder, write
from tests.judge.test_gate import PUBLISHED, TOY, TOY_SEEDS, change, command, judged, replace
from tests.synthetic import changed, read_record

pytestmark = pytest.mark.usefixtures("loaded_once")


def test_two_seeds_that_agree(tmp_path, capsys):
    path, gate, _, fresh = folders(tmp_path)
    cell = gate.cell("toy_bbb/published/common")
    metrics, _ = numbers(cell, 1000)
    change(fresh, "toy_bbb/*seed1001*", metrics=metrics)
    assert judged(tmp_path, path, capsys)[:2] == (FAILED, {"seeds toy_bbb/published/common": "fail"})


def test_a_repeated_seed_that_differs_in_the_last_bit(tmp_path, capsys):
    path, gate, _, _ = folders(tmp_path)
    value = numbers(gate.cell(PUBLISHED), 0)[0]["mnist/nll"]
    change(Store(tmp_path / "fresh" / AGAIN), "mlp/*", metrics={"mnist/nll": float(np.nextafter(value, 1))})
    assert judged(tmp_path, path, capsys)[:2] == (FAILED, {f"repeat {PUBLISHED}": "fail"})


def test_a_seed_that_was_not_repeated(tmp_path, capsys):
    path, _, _, _ = folders(tmp_path)
    for file in (tmp_path / "fresh" / AGAIN).rglob("*.json"):
        file.unlink()
    assert judged(tmp_path, path, capsys)[:2] == (INCOMPLETE, {f"repeat {PUBLISHED}": "missing"})


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"metrics": {"mnist/nll": 0.123}}, "fail"),
        ({"metrics": {"mnist/nll": 0.123}, "provenance": {"cpu": "another"}}, "not comparable"),
        ({"metrics": {"mnist/nll": 0.123}, "provenance": {"source_sha256": "older"}}, "not comparable"),
        ({}, "pass"),
    ],
)
def test_the_stored_seed_comes_out_again_where_it_can(tmp_path, changes, state, capsys):
    path, _, reference, _ = folders(tmp_path)
    change(reference, "mlp/published__*seed0__*", **changes)
    _, _, found = judged(tmp_path, path, capsys)
    assert {c["state"] for c in found["checks"] if c["name"] == f"as stored {PUBLISHED}"} == {state}


def test_other_data_files(tmp_path, capsys):
    path, _, reference, _ = folders(tmp_path)
    change(reference, "mlp/corrected__*seed3__*", provenance={"data_sha256": {"mnist/train-images": "0" * 64}})
    code, bad, found = judged(tmp_path, path, capsys)
    assert (code, bad) == (FAILED, {"data": "fail"})
    assert "mnist/train-images" in json.dumps(found)


def test_other_training_rows(tmp_path, capsys):
    path, _, _, fresh = folders(tmp_path)
    change(fresh, "mlp/corrected__*seed1001__*", provenance={"train_sha256": "0" * 64})
    name = "rows learnt from, mlp/corrected/common"
    assert judged(tmp_path, path, capsys)[:2] == (FAILED, {name: "fail"})


def test_another_split_than_the_pinned_one(tmp_path, capsys):
    path, _, _, _ = folders(tmp_path)
    path.write_text(path.read_text().replace("test10k = ", f'test10k = "{"0" * 64}"\n"train50k/1" = '))
    code, bad, _ = judged(tmp_path, path, capsys)
    assert code == FAILED
    assert bad == {"split test10k": "fail", "split train50k/1": "fail"}


def test_other_rows_measured(tmp_path, capsys):
    path, gate, _, fresh = folders(tmp_path)
    made = planned_records(gate, gate.cell("mlp/corrected/common"), [1001])[0]
    fresh.write(made, {"mnist/label": np.zeros(40, dtype=np.int8)})
    _, bad, _ = judged(tmp_path, path, capsys)
    assert bad["rows measured"] == "fail"


def test_an_edited_recipe_is_another_plan(tmp_path, capsys):
    path, gate, reference, _ = folders(tmp_path)
    for made in planned_records(gate, gate.cell(PUBLISHED), range(8)):
        old = {**made.recipe_values, "learning_rate": 5e-4}
        reference.record_path(made).unlink()
        write(reference, changed(made, key="0" * 64, fit_key="0" * 64, recipe_values=old))
    code, bad, found = judged(tmp_path, path, capsys)
    assert (code, bad) == (FAILED, {f"plan {PUBLISHED}": "fail"})
    assert "learning_rate was 0.0005, is 0.001" in json.dumps(found)


def test_fresh_records_of_another_plan_do_not_count(tmp_path, capsys):
    path, gate, _, fresh = folders(tmp_path)
    for made in planned_records(gate, gate.cell("toy_bbb/published/common"), [1000, 1001]):
        fresh.record_path(made).unlink()
        write(fresh, changed(made, key="0" * 64))
    assert judged(tmp_path, path, capsys)[:2] == (INCOMPLETE, {TOY: "missing", TOY_SEEDS: "missing"})


ZEROS = {"fraction": 1, "network": "mean", "accuracy": 0.5, "nll": 2.302585}


@pytest.mark.parametrize(
    ("pattern", "changes", "check"),
    [
        ("uniform/*", {"metrics": {"mnist/nll": 2.31}}, "uniform"),
        ("mlp/corrected__*seed1000__*", {"arrays": {"pruning": {"rows": [ZEROS]}}}, "network of zeros"),
    ],
)
def test_closed_forms(tmp_path, pattern, changes, check, capsys):
    path, _, _, fresh = folders(tmp_path)
    change(fresh, pattern, **changes)
    assert judged(tmp_path, path, capsys)[:2] == (FAILED, {check: "fail"})


def test_every_fresh_record_is_pruned_where_the_reference_is(tmp_path, capsys):
    path, _, _, fresh = folders(tmp_path)
    change(fresh, "mlp/corrected__*seed1000__*", arrays={"pruning": {"rows": []}})
    code, bad, found = judged(tmp_path, path, capsys)
    assert (code, bad) == (INCOMPLETE, {"network of zeros": "missing"})
    assert "1 fresh records without pruned network or labels, first mlp/corrected/common, seed 1000" in json.dumps(
        found
    )


def test_an_approach_that_cannot_be_pruned_need_not_be(tmp_path, capsys):
    path, _, reference, fresh = folders(tmp_path)
    for store in (reference, fresh):
        replace(store, "mlp/corrected__*", arrays={})
    code, bad, found = judged(tmp_path, path, capsys)
    assert (code, bad) == (0, {})
    assert "3 networks answer class 0" in json.dumps(found)


def test_a_blind_network_without_its_entropies(tmp_path, capsys):
    path, _, _, fresh = folders(tmp_path)
    replace(fresh, "uniform/*", metrics={"mnist/nll": float(np.log(10))})
    assert judged(tmp_path, path, capsys)[:2] == (INCOMPLETE, {"uniform": "missing"})


UNSEEN = {"rows measured": "missing", "network of zeros": "missing"}  # both look at the labels


def test_every_fresh_record_has_its_per_row_scores(tmp_path, capsys):
    path, _, _, fresh = folders(tmp_path)
    files = sorted(fresh.records.glob("mlp/*seed100*.npz"))
    for file in files[1:]:
        file.unlink()
    code, bad, found = judged(tmp_path, path, capsys)
    assert (len(files), code, bad) == (6, INCOMPLETE, UNSEEN)
    assert "5 of 6 fresh records without its per-row scores, first mlp/published/common, seed 1000" in json.dumps(found)


@pytest.mark.parametrize("labels", [None, np.zeros(0, dtype=np.int8)], ids=["no hash", "no rows"])
def test_per_row_scores_that_say_nothing(tmp_path, labels, capsys):
    path, _, _, fresh = folders(tmp_path)
    (file,) = fresh.records.glob("mlp/corrected__*seed1001__*.json")
    made = read_record(file)
    if labels is None:  # a file beside a record that does not vouch for it
        fresh.write(changed(made, scores_sha256=None))
    else:
        fresh.write(made, {"mnist/label": labels})
    assert judged(tmp_path, path, capsys)[:2] == (INCOMPLETE, UNSEEN)


@pytest.mark.parametrize("hashes", [{}, {"mnist/train-images": "kept"}], ids=["none", "one"])
def test_every_fresh_record_names_its_data_files(tmp_path, hashes, capsys):
    path, _, _, fresh = folders(tmp_path)
    (file,) = fresh.records.glob("toy_bbb/*seed1001__*.json")
    old = read_record(file).provenance
    kept = {name: old.data_sha256[name] for name in hashes}
    replace(fresh, "toy_bbb/*seed1001__*", provenance=structs.replace(old, data_sha256=kept))
    code, bad, found = judged(tmp_path, path, capsys)
    assert (code, bad) == (INCOMPLETE, {"data": "missing"})
    assert "first toy_bbb/published/common, seed 1001" in json.dumps(found)


def test_a_cell_without_fresh_records_passes_no_check(tmp_path, capsys):
    path, _, _, fresh = folders(tmp_path)
    for file in fresh.records.glob("mlp/corrected__*seed100*"):
        file.unlink()
    command(tmp_path, path, "--junit", str(tmp_path / "gate.xml"))
    capsys.readouterr()
    code, bad, _ = judged(tmp_path, path, capsys)
    cell = "mlp/corrected/common"
    names = ["last epoch/mnist/{train}/train_loss", "mnist/nll"]
    wanted = {f"{cell} {name}" for name in names} | {f"rows learnt from, {cell}", f"seeds {cell}"}
    assert (code, bad) == (INCOMPLETE, dict.fromkeys(wanted, "missing"))
    cases = {case.get("name"): case for case in ET.parse(tmp_path / "gate.xml").getroot().findall("testcase")}
    assert cases[f"rows learnt from, {cell}"].find("error") is not None


def test_a_gate_without_fresh_records_passes_no_check_of_them(tmp_path, capsys):
    path = gate_file(tmp_path)
    reference_folder(tmp_path / "reference", load_gate(path))
    (tmp_path / "fresh").mkdir()
    code, _, found = judged(tmp_path, path, capsys)
    assert code == INCOMPLETE
    assert {row["state"] for row in found["metrics"]} == {"missing"}
    passed = {check["name"] for check in found["checks"] if check["state"] == "pass"}
    assert all(name.startswith(("plan ", "split ", "worked example")) for name in passed), passed


def test_a_worked_example_that_is_wrong(tmp_path, monkeypatch, capsys):
    import implementations.worked_example

    true = implementations.worked_example.worked_example()
    monkeypatch.setattr(implementations.worked_example, "worked_example", lambda: {**true, "w": 4.6})
    path, _, _, _ = folders(tmp_path)
    assert judged(tmp_path, path, capsys)[:2] == (FAILED, {"worked example": "fail"})
