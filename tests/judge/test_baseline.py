"""The baseline: its stages in order of cost, the committed files, and records of today's plan and data."""

import json
from pathlib import Path

import pytest

from bench.cli import INCOMPLETE
from bench.cli.main import main
from bench.core.project import RESULTS
from bench.data.manifest import data_hashes
from bench.judge.alternatives.named import alternatives
from bench.judge.gate.baseline import STAGES, in_cost_order, trained_runs_of_stage
from bench.judge.gate.config import load_gate
from bench.judge.gate.judge import Folder, key_of
from bench.judge.samples import metrics_of
from bench.plan.costs import CostEstimate
from bench.plan.manifests import DOCUMENTS
from bench.plan.registry import of_group
from bench.plan.trained_runs import Selection, trained_runs

ROOT = Path(__file__).resolve().parents[2]


def stage(name, **changes):
    return trained_runs_of_stage(STAGES[name], Selection(seeds=(), **changes))


def test_stages_have_their_seeds_and_profiles():
    expected = {"epoch1": 8, "full": 5, "ablation": 3, "reports": 20, "alternatives": 5}
    assert list(expected) == list(STAGES)
    for name, n_seeds in expected.items():
        found = stage(name)
        assert {trained_run.profile for trained_run in found} == {"epoch1" if name == "epoch1" else "full"}
        assert {trained_run.seed for trained_run in found} == set(range(n_seeds))
    assert {trained_run.seed for trained_run in trained_runs_of_stage(STAGES["full"], Selection(seeds=(7,)))} == {7}


def test_the_stages_are_all_trained_runs_of_a_run_and_all_single_changes():
    def named(found):
        return {(trained_run.approach, trained_run.recipe, trained_run.protocol) for trained_run in found}

    assert named(stage("full")) == named(trained_runs(Selection())) == named(stage("epoch1"))
    single_changes = named(stage("ablation"))
    assert ("mlp", "published+sigmoid-512", "common") in single_changes
    assert ("dropout_fcn", "published+cross-entropy+shuffle", "common") in single_changes
    assert ("pyro_random_module", "published", "published") in single_changes
    assert not {name for name, _, _ in single_changes} & {"toy_mlp", "toy_bbb", "uniform"}


def test_reports_have_twenty_seeds_and_ten_where_a_seed_takes_long():
    found = stage("reports")
    assert {(trained_run.recipe, trained_run.protocol) for trained_run in found} == {("published", "published")}
    seeds = {
        name: sum(trained_run.approach == name for trained_run in found)
        for name in {trained_run.approach for trained_run in found}
    }
    assert (seeds["mlp"], seeds["toy_bbb"], seeds["dropout_fcn"], seeds["pyro_hidden_layer"]) == (20, 20, 10, 10)
    assert "uniform" not in seeds  # no document reports numbers of it
    asked = trained_runs_of_stage(STAGES["reports"], Selection(seeds=(12,)))
    assert {trained_run.seed for trained_run in asked if trained_run.approach == "dropout_fcn"} == {
        12
    }  # asked for, so not left out


def test_the_alternatives_of_every_report_are_measured_as_it_was():
    found = {(trained_run.approach, trained_run.recipe, trained_run.protocol) for trained_run in stage("alternatives")}
    assert {protocol for _, _, protocol in found} == {"published"}
    for recipe in ("corrected", "published+cross-entropy", "published+shuffle", "published+cross-entropy+shuffle"):
        assert ("dropout_fcn", recipe, "published") in found
    for entry in of_group(DOCUMENTS).values():
        for one in alternatives(entry) if entry.document else ():
            assert (one.approach, one.recipe, "published") in found


def test_a_trained_run_is_in_a_stage_once():
    for name in STAGES:
        keys = [trained_run.key for trained_run in stage(name)]
        assert len(keys) == len(set(keys))


def test_the_cheapest_comes_first_and_a_fit_is_paid_once():
    chosen = trained_runs(Selection(approaches=("mlp", "linear_bbb"), seeds=(0, 1)))
    seconds = {("mlp", "published"): 50.0, ("mlp", "corrected"): 20.0, ("linear_bbb", "published"): 30.0}
    costs = {
        trained_run.key: CostEstimate(seconds.get((trained_run.approach, trained_run.recipe)), 1.0, "made up")
        for trained_run in chosen
    }
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
    assert main(["baseline", "full", "--seeds", "1", "--results", str(tmp_path), "--json"]) == INCOMPLETE
    first, *recipes = json.loads(capsys.readouterr().out)
    assert (first["stage"], first["to do"]) == ("full", 24)
    assert sum(line["to do"] for line in recipes) == 24
    expected = [line["expected_s"] for line in recipes if line["expected_s"] is not None]
    assert expected == sorted(expected)


GATE = load_gate()


@pytest.fixture(scope="module")
def stored():
    return Folder.read(RESULTS, GATE)


@pytest.mark.parametrize("trained_run", GATE.trained_runs, ids=lambda trained_run: trained_run.name)
def test_stored_records_are_those_of_todays_plan_and_data(stored, trained_run):
    records = stored.trained_run(trained_run)
    assert len(records) >= GATE.baseline_seeds
    for record, planned in zip(records, GATE.planned(trained_run, [record.seed for record in records]), strict=True):
        assert planned.skip or record.key == planned.key
        assert record.provenance.data_sha256.items() <= data_hashes().items()


@pytest.mark.parametrize("trained_run", GATE.trained_runs, ids=lambda trained_run: trained_run.name)
def test_no_two_stored_seeds_agree(stored, trained_run):
    """Gated metrics are continuous, so that equality would mean an ignored seed."""
    for metric in trained_run.metrics:
        values = metrics_of(stored.trained_run(trained_run), key_of(trained_run, metric.key)).values
        assert len(values) == len({*values}) >= GATE.baseline_seeds
