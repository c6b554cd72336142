"""Selections, keys, manifests and recipes."""

import dataclasses

import pytest
from msgspec import structs

from bench.core.errors import ConfigError, MissingFramework
from bench.core.reasons import Reason
from bench.plan.costs import estimate
from bench.plan.manifests import read_manifest
from bench.plan.recipes import PROFILES, build, recipe_names, resolve
from bench.plan.registry import load_class, manifest, manifests
from bench.plan.trained_runs import USUAL_PROTOCOLS, USUAL_TRAINED_RUNS, Selection, trained_runs
from tests.synthetic import record

DOCUMENTED = [name for name, entry in manifests().items() if entry.document and entry.group == "documents"]


def runnable(name):
    try:
        load_class(name)
    except MissingFramework:
        return False
    return True


def test_the_three_trained_runs_and_the_variants_are_planned():
    planned = {
        (trained_run.approach, trained_run.recipe, trained_run.protocol) for trained_run in trained_runs(Selection())
    }
    for name in DOCUMENTED:
        for recipe, protocol in USUAL_TRAINED_RUNS:
            assert ((name, recipe, protocol) in planned) == (recipe in manifest(name).recipes)
    assert ("mxnet_bbb", "published+scale-mixture", "common") in planned
    assert ("uniform", "published", "common") in planned
    assert ("uniform", "published", "published") not in planned


def test_shift_measures_what_is_measured_alike_and_only_where_it_is_named():
    """It measures the fits of protocol common, except those of toys, which have no images."""
    shifted = {trained_run.approach: trained_run for trained_run in trained_runs(Selection(protocols=("shift",)))}
    alike = {trained_run.approach for trained_run in trained_runs(Selection(protocols=("common",)))}
    assert alike - set(shifted) == {"toy_mlp", "toy_bbb"}
    common, shift = trained_runs(Selection(approaches=("mlp",), recipes=("corrected",), protocols=("common", "shift")))
    assert (common.protocol, shift.protocol) == ("common", "shift")
    assert common.fit_key == shift.fit_key
    assert common.key != shift.key
    unnamed = trained_runs(Selection(approaches=("mlp",), recipes=("corrected",)))
    assert {trained_run.protocol for trained_run in unnamed} == set(USUAL_PROTOCOLS)


def test_all_is_the_group_of_the_documents_and_leaves_other_groups_out(monkeypatch):
    monkeypatch.setitem(manifests(), "mlp", structs.replace(manifest("mlp"), group="paper"))
    assert "mlp" not in {trained_run.approach for trained_run in trained_runs(Selection())}
    found = {trained_run.approach for trained_run in trained_runs(Selection(group="paper"))}
    assert "mlp" in found
    assert "linear_bbb" not in found
    assert {trained_run.approach for trained_run in trained_runs(Selection(approaches=("mlp", "linear_bbb")))} == {
        "mlp",
        "linear_bbb",
    }
    with pytest.raises(ConfigError, match=r"unknown group 'papers'; .*did you mean 'paper'"):
        trained_runs(Selection(group="papers"))


@pytest.mark.parametrize("name", [name for name in manifests() if runnable(name)])
def test_keys_tell_apart_whatever_changes_a_number(name):
    keys = [
        trained_run.key for seed in (0, 1) for trained_run in trained_runs(Selection(approaches=(name,), seeds=(seed,)))
    ]
    keys += [trained_run.key for trained_run in trained_runs(Selection(approaches=(name,), profile="smoke"))]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("name", [name for name in manifests() if runnable(name)])
def test_every_recipe_builds_and_changes_something(name):
    entry = manifest(name)
    published = build(entry, resolve(entry, "published"), PROFILES["full"])
    for recipe in recipe_names(entry):
        resolved = resolve(entry, recipe)
        same = (build(entry, resolved, PROFILES["full"]), resolved.split) == (
            published,
            entry.recipes["published"].split,
        )
        assert same == (recipe == "published")


def test_a_single_correction_is_part_of_corrected():
    entry = manifest("linear_bbb")
    corrected = resolve(entry, "corrected")
    assert set(corrected.changes) == {"attached-mu", "prior-variance"}
    for change in corrected.changes:
        single = resolve(entry, f"published+{change}")
        assert single.changes == (change,)
        assert single.values.items() <= corrected.values.items()


def test_a_missing_framework_changes_no_key(monkeypatch):
    before = trained_runs(Selection(approaches=("toy_mlp",)))
    entry = structs.replace(manifest("toy_mlp"), requires=("not_there",))
    monkeypatch.setitem(manifests(), "toy_mlp", entry)
    without = trained_runs(Selection(approaches=("toy_mlp",)))
    assert [(trained_run.key, trained_run.values) for trained_run in without] == [
        (trained_run.key, trained_run.values) for trained_run in before
    ]
    assert {trained_run.skip.kind for trained_run in without} == {"no-framework"}


def test_profiles_shorten_but_never_lengthen():
    entry = manifest("mlp")
    approach = build(entry, resolve(entry, "published"), PROFILES["epoch1"])
    assert approach.epochs == 1
    assert dataclasses.replace(approach, epochs=10) == build(entry, resolve(entry, "published"), PROFILES["full"])


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection(approaches=("mlp",), recipes=("published+lr-decy",)), "did you mean 'lr-decay'"),
        (Selection(approaches=("mlp",), recipes=("published+lr-decay+lr-decay",)), "twice"),
        (Selection(approaches=("mlp",), seeds=(-1,)), "negative"),
        (Selection(approaches=("uniform",), protocols=("published",)), "no trained run"),
    ],
)
def test_nonsense_is_one_line(selection, message):
    with pytest.raises(ConfigError, match=message) as caught:
        trained_runs(selection)
    assert "\n" not in str(caught.value)


def test_a_recipe_with_an_unknown_correction_is_refused(tmp_path):
    path = tmp_path / "broken.toml"
    text = 'title="x"\nclass="X"\ntask="mnist"\nnoise="row"\n[recipes.published]\nsplit="train60k"\ncorrections=["a"]'
    path.write_text(text)
    with pytest.raises(ConfigError, match="unknown correction"):
        read_manifest(path)


MLP = trained_runs(Selection(approaches=("mlp",), recipes=("published",), protocols=("common",)))[0]


def measured(fit_s=3.0, measure_s=7.0, valid=True, provenance=None, **changes):
    """Return a record of one epoch in `fit_s` seconds."""
    fields = {
        "approach": "mlp",
        "protocol": "common",
        "seed": 5,
        "timings": {"epoch_with_measuring_s": fit_s, "measure_s": measure_s, "valid": valid},
        "provenance": {"cpu": "x", **(provenance or {})},
        **changes,
    }
    return record(**fields)


def test_an_estimate_learns_from_records_of_other_seeds():
    assert estimate(MLP, []).fit_s is None
    found = estimate(MLP, [measured()])
    assert found.fit_s == 3.0 * MLP.values["epochs"]
    assert found.measure_s == 7.0
    assert found.basis == "1 record on x"
    assert estimate(MLP, [measured(90.0, profile="unheard-of"), measured()]) == found


def test_of_two_records_one_that_had_to_wait_does_not_count():
    """Of two times the shorter, of three the middle."""
    assert estimate(MLP, [measured(), measured(measure_s=3682.0)]).measure_s == 7.0
    assert estimate(MLP, [measured(), measured(measure_s=3682.0), measured(measure_s=8.0)]).measure_s == 8.0


@pytest.mark.parametrize(
    "worse",
    [
        measured(90.0, 90.0, valid=False),
        measured(90.0, 90.0, versions={"recipe": {"published": 7}, "protocol": 2}),
        measured(90.0, 90.0, recipe="corrected"),
    ],
    ids=["does not count", "other versions", "other recipe"],
)
def test_a_worse_record_is_used_only_where_there_is_none_better(worse):
    best = estimate(MLP, [worse, measured()])
    assert (best.fit_s, best.measure_s) == (3.0 * MLP.values["epochs"], 7.0)
    alone = estimate(MLP, [worse])
    assert (alone.fit_s, alone.measure_s) == (90.0 * MLP.values["epochs"], 90.0)
    assert alone.basis != best.basis


def test_another_length_device_or_precision_says_nothing():
    for change in ({"profile": "smoke"}, {"device": "cuda"}, {"precision": "bf16"}, {"outcome": "failed"}):
        assert estimate(MLP, [measured(**change)]).fit_s is None
    assert estimate(MLP, [measured(profile="epoch1")]).fit_s == 3.0 * MLP.values["epochs"]


def test_an_estimate_is_scaled_by_the_speed_of_the_machine():
    """Made at 300 Gflop/s, to be run at 100: three times as long."""
    known = measured(provenance={"matmul_rate": 3e11})
    assert estimate(MLP, [known], rate=1e11).fit_s == pytest.approx(9.0 * MLP.values["epochs"])
    assert estimate(MLP, [known], rate=1e11).measure_s == pytest.approx(21.0)
    assert "times 3.00 for this machine's speed" in estimate(MLP, [known], rate=1e11).basis
    assert estimate(MLP, [measured()], rate=1e11).measure_s == 7.0  # a record that does not know its rate


def test_the_speed_of_a_machine_with_other_load_is_believed_within_bounds():
    """Made where products took a hundred times as long as here: a third of the time is expected, not a hundredth."""
    reasons = [Reason("seeds-together", {"n": 1}), Reason("other-load")]
    busy = {"timings": structs.replace(measured().timings, valid=False, reasons=reasons)}
    for rate, factor in [(1e9, 1 / 3), (0.5e11, 0.5), (1e12, 3.0)]:
        known = measured(provenance={"matmul_rate": rate}, **busy)
        assert estimate(MLP, [known], rate=1e11).measure_s == pytest.approx(7.0 * factor)
    quiet = measured(provenance={"matmul_rate": 1e9})
    assert estimate(MLP, [quiet], rate=1e11).measure_s == pytest.approx(0.07)


def test_what_trains_nothing_costs_nothing_to_train():
    trained_run = trained_runs(Selection(approaches=("uniform",)))[0]
    found = estimate(trained_run, [measured(None, 2.0, approach="uniform")])
    assert (found.fit_s, found.measure_s) == (0.0, 2.0)


def test_a_record_names_the_kind_of_device_and_not_its_number():
    trained_run = dataclasses.replace(MLP, device="cuda:1")
    assert trained_run.naming().device == "cuda"
