"""The baseline: its stages in order of cost, the committed files, and records of today's plan and data.

The gate's command around a fresh run: what it checks before, and the advice that it gives after its report.
"""

import json
import re
import shutil
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from bench.cli import FAILED, INCOMPLETE, USAGE
from bench.cli.main import main
from bench.core.errors import StoreError
from bench.core.project import RESULTS
from bench.core.store import Store
from bench.data.manifest import data_hashes
from bench.judge.alternatives.named import alternatives
from bench.judge.gate.baseline import STAGES, in_cost_order, trained_runs_of_stage
from bench.judge.gate.config import MORE, load_gate
from bench.judge.gate.judge import Folder, key_of
from bench.judge.samples import metrics_of
from bench.plan.costs import CostEstimate
from bench.plan.manifests import DOCUMENTS
from bench.plan.registry import of_group
from bench.plan.trained_runs import Selection, trained_runs
from tests.gate_folders import folders, fresh_folder, planned_records, write
from tests.judge.test_gate import PUBLISHED, TOY_TRAINED_RUN
from tests.judge.test_gate_config import UNOFFERED, WITH_MEAN, replace, words_of

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


def never(*_, **__):
    raise AssertionError("the fresh run began")


def shifted_at_first(monkeypatch):
    """Replace the fresh run: the first is shifted, and the later ones are not. Return their numbers of seeds."""
    made = []

    def train(gate, root, *_, **__):
        made.append({one.name: len(gate.seeds_of(one)) for one in gate.trained_runs})
        fresh_folder(root, gate, shift=0.2 if len(made) == 1 else 0.0)

    monkeypatch.setattr("bench.cli.gate.run_fresh", train)
    return made


@pytest.mark.parametrize("repeated", [True, False])
def test_a_failure_that_is_probably_chance_names_the_command_that_decides(tmp_path, repeated, monkeypatch, capsys):
    path, _, baseline, _ = folders(tmp_path)
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    made = shifted_at_first(monkeypatch)
    monkeypatch.setattr("bench.cli.gate.repeats", lambda gate, names, *_: repeated and [*names] == [PUBLISHED])
    summary = tmp_path / "summary.md"
    words = ["gate", "--gate", str(path), "--baseline", str(baseline.root), "--summary", str(summary)]
    assert main(words) == FAILED
    told = " ".join(capsys.readouterr().out.split())
    assert ("probably chance" in told) == ("probably chance" in summary.read_text()) == repeated
    assert "at most 5% of first runs" in told
    assert repeated or not [*temporary.iterdir()]
    if repeated:
        again = words_of(re.search(r"(?<=: )python -m bench gate --more .*", told)[0])
        (kept,) = temporary.iterdir()
        assert str(kept) in again
        assert Store(kept).has_records()
        assert main(again) == 0
        told = " ".join(capsys.readouterr().out.split())
        assert "second look, after a failed first run" in told
        assert "of first runs" not in told
        assert made[1] == {name: seeds + MORE for name, seeds in made[0].items()}


def test_advice_is_no_part_of_the_json(tmp_path, monkeypatch, capsys):
    path, _, baseline, _ = folders(tmp_path)
    shifted_at_first(monkeypatch)
    monkeypatch.setattr("bench.cli.gate.repeats", lambda *_: True)
    assert main(["gate", "--gate", str(path), "--baseline", str(baseline.root), "--json"]) == FAILED
    answer = capsys.readouterr()
    assert not json.loads(answer.out)["passed"]
    assert "probably chance" in answer.err


@pytest.mark.parametrize("error", [StoreError("cannot write x"), OSError("disk full"), KeyboardInterrupt()])
def test_the_report_is_there_whatever_happens_to_the_advice(tmp_path, error, monkeypatch, capsys):
    def fails(*_):
        raise error

    path, _, baseline, _ = folders(tmp_path)
    shifted_at_first(monkeypatch)
    monkeypatch.setattr("bench.cli.gate.repeats", fails)
    junit = tmp_path / "gate.xml"
    code = main(["gate", "--gate", str(path), "--baseline", str(baseline.root), "--junit", str(junit)])
    answer = capsys.readouterr()
    assert "gate NOT PASSED" in answer.out
    assert ET.parse(junit).getroot().get("failures") == "2"
    if isinstance(error, Exception):
        assert code == FAILED
        assert answer.out.splitlines()[-1] == f"no advice on whether this is chance: {error}"


def lose_seed(gate, baseline):
    next(baseline.records.glob("toy_bbb/*seed7__*")).unlink()


def cut_seed(gate, baseline):
    next(baseline.records.glob("toy_bbb/*seed7__*")).write_text("{")


def lose_approach(gate, baseline):
    shutil.rmtree(baseline.records / "toy_bbb")


def share_seed(gate, baseline):
    write(baseline, *planned_records(gate, gate.trained_run(TOY_TRAINED_RUN), [1003]))


@pytest.mark.parametrize(
    ("change", "more", "message"),
    [
        (lose_seed, [], f"the baseline has 7 of 8 seeds (of {TOY_TRAINED_RUN})"),
        (cut_seed, [], "seed7__"),
        (lose_approach, [], f"no baseline records (of {TOY_TRAINED_RUN})"),
        (share_seed, ["--more"], f"fresh seeds that the baseline lacks (of {TOY_TRAINED_RUN})"),
    ],
)
def test_a_baseline_that_does_not_fit_is_told_before_the_run(tmp_path, change, more, message, monkeypatch, capsys):
    path, gate, baseline, _ = folders(tmp_path)
    change(gate, baseline)
    monkeypatch.setattr("bench.cli.gate.run_fresh", never)
    assert main(["gate", "--gate", str(path), "--baseline", str(baseline.root), *more]) == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_more_seeds_need_the_folder_of_the_first(tmp_path, monkeypatch, capsys):
    path, _, baseline, _ = folders(tmp_path)
    monkeypatch.setattr("bench.cli.gate.run_fresh", never)
    assert main(["gate", "--gate", str(path), "--baseline", str(baseline.root), "--more"]) == USAGE
    assert "give the folder of the first seeds" in capsys.readouterr().err


def test_a_baseline_of_another_profile_is_told_before_the_run(tmp_path, monkeypatch, capsys):
    path, _, baseline, _ = folders(tmp_path)
    path.write_text(path.read_text().replace('profile = "epoch1"', 'profile = "smoke"'))
    monkeypatch.setattr("bench.cli.gate.run_fresh", never)
    assert main(["gate", "--gate", str(path), "--baseline", str(baseline.root)]) == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert "(profile smoke, device cpu, precision float32): no baseline records (of every trained run)" in line


def test_a_number_that_the_method_does_not_have_does_not_stop_the_run(tmp_path, monkeypatch):
    path, _, baseline, _ = folders(tmp_path, **WITH_MEAN)
    replace(baseline, "mlp/*", missing=UNOFFERED)
    monkeypatch.setattr("bench.cli.gate.run_fresh", never)
    with pytest.raises(AssertionError, match="the fresh run began"):
        main(["gate", "--gate", str(path), "--baseline", str(baseline.root)])


def test_a_device_that_is_not_there_is_told_before_the_run(tmp_path, monkeypatch, capsys):
    path, _, baseline, _ = folders(tmp_path)
    path.write_text(path.read_text().replace('device = "cpu"', 'device = "cuda:9999"'))
    monkeypatch.setattr("bench.cli.gate.run_fresh", never)
    assert main(["gate", "--gate", str(path), "--baseline", str(baseline.root)]) == USAGE
    assert "device 'cuda:9999' is not there" in capsys.readouterr().err
