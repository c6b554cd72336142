"""Records that lack a metric or scores of rows: `run` measures these again and leaves all others alone."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec import structs

from bench.cli import INCOMPLETE
from bench.cli.main import main
from bench.core.errors import Diverged
from bench.core.metric_table import metrics
from bench.core.project import RESULTS
from bench.core.reasons import message_reason
from bench.core.row_scores import LOG_OTHERS
from bench.core.store import Store
from bench.plan import freshness
from bench.plan.freshness import in_text, is_stale, lacks
from bench.run import fitting
from bench.run.events import EpochEnded
from bench.run.recording import existing, why_again
from tests.run.toys import go

PROTOCOLS = ("published", "common", "shift")


def smoke(root, **options):
    return go(root, "mlp", **{"seeds": (0,), "recipes": ("published",), "protocols": PROTOCOLS, **options})


@pytest.fixture
def made(tmp_path):
    """Return a folder with the records of one fit by three protocols, and the record of protocol common."""
    results, _ = smoke(tmp_path)
    store = Store(tmp_path)
    return store, existing(results[1].trained_run, store)


def without(record, *keys):
    """Return a record as code wrote it before some of its metrics were declared."""
    kept = {key: value for key, value in record.metrics.items() if key not in keys}
    return structs.replace(record, sha256="", metrics=kept)


def forget(store, record, *keys):
    """Write a record without some of its metrics in its place."""
    assert record.metrics.keys() >= set(keys)
    store.write(without(record, *keys), store.scores(record))


def forget_fit(store, record):
    store.fit_path(record.fit_key, "posterior").unlink()


def test_what_today_s_code_measures_lacks_nothing(made):
    store, _ = made
    records = store.all_records()[0]
    assert sorted(one.protocol for one in records) == sorted(PROTOCOLS)
    assert [lacks(one) for one in records] == [[]] * 3


@pytest.mark.parametrize(("name", "profile"), [("toy_mlp", "smoke"), ("uniform", "smoke_fashion")])
def test_neither_does_a_regression_or_another_task(tmp_path, name, profile):
    results, _ = go(tmp_path, name, seeds=(0,), recipes=("published",), protocols=("common",), profile=profile)
    assert lacks(existing(results[0].trained_run, Store(tmp_path))) == []


def test_a_metric_is_lacking_if_a_data_set_has_neither_its_number_nor_a_reason(made):
    _, record = made
    assert lacks(without(record, "mnist/brier", "mnist/nll")) == ["nll", "brier"]
    assert lacks(without(record, "noise_uniform/sure@0.99")) == ["sure@0.99"]
    assert lacks(without(record, "fashion_mnist/geometric_entropy")) == ["geometric_entropy"]
    assert lacks(without(record, "mnist/mean_network/nll")) == ["mean_network/nll"]
    reason = message_reason("no-data", "it is not there")
    known = structs.replace(record, missing={**record.missing, "mnist/brier": reason})
    assert lacks(without(known, "mnist/brier")) == []
    clothes = [key for key in record.metrics if key.startswith("fashion_mnist/")]
    assert len(lacks(without(record, *clothes))) > 10
    absent = structs.replace(record, missing={**record.missing, "fashion_mnist": reason})
    assert lacks(without(absent, *clothes)) == []


def test_moved_images_lack_an_area_that_no_kind_of_movement_has(made):
    store, _ = made
    (moved,) = (one for one in store.all_records()[0] if one.protocol == "shift")
    assert lacks(without(moved, "mnist/rotated/sure_area@0.99", "mnist/translated/sure_area@0.99")) == ["sure_area"]


def test_what_is_lacking_is_named_and_long_lists_are_cut():
    assert in_text([]) == ""
    assert in_text(["nll"]) == "lacks metric nll"
    assert in_text(["nll", "brier", "ece", "accuracy", "x"]) == "lacks metrics nll, brier, ece, 2 more"


def test_only_the_record_that_lacks_a_metric_is_measured_again_from_the_kept_fit(made):
    store, record = made
    forget(store, record, "mnist/brier")
    results, watcher = smoke(store.root)
    assert [one.was_there for one in results] == [True, False, True]
    assert watcher.of(EpochEnded) == []
    again = Store(store.root).find(record)
    assert again.metrics == record.metrics
    assert again.provenance.measured >= record.provenance.measured
    assert [one.was_there for one in smoke(store.root)[0]] == [True] * 3


def test_without_the_fit_it_is_trained_again_only_if_asked_for(made):
    store, record = made
    forget(store, record, "mnist/brier")
    forget_fit(store, record)
    results, watcher = smoke(store.root)
    assert [one.was_there for one in results] == [True] * 3
    results, watcher = smoke(store.root, lacking=True)
    assert [one.was_there for one in results] == [True, False, True]
    assert len(watcher.of(EpochEnded)) == 1
    assert "mnist/brier" in Store(store.root).find(record).metrics
    assert [one.was_there for one in smoke(store.root, lacking=True)[0]] == [True] * 3


def test_numbers_of_a_data_set_that_is_not_present_now_are_not_given_up_for_a_metric(made, monkeypatch):
    """As of notMNIST, measured on another machine."""
    store, record = made
    elsewhere = {**without(record, "mnist/brier").metrics, "notmnist459/refusal_rate": 0.5}
    lacks_one = structs.replace(record, sha256="", metrics=elsewhere, missing={})
    for present in (False, True):
        row = SimpleNamespace(name="notmnist459", optional=True, present=present)
        monkeypatch.setattr("bench.data.inventory.list_datasets", lambda _, row=row: [row])
        assert why_again(lacks_one, store).startswith("lacks metric") == present
        assert why_again(lacks_one, store, lacking=True).startswith("lacks metric")


def test_a_training_that_fails_leaves_the_record_that_lacked_a_metric(made, monkeypatch):
    def diverged(*_, **__):
        raise Diverged("a planted fault")

    store, record = made
    forget(store, record, "mnist/brier")
    forget_fit(store, record)
    monkeypatch.setattr(fitting, "_train", diverged)
    results, _ = smoke(store.root, lacking=True)
    assert [(one.outcome, one.was_there) for one in results] == [("done", True), ("diverged", False), ("done", True)]
    assert Store(store.root).find(record).metrics == without(record, "mnist/brier").metrics


@pytest.mark.parametrize("stored", [True, False])
def test_rounded_or_lost_scores_of_rows_are_lacking_if_asked_for(made, stored):
    store, record = made
    if stored:
        older = {key: value for key, value in store.scores(record).items() if not key.endswith(LOG_OTHERS)}
        store.write(structs.replace(record, sha256=""), older)
    else:
        store.record_path(record).with_suffix(".npz").unlink()
    record = store.find(record)
    assert why_again(record, store) == ""
    assert why_again(record, store, lacking=True) == "lacks scores of its rows"
    results, watcher = smoke(store.root, lacking=True)
    assert [one.was_there for one in results] == [True, False, True]
    assert watcher.of(EpochEnded) == []
    found = store.scores(Store(store.root).find(record))
    assert found[f"letters/{LOG_OTHERS}"].dtype == found["letters/predictive_entropy"].dtype == np.float32


def test_plan_and_status_say_what_is_lacking_and_what_is_done_about_it(made, capsys):
    """With the fit, it is to do. Without it, only with --lacking."""
    store, record = made
    forget(store, record, "mnist/brier")
    choice = ["mlp", "--recipe", "published", "--profile", "smoke", "--results", str(store.root)]

    def said(command, *more):
        code = main([command, *choice, *more, "--json"])
        found = json.loads(capsys.readouterr().out)
        rows = {row["trained run"]: row for row in (found["trained runs"] if command == "plan" else found)}
        assert len(rows) == 2
        return code, rows[record.title]

    for more, without_fit in ((), False), (("--lacking",), True):
        if without_fit:
            forget_fit(store, record)
        _, planned = said("plan", *more)
        assert (planned["state"], planned["why"]) == ("to do", "lacks metric brier")
        assert (planned["training"] == 0) == (not without_fit)
        code, row = said("status", *more)
        assert (code, row["state"], row["reason"]) == (INCOMPLETE, "done", "lacks metric brier")
    _, planned = said("plan")
    assert (planned["state"], planned["why"]) == ("done", "")
    code, row = said("status")
    assert (code, row["state"]) == (0, "done")
    assert row["reason"] == "lacks metric brier; `run --lacking` trains it again"
    main(["plan", *choice, "--lacking"])
    assert "lacks metric brier" in capsys.readouterr().out


def test_a_new_metric_makes_no_shipped_record_stale(monkeypatch):
    store = Store(RESULTS)
    records = store.records_of(["mlp"])[0]
    fresh = [is_stale(one) for one in records]
    new = dataclasses.replace(metrics()["nll"], name="skill", version=3)
    monkeypatch.setattr(freshness, "metrics", lambda: {**metrics(), "skill": new})
    assert [is_stale(one) for one in records] == fresh
    assert {why_again(one, store) for one in records if not is_stale(one)} == {""}
    common = [one for one in records if one.protocol == "common" and not is_stale(one)]
    assert common
    assert all("skill" in lacks(one) for one in common)
    assert all("lacks metric" in why_again(one, store, lacking=True) for one in common)
