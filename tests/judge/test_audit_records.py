"""The rules for records and data sets: planted faults are seen, and what is right passes.

`compare --verify` computes metrics again from stored scores: a true folder passes, an edited number is named."""

import json
import math
import shutil

import msgspec
import numpy as np
import pytest
import torch
from msgspec import structs

from bench.cli import FAILED, INCOMPLETE, USAGE
from bench.cli.main import main
from bench.core.store import Store
from bench.interface import Split
from bench.judge.audit.data import audit_data, classes, image_keys, pixel_range, shared_rows
from bench.judge.audit.records import audit_records
from tests.show.conftest import linear_bbb, put
from tests.synthetic import changed, read_record, record
from tools.archive import main as archive


def draws():
    source = np.random.default_rng(0)
    logits = source.normal(scale=3, size=(50, 6, 10))
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def entropy(p):
    return -(p * np.log(p)).sum(-1)


def scores(mean=None, log_probs=None):
    log_probs = draws() if log_probs is None else log_probs
    p = np.exp(log_probs).mean(0) if mean is None else mean
    return {
        "mnist/draws": log_probs.astype(np.float16),
        "mnist/predictive_entropy": entropy(p).astype(np.float16),
        "mnist/max_probability": p.max(-1).astype(np.float16),
        **dict.fromkeys(("mnist/label", "mnist/predicted"), np.zeros(len(p), np.int8)),
    }


def outcomes(tmp_path, stored, **changes):
    store = Store(tmp_path)
    made = record("mlp", protocol="common", **changes)
    made = read_record(store.write(made, stored))
    return {rule: finding.outcome for rule, finding in audited(store, made).items()}


def audited(store, *records):
    return {finding.rule: finding for finding in audit_records(records, store)}


def test_records_that_say_what_their_draws_say(tmp_path):
    found = outcomes(tmp_path, scores())
    for rule in ("log-average", "unnormalised-entropy", "unnormalised-probabilities"):
        assert found[rule] == "passes"


def test_averaged_logs_are_seen(tmp_path):
    geometric = np.exp(draws().mean(0))
    normalised = geometric / geometric.sum(-1, keepdims=True)
    assert outcomes(tmp_path, scores(mean=normalised))["log-average"] == "fails"
    assert outcomes(tmp_path, scores(mean=geometric))["unnormalised-entropy"] == "fails"


def test_draws_that_are_not_normalised_are_seen(tmp_path):
    assert outcomes(tmp_path, scores(log_probs=draws() - math.log(2)))["unnormalised-probabilities"] == "fails"


def test_one_seed_fails_and_two_do_not(tmp_path):
    five = [record("mlp", seed=seed) for seed in range(5)]
    sets = (five[:1], five[:2], five, [*five[:2], record("mlp", recipe="corrected")])
    one, two, all_five, mixed = (audited(Store(tmp_path), *records)["one-seed"] for records in sets)
    assert [finding.outcome for finding in (one, two, all_five, mixed)] == ["fails", "passes", "passes", "fails"]
    assert (
        two.detail
        == "2 seeds or more in the only trained run; trained runs with fewer than the 5 that a verdict needs: 1"
    )
    assert all_five.detail.endswith("trained runs with fewer than the 5 that a verdict needs: 0")
    assert "1 of 2 trained runs: corrected x published" in mixed.detail


def test_one_seed_that_the_manifest_declares_is_known(tmp_path):
    found = audited(Store(tmp_path), record("blundell_sgd", recipe="published+units-1200"))["one-seed"]
    assert found.outcome == "known"
    assert found.detail.endswith("shown without a verdict")


def test_a_seed_that_diverged_counts_beside_one_that_finished(tmp_path):
    done, failed = record("mlp"), record("mlp", seed=1, outcome="failed", reason="killed")
    diverged = record("mlp", seed=1, outcome="diverged", reason="loss is nan")
    # a trained run without numbers
    other = record("mlp", recipe="corrected", seed=1, outcome="diverged", reason="loss is nan")
    sets = ([done, diverged], [done, failed], [done, other])
    found = [audited(Store(tmp_path), *records)["one-seed"].outcome for records in sets]
    assert found == ["passes", "fails", "fails"]
    four = [record("mlp", seed=seed) for seed in range(2, 6)]  # with a diverged one they are five, but no verdict
    assert audited(Store(tmp_path), *four, diverged)["one-seed"].detail.endswith("that a verdict needs: 1")


def test_unlike_draws_are_seen(tmp_path):
    def drawn(name, n):
        return record(name, protocol="common", timings={"valid": True, "predict_draws": n})

    same = [drawn("mlp", 1), drawn("linear_bbb", 100), drawn("mxnet_bbb", 100)]  # a deterministic network has one
    # an ensemble of five networks has five draws and no more; 4 of them are fewer than it has
    more = ([], [drawn("dropout_fcn", 30)], [drawn("deep_ensemble", 5)], [drawn("deep_ensemble", 4)])
    found = [audited(Store(tmp_path), *same, *other)["unlike-draws"] for other in more]
    assert [finding.outcome for finding in found] == ["passes", "fails", "passes", "fails"]
    assert "30 draws: dropout_fcn" in found[1].detail


def test_the_best_epoch_in_the_place_of_the_last_is_seen(tmp_path):
    key = "mnist/test10k/accuracy"
    epochs = [{"epoch": 1, key: 0.97}, {"epoch": 2, key: 0.96}]
    for value, outcome in ((0.96, "passes"), (0.97, "fails")):
        found = audited(Store(tmp_path), record("mlp", metrics={key: value}, epochs=epochs))
        assert found["test-looked-at"].outcome == outcome


def test_other_versions_are_seen_and_named(tmp_path):
    made = record("mlp")
    assert audited(Store(tmp_path), made)["stale-result"].outcome == "passes"
    made = changed(made, versions=msgspec.structs.replace(made.versions, recipe={"published": 7}))
    found = audited(Store(tmp_path), made)["stale-result"]
    assert found.outcome == "fails"
    assert "published x published full seed 0 key-mlp-: recipe part published had version 7 and has 1" in found.detail


def test_a_posterior_of_another_fit_is_not_audited(tmp_path, caplog):
    """A swapped file has the right seal, and here the right shapes."""
    store = Store(tmp_path)
    other = put(store, "linear_bbb", linear_bbb(0.1), profile="smoke", seed=1)
    own = put(store, "linear_bbb", linear_bbb(0.1), profile="smoke")
    assert "sigma-frozen" in audited(store, *store.all_records()[0])
    own.write_bytes(other.read_bytes())
    other.unlink()
    assert "sigma-frozen" not in audited(store, *store.all_records()[0])
    assert "it belongs to another fit" in caplog.text


def test_the_sets_share_what_was_counted():
    found = list(audit_data())
    shared = {f.detail.split(" share ")[0]: f.measured["images"] for f in found if f.rule == "overlap" and f.measured}
    assert shared["train60k and test10k"] == 0
    assert [f.detail for f in found if f.outcome == "fails"] == []
    assert next(f.detail for f in found if f.outcome == "known").startswith("pixels of noise_gaussian")


def test_planted_faults_of_data_are_seen():
    x = torch.tensor([[0.0, 1.0], [0.2, 0.4], [0.2, 0.4]])
    keys = {"a": image_keys(x), "b": image_keys(x[1:] + 1e-9), "c": image_keys(torch.tensor([[0.6, 0.6]]))}
    assert shared_rows(keys, "a", "b").measured["images"] == 1
    assert shared_rows(keys, "a", "c").outcome == "passes"
    split = Split("train60k", x, torch.tensor([0, 1, 1]), torch.arange(3))
    assert classes(split, 2).outcome == "passes"
    assert "[2]" in classes(split, 3).detail
    assert pixel_range(Split("centred", x * 2 - 1, split.y, split.rows), split).outcome == "fails"


def test_the_command(tmp_path, capsys):
    place = ["--results", str(tmp_path)]
    assert main(["audit", "documents", "--json", *place]) == 0  # a document's mistakes are not ours
    found = json.loads(capsys.readouterr().out)
    assert {finding["subject"] for finding in found} == {"alsibahi2019", "chopra2018", "feldman2018", "rabanser2017"}
    assert (
        main(["audit", "approaches", "--document", "feldman2018", "--rule", "detached-gradient", "--all", *place]) == 0
    )
    out = capsys.readouterr().out
    assert "known" in out
    assert "attached-mu" in out
    Store(tmp_path).write(record("mlp"))
    assert main(["audit", "records", "--rule", "one-seed", *place]) == FAILED
    assert "to do: run two seeds" in capsys.readouterr().out
    (stored,) = (tmp_path / "records").glob("*/*.json")
    stored.write_text(stored.read_text()[:-20])
    Store(tmp_path).write(record("mlp", seed=1))
    assert main(["audit", "records", "--rule", "stale-result", *place]) == INCOMPLETE
    assert stored.name in capsys.readouterr().err
    assert main(["audit", "--rules", *place]) == 0
    for arguments in (["nothing"], ["--rule", "kl-scael"], ["--document", "feldman"], ["data", "--rule", "kl-scale"]):
        assert main(["audit", *arguments, *place]) == USAGE
        assert capsys.readouterr().err.count("\n") == 1


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
