"""The stages of the reference: their cells, the order by cost, and which files are committed."""

import json
from pathlib import Path

from bench.cli import INCOMPLETE
from bench.cli.main import main
from bench.judge.alternatives.named import alternatives
from bench.judge.gate.reference import STAGES, cells_of_stage, in_cost_order
from bench.plan.cells import Selection, cells
from bench.plan.costs import CostEstimate
from bench.plan.manifests import DOCUMENTS
from bench.plan.registry import of_group

ROOT = Path(__file__).resolve().parents[2]


def stage(name, **changes):
    return cells_of_stage(STAGES[name], Selection(seeds=(), **changes))


def test_stages_have_their_seeds_and_profiles():
    expected = {"epoch1": 8, "full": 5, "ladder": 3, "reports": 20, "alternatives": 5}
    assert list(expected) == list(STAGES)
    for name, n_seeds in expected.items():
        found = stage(name)
        assert {cell.profile for cell in found} == {"epoch1" if name == "epoch1" else "full"}
        assert {cell.seed for cell in found} == set(range(n_seeds))
    assert {cell.seed for cell in cells_of_stage(STAGES["full"], Selection(seeds=(7,)))} == {7}


def test_the_stages_are_all_cells_of_a_run_and_all_rungs():
    def named(found):
        return {(cell.approach, cell.recipe, cell.protocol) for cell in found}

    assert named(stage("full")) == named(cells(Selection())) == named(stage("epoch1"))
    rungs = named(stage("ladder"))
    assert ("mlp", "published+sigmoid-512", "common") in rungs
    assert ("dropout_fcn", "published+cross-entropy+shuffle", "common") in rungs
    assert ("pyro_random_module", "published", "published") in rungs
    assert not {name for name, _, _ in rungs} & {"toy_mlp", "toy_bbb", "uniform"}


def test_reports_have_twenty_seeds_and_ten_where_a_seed_takes_long():
    found = stage("reports")
    assert {(cell.recipe, cell.protocol) for cell in found} == {("published", "published")}
    seeds = {name: sum(cell.approach == name for cell in found) for name in {cell.approach for cell in found}}
    assert (seeds["mlp"], seeds["toy_bbb"], seeds["dropout_fcn"], seeds["pyro_hidden_layer"]) == (20, 20, 10, 10)
    assert "uniform" not in seeds  # no document reports numbers of it
    asked = cells_of_stage(STAGES["reports"], Selection(seeds=(12,)))
    assert {cell.seed for cell in asked if cell.approach == "dropout_fcn"} == {12}  # asked for, so not left out


def test_the_alternatives_of_every_report_are_measured_as_it_was():
    found = {(cell.approach, cell.recipe, cell.protocol) for cell in stage("alternatives")}
    assert {protocol for _, _, protocol in found} == {"published"}
    for recipe in ("corrected", "published+cross-entropy", "published+shuffle", "published+cross-entropy+shuffle"):
        assert ("dropout_fcn", recipe, "published") in found
    for entry in of_group(DOCUMENTS).values():
        for one in alternatives(entry) if entry.document else ():
            assert (one.approach, one.recipe, "published") in found


def test_a_cell_is_in_a_stage_once():
    for name in STAGES:
        keys = [cell.key for cell in stage(name)]
        assert len(keys) == len(set(keys))


def test_the_cheapest_comes_first_and_a_fit_is_paid_once():
    chosen = cells(Selection(approaches=("mlp", "linear_bbb"), seeds=(0, 1)))
    seconds = {("mlp", "published"): 50.0, ("mlp", "corrected"): 20.0, ("linear_bbb", "published"): 30.0}
    costs = {cell.key: CostEstimate(seconds.get((cell.approach, cell.recipe)), 1.0, "made up") for cell in chosen}
    found = in_cost_order(chosen, costs)
    assert [recipe.title for recipe in found] == [
        "mlp corrected",
        "linear_bbb published",
        "mlp published",
        "linear_bbb corrected",  # of unknown cost
    ]
    # two seeds: 2 x 20 + 2 measurements; 2 x 30 and 2 x 50 with 2 protocols each
    assert [recipe.seconds for recipe in found] == [42, 64, 104, None]


def test_the_command_says_what_is_missing(tmp_path, capsys):
    assert main(["reference", "full", "--seeds", "1", "--results", str(tmp_path), "--json"]) == INCOMPLETE
    first, *recipes = json.loads(capsys.readouterr().out)
    assert (first["stage"], first["to do"]) == ("full", 24)
    assert sum(line["to do"] for line in recipes) == 24
    expected = [line["expected_s"] for line in recipes if line["expected_s"] is not None]
    assert expected == sorted(expected)
