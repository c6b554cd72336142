"""Derived metrics of stored posteriors: worked numbers, and a small real fit whose numbers agree with its record."""

import dataclasses
import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from bench.cli.main import main
from bench.core.errors import BenchError
from bench.core.reasons import Reason, in_words
from bench.core.store import Store
from bench.interface import Categorical, Posterior, Task
from bench.judge.ablation.definition import ablation
from bench.judge.ablation.derived_metrics import keys_of, read_all
from bench.judge.ablation.readers import READERS, geometric, parse, read_keys
from bench.judge.ablation.single_changes import MEASURING
from bench.judge.ablation.taking import read_missing
from bench.measure.metrics.draws import reduce_draws
from bench.measure.protocols import Common
from bench.plan.recipes import build, profile, resolve
from bench.plan.registry import manifest
from tests.run.test_runner import smoke

# one row, two draws, two classes: probabilities (.9, .1) and (.5, .5)
LOGS = torch.log(torch.tensor([[[0.9, 0.1]], [[0.5, 0.5]]], dtype=torch.float64))
SUMMARY = reduce_draws(LOGS)


def test_the_geometric_mean_is_normalised():
    # sqrt(.9 .5) = .670820 and sqrt(.1 .5) = .223607 add up to .894427: .75 and .25
    assert np.exp(geometric(SUMMARY)) == pytest.approx(np.array([[0.75, 0.25]]))
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert READERS["normalised_geometric_entropy"](SUMMARY, np.array([0]), 0) == pytest.approx(entropy)
    assert READERS["geometric_nll"](SUMMARY, np.array([1]), 0) == pytest.approx(-math.log(0.25))
    assert READERS["geometric_accuracy"](SUMMARY, np.array([1]), 0) == 0
    assert READERS["geometric_ece"](SUMMARY, np.array([0]), 0) == pytest.approx(0.25)


def test_the_median_rule_at_other_thresholds():
    # the medians of two draws are their means, .7 and .3
    for threshold, refused in ((0.2, 0.0), (0.69, 0.0), (0.71, 1.0)):
        assert READERS["refusal_rate"](SUMMARY, np.array([0]), threshold) == refused
    assert READERS["selective_accuracy"](SUMMARY, np.array([0]), 0.5) == 1
    assert READERS["selective_accuracy"](SUMMARY, np.array([0]), 0.9) is None


def test_names():
    assert parse("letters/refusal_rate@0.5") == ("letters", "refusal_rate", 0.5)
    assert parse("mnist/geometric_nll").parameter == 0
    with pytest.raises(BenchError, match="did you mean 'geometric_nll'"):
        parse("mnist/geometric_nil")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a results folder with one small fit."""
    root = tmp_path_factory.mktemp("trained")
    smoke(root, "linear_bbb", recipes=("published",), protocols=("common",))
    return root


@pytest.fixture
def store(trained, tmp_path):
    """Return a copy of that folder, to write into."""
    return Store(Path(shutil.copytree(trained, tmp_path / "results")))


class Blind(Posterior):
    """Every draw gives every class the same probability."""

    def predict(self, x, draws, rows):
        return Categorical(torch.full((len(draws), len(x), 10), -math.log(10)))

    def arrays(self):
        return {}


def test_what_cannot_be_read_has_its_reason():
    protocol = Common(manifest("linear_bbb"), 0, profile("smoke"), None)
    lacking = {
        "mnist/pruned_used_accuracy@0.5": "does not expose its weights",
        "mnist/mean_network_ece": "no mean network",
    }
    keys = [*lacking, "mnist/geometric_nll", "mnist/selective_accuracy@0.5", "noise_uniform/refusal_rate@0.05"]
    metrics, missing = read_keys(Blind(), protocol, keys)
    assert metrics == pytest.approx({"mnist/geometric_nll": math.log(10), "noise_uniform/refusal_rate@0.05": 0.0})
    assert missing.pop("mnist/selective_accuracy@0.5") == Reason("rows-refused")
    assert missing.keys() == lacking.keys()
    for key, words in lacking.items():
        assert words in in_words(missing[key])


class Sure(Posterior):
    """Draw k gives class k .55 whatever the image, every other class .05; the posterior means know nothing."""

    def predict(self, x, draws, rows):
        probs = torch.full((len(draws), len(x), 10), 0.05)
        for place, draw in enumerate(draws):
            probs[place, :, draw % 10] = 0.55
        return Categorical(probs.log())

    def mean_network(self):
        return Blind()

    def arrays(self):
        return {}


def test_one_draw_alone_is_not_the_mean_of_the_draws():
    protocol = Common(manifest("linear_bbb"), 0, profile("smoke"), None)
    names = ("nll", "ece", "entropy", "refusal_rate")
    keys = [f"mnist/{network}{name}" for network in ("draw_", "mean_network_") for name in names]
    keys += ["letters/draw_auroc", "letters/mean_network_refusal_rate"]
    metrics, missing = read_keys(Sure(), protocol, keys)
    assert not missing
    # the shares of the ten labels add up to one: over ten draws one image in ten is right, and ECE is |.55 - share|
    shares = np.bincount(protocol.split("test10k").y.numpy(), minlength=10) / len(protocol.split("test10k"))
    assert shares.max() < 0.55  # so that it is .55 - share, whose mean is .45
    assert metrics == pytest.approx(
        {
            "mnist/draw_nll": -(0.1 * math.log(0.55) + 0.9 * math.log(0.05)),
            "mnist/draw_ece": 0.45,
            "mnist/draw_entropy": -(0.55 * math.log(0.55) + 9 * 0.05 * math.log(0.05)),
            "mnist/draw_refusal_rate": 0.0,  # .55 is above .2
            "mnist/mean_network_nll": math.log(10),
            "mnist/mean_network_ece": abs(0.1 - shares[0]),  # a tie goes to class 0
            "mnist/mean_network_entropy": math.log(10),
            "mnist/mean_network_refusal_rate": 1.0,
            "letters/draw_auroc": 0.5,  # all scores are equal
            "letters/mean_network_refusal_rate": 1.0,
        },
        abs=1e-6,
    )


def test_a_derived_metric_of_a_real_fit_agrees_with_its_record(store):
    """Numbers that the record has too are equal: same draws, same rows, same order of sums."""
    answer = []
    (record,), _ = store.all_records()
    assert read_missing(ablation("linear_bbb"), [record], store, None, answer.append) == []
    assert answer == ["derived metric linear_bbb published, seed 0"]
    (derived,), problems = read_all(store)
    assert not problems
    assert derived.fit_key == record.fit_key
    assert set(derived.metrics) == set(keys_of(ablation("linear_bbb")))
    # the refusal rule at the record's own threshold, asked of the same fit
    probe = ["noise_gaussian/refusal_rate@0.2", "mnist/refusal_rate@0.2", "mnist/selective_accuracy@0.2"]
    probe.append("mnist/mean_network_nll")
    kept, _ = store.read_tensors(store.fit_path(record.fit_key, "posterior"))
    entry = manifest(record.approach)
    approach = build(entry, resolve(entry, record.recipe), profile("smoke"))
    posterior = approach.rebuild(kept, Task("classification", 10, 60_000, 784), record.seed)
    protocol = Common(manifest("linear_bbb"), 0, profile("smoke"), None)
    torch.set_flush_denormal(True)
    again, missing = read_keys(posterior, protocol, probe)
    torch.set_flush_denormal(False)
    assert not missing
    for key, value in again.items():
        assert value == record.metrics[key.partition("@")[0].replace("mean_network_", "mean_network/")]


def test_what_is_read_is_not_read_again_and_a_broken_file_is_named(store):
    records, _ = store.all_records()
    read_missing(ablation("linear_bbb"), records, store, None, lambda text: None)
    answer = []
    assert read_missing(ablation("linear_bbb"), records, store, None, answer.append) == []
    assert answer == []
    (path,) = (store.root / "derived_metrics").glob("*/*.json")
    text = path.read_text()
    path.write_text(text.replace('"seed":0', '"seed":1'))
    found, (problem,) = read_all(store)
    assert found == []
    assert "was changed after it was written" in problem.reason


def test_without_the_fit_there_is_a_reason(store):
    (record,), _ = store.all_records()
    store.fit_path(record.fit_key, "posterior").unlink()
    (reason,) = read_missing(ablation("linear_bbb"), [record], store, None, lambda text: None)
    assert "has no usable posterior" in reason
    assert read_all(store) == ([], [])


def test_the_command_trains_what_is_missing_and_reads_it(store, capsys, monkeypatch):
    whole = ablation("linear_bbb")
    single_changes = tuple(single_change for single_change in whole.single_changes if single_change.kind == MEASURING)
    short = dataclasses.replace(whole, single_changes=single_changes, ood=("noise_gaussian",), question=None)
    monkeypatch.setattr("bench.judge.ablation.definition.ablation", lambda name: short)  # one fit instead of eight
    options = "--profile smoke --run --quiet --json --seeds 1 --threads 1 --executor inline"
    assert main(["ablation", "linear_bbb", *options.split(), "--results", str(store.root)]) == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert {line["n"] for line in one["single changes"]} == {1}  # those of derived metrics too
    assert {line["single change"] for line in one["single changes"]} == {
        single_change.name for single_change in short.single_changes
    }
