"""The exact checks of the gate, on made-up records: each planted fault fails its own check and no other."""

import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from msgspec import structs

import implementations.worked_example
from bench.cli import FAILED, INCOMPLETE
from bench.core.store import Store
from bench.judge.gate.config import load_gate
from bench.judge.gate.fresh import AGAIN
from tests.gate_folders import folders, gate_file, numbers, planned_records, reference_folder, write
from tests.judge.test_gate import LOSS, PUBLISHED, TOY, TOY_CELL, TOY_SEEDS, change, command, judged, replace
from tests.synthetic import changed, read_record

pytestmark = pytest.mark.usefixtures("loaded_once")

CORRECTED = "mlp/corrected/common"
ZEROS = {"fraction": 1, "network": "mean", "accuracy": 0.5, "nll": 2.302585}
WITHOUT_LABELS = {"rows measured": "missing", "network of zeros": "missing"}  # both checks need the labels


def changes(where, pattern, **fields):
    """Return a fault that changes fields of the records of one of the folders."""
    return lambda given: change(getattr(given, where), pattern, **fields)


def two_seeds_agree(given):
    change(given.fresh, "toy_bbb/*seed1001*", metrics=numbers(given.gate.cell(TOY_CELL), 1000)[0])


def a_repeated_seed_differs_in_the_last_bit(given):
    value = numbers(given.gate.cell(PUBLISHED), 0)[0]["mnist/nll"]
    change(Store(given.fresh.root / AGAIN), "mlp/*", metrics={"mnist/nll": float(np.nextafter(value, 1))})


def no_seed_is_repeated(given):
    for file in (given.fresh.root / AGAIN).rglob("*.json"):
        file.unlink()


def splits_are_not_those_pinned(given):
    text = given.path.read_text()
    given.path.write_text(text.replace("test10k = ", f'test10k = "{"0" * 64}"\n"train50k/1" = '))


def the_reference_had_another_recipe(given):
    for made in planned_records(given.gate, given.gate.cell(PUBLISHED), range(8)):
        old = {**made.recipe_values, "learning_rate": 5e-4}
        given.reference.record_path(made).unlink()
        write(given.reference, changed(made, key="0" * 64, fit_key="0" * 64, recipe_values=old))


def fresh_records_are_of_another_plan(given):
    for made in planned_records(given.gate, given.gate.cell(TOY_CELL), [1000, 1001]):
        given.fresh.record_path(made).unlink()
        write(given.fresh, changed(made, key="0" * 64))


def the_approach_cannot_be_pruned(given):
    for store in (given.reference, given.fresh):
        replace(store, "mlp/corrected__*", arrays={})


def the_blind_network_has_no_entropies(given):
    replace(given.fresh, "uniform/*", metrics={"mnist/nll": float(np.log(10))})


def records_lack_their_scores(given):
    _, *others = sorted(given.fresh.records.glob("mlp/*seed100*.npz"))
    assert len(others) == 5
    for file in others:
        file.unlink()


def a_record_has_no_hash_of_its_scores(given):
    (file,) = given.fresh.records.glob("mlp/corrected__*seed1001__*.json")
    given.fresh.write(changed(read_record(file), scores_sha256=None))


def scores_have_no_rows(given):
    (file,) = given.fresh.records.glob("mlp/corrected__*seed1001__*.json")
    given.fresh.write(read_record(file), {"mnist/label": np.zeros(0, dtype=np.int8)})


def names_data(*kept):
    """Return a fault: a fresh record names these data files only."""

    def fault(given):
        (file,) = given.fresh.records.glob("toy_bbb/*seed1001__*.json")
        old = read_record(file).provenance
        named = structs.replace(old, data_sha256={name: old.data_sha256[name] for name in kept})
        replace(given.fresh, "toy_bbb/*seed1001__*", provenance=named)

    return fault


OTHER_DATA = changes("reference", "mlp/corrected__*seed3__*", provenance={"data_sha256": {"mnist/train-images": "0"}})
OTHER_ROWS = changes("fresh", "mlp/corrected__*seed1001__*", provenance={"train_sha256": "0" * 64})
NOT_BLIND = changes("fresh", "uniform/*", metrics={"mnist/nll": 2.31})
NOT_ZERO = changes("fresh", "mlp/corrected__*seed1000__*", arrays={"pruning": {"rows": [ZEROS]}})
NOT_PRUNED = changes("fresh", "mlp/corrected__*seed1000__*", arrays={"pruning": {"rows": []}})


@pytest.mark.parametrize(
    ("fault", "code", "bad", "words"),
    [
        (two_seeds_agree, FAILED, {TOY_SEEDS: "fail"}, ""),
        (a_repeated_seed_differs_in_the_last_bit, FAILED, {f"repeat {PUBLISHED}": "fail"}, ""),
        (no_seed_is_repeated, INCOMPLETE, {f"repeat {PUBLISHED}": "missing"}, ""),
        (OTHER_DATA, FAILED, {"data": "fail"}, "mnist/train-images"),
        (OTHER_ROWS, FAILED, {f"rows learnt from, {CORRECTED}": "fail"}, ""),
        (splits_are_not_those_pinned, FAILED, {"split test10k": "fail", "split train50k/1": "fail"}, ""),
        (the_reference_had_another_recipe, FAILED, {f"plan {PUBLISHED}": "fail"}, "learning_rate was 0.0005, is 0.001"),
        (fresh_records_are_of_another_plan, INCOMPLETE, {TOY: "missing", TOY_SEEDS: "missing"}, ""),
        (NOT_BLIND, FAILED, {"uniform": "fail"}, ""),
        (NOT_ZERO, FAILED, {"network of zeros": "fail"}, ""),
        (
            NOT_PRUNED,
            INCOMPLETE,
            {"network of zeros": "missing"},
            f"1 fresh records without pruned network or labels, first {CORRECTED}, seed 1000",
        ),
        (the_approach_cannot_be_pruned, 0, {}, "3 networks answer class 0"),
        (the_blind_network_has_no_entropies, INCOMPLETE, {"uniform": "missing"}, ""),
        (
            records_lack_their_scores,
            INCOMPLETE,
            WITHOUT_LABELS,
            f"5 of 6 fresh records lack their per-row scores; the first is {PUBLISHED}, seed 1000",
        ),
        (a_record_has_no_hash_of_its_scores, INCOMPLETE, WITHOUT_LABELS, ""),
        (scores_have_no_rows, INCOMPLETE, WITHOUT_LABELS, ""),
        (names_data(), INCOMPLETE, {"data": "missing"}, f"the first is {TOY_CELL}, seed 1001"),
        (names_data("mnist/train-images"), INCOMPLETE, {"data": "missing"}, f"the first is {TOY_CELL}, seed 1001"),
    ],
)
def test_a_fault_has_its_check_and_no_other(tmp_path, fault, code, bad, words, capsys):
    given = folders(tmp_path)
    fault(given)
    *said, found = judged(tmp_path, given.path, capsys)
    assert said == [code, bad]
    assert words in json.dumps(found)


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"metrics": {"mnist/nll": 0.123}}, "fail"),
        ({"metrics": {"mnist/nll": 0.123}, "provenance": {"cpu": "another"}}, "not comparable"),
        ({"metrics": {"mnist/nll": 0.123}, "provenance": {"source_sha256": "older"}}, "not comparable"),
        ({}, "pass"),
    ],
)
def test_the_stored_seed_comes_out_again_where_it_can(tmp_path, fields, state, capsys):
    path, _, reference, _ = folders(tmp_path)
    change(reference, "mlp/published__*seed0__*", **fields)
    _, _, found = judged(tmp_path, path, capsys)
    assert {c["state"] for c in found["checks"] if c["name"] == f"as stored {PUBLISHED}"} == {state}


def test_other_rows_measured(tmp_path, capsys):
    path, gate, _, fresh = folders(tmp_path)
    made = planned_records(gate, gate.cell(CORRECTED), [1001])[0]
    fresh.write(made, {"mnist/label": np.zeros(40, dtype=np.int8)})
    _, bad, _ = judged(tmp_path, path, capsys)
    assert bad["rows measured"] == "fail"


def test_a_cell_without_fresh_records_passes_no_check(tmp_path, capsys):
    path, _, _, fresh = folders(tmp_path)
    for file in fresh.records.glob("mlp/corrected__*seed100*"):
        file.unlink()
    command(tmp_path, path, "--junit", str(tmp_path / "gate.xml"))
    capsys.readouterr()
    code, bad, _ = judged(tmp_path, path, capsys)
    rows, own = f"rows learnt from, {CORRECTED}", [f"{CORRECTED} {name}" for name in (LOSS, "mnist/nll")]
    assert (code, bad) == (INCOMPLETE, dict.fromkeys([*own, rows, f"seeds {CORRECTED}"], "missing"))
    cases = {case.get("name"): case for case in ET.parse(tmp_path / "gate.xml").getroot().findall("testcase")}
    assert cases[rows].find("error") is not None


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
    true = implementations.worked_example.worked_example()
    monkeypatch.setattr(implementations.worked_example, "worked_example", lambda: {**true, "w": 4.6})
    path, _, _, _ = folders(tmp_path)
    assert judged(tmp_path, path, capsys)[:2] == (FAILED, {"worked example": "fail"})
