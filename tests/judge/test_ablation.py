"""Ablations: the file is checked against the manifests; effects paired by seed; the command."""

import csv
import dataclasses
import json
from types import SimpleNamespace

import pytest
import torch

from bench.cli.main import main
from bench.core.errors import ConfigError
from bench.core.reasons import message_reason
from bench.interface import Marginal
from bench.judge.ablation.definition import ablation, trained_runs_of
from bench.judge.ablation.effects import Numbers, command, effects
from bench.judge.ablation.file import read_entries
from bench.judge.ablation.readers import parse, read_keys
from bench.judge.ablation.single_changes import ALONE, CONTROL, CUMULATIVE, MEASURING, VARIANT, MetricKey
from bench.judge.claims import load_claims
from bench.judge.results import Results
from bench.judge.samples import MissingValue
from bench.plan.registry import manifests
from bench.plan.trained_runs import Selection
from bench.show.tables.ablation import ablation_table
from bench.show.tables.render import comma_separated, markdown
from tests.synthetic import record
from tests.tables import by_column

BITS = 0.6931471805599453  # nats in a bit
NOISE = "noise_gaussian/geometric_entropy"
CLAIMS = load_claims()


def single_changes_of(name, kind):
    return {
        single_change.name: single_change
        for single_change in ablation(name).single_changes
        if single_change.kind == kind
    }


def ends(single_change):
    before, after = next(iter(single_change.numbers.values()))
    return before.recipe, after.recipe


def test_corrections_alone_and_one_after_the_other():
    alone, chain = single_changes_of("linear_bbb", ALONE), single_changes_of("linear_bbb", CUMULATIVE)
    assert {name: ends(single_change) for name, single_change in alone.items()} == {
        "attached-mu": ("published", "published+attached-mu"),
        "prior-variance": ("published", "published+prior-variance"),
    }
    # both corrections together are the corrected recipe, so only that is trained
    assert [ends(single_change) for single_change in chain.values()] == [
        ("published", "published+attached-mu"),
        ("published+attached-mu", "corrected"),
    ]


def test_other_training_rows_are_a_single_change_of_their_own():
    chain = single_changes_of("dropout_fcn", CUMULATIVE)
    assert list(chain) == ["cross-entropy", "shuffle", "train60k"]
    assert ends(chain["train60k"]) == ("published+cross-entropy+shuffle", "corrected")


def test_one_correction_is_shown_once():
    assert not single_changes_of("pyro_random_module", ALONE)
    assert ends(single_changes_of("pyro_random_module", CUMULATIVE)["kl-scale"]) == ("published", "corrected")


# --- effects --------------------------------------------------------------------------------------------------------


def numbers_of(records, derived_metrics=()):
    return Numbers(Results(records, manifests()), derived_metrics)


def trained_run(approach, recipe, values, key="mnist/accuracy", **changes):
    """Return records of the common protocol, one a seed, with this metric."""
    return [
        record(
            approach, recipe, "common", seed=seed, fit_key=f"{approach}{recipe}{seed}", metrics={key: value}, **changes
        )
        for seed, value in values.items()
    ]


def effect_of(numbers, name, single_change, what=("mnist", "accuracy"), kind=ALONE):
    found = {(one.kind, one.name): changes for one, changes in effects(ablation(name), numbers)}
    return found[kind, single_change][what]


def table_of(name, numbers):
    return ablation_table(ablation(name), [*effects(ablation(name), numbers)], numbers, ())


def differences(effect):
    sides = (effect.estimate.first.values, effect.estimate.second.values)
    return tuple(after - before for before, after in zip(*sides, strict=True))


def test_effects_are_differences_of_the_same_seeds():
    numbers = numbers_of(
        [
            *trained_run("linear_bbb", "published", {0: 0.5, 1: 0.75, 2: 0.5, 3: 0.9}),
            *trained_run("linear_bbb", "published+attached-mu", {2: 0.625, 1: 0.875, 0: 0.875}),
        ]
    )
    found = effect_of(numbers, "linear_bbb", "attached-mu")
    assert [*found.estimate.first.by_seed] == [0, 1, 2]
    assert differences(found) == (0.375, 0.125, 0.125)
    assert not found.missing_values


def test_a_single_change_without_records_gives_the_command():
    numbers = numbers_of(trained_run("linear_bbb", "published", {0: 0.5}))
    found = effect_of(numbers, "linear_bbb", "attached-mu")
    asked = "python -m bench run linear_bbb --recipe published+attached-mu --protocol common --seeds 3"
    assert found.estimate is None
    assert asked in found.missing_values[0].reason
    assert asked in markdown(table_of("linear_bbb", numbers))


def diverged(recipe):
    return record("mlp", recipe, "common", seed=1, outcome="diverged", reason="loss is nan")


def test_seeds_without_a_common_one_are_not_paired_and_a_recipe_that_was_not_run_is_named_first():
    other = numbers_of([*trained_run("mlp", "published", {0: 0.5}), *trained_run("mlp", "corrected", {1: 0.5})])
    none = numbers_of([*trained_run("mlp", "published", {0: 0.5}), diverged("published")])
    apart, alone = (effect_of(numbers, "mlp", "lr-decay", kind=CUMULATIVE) for numbers in (other, none))
    assert (apart.estimate, alone.estimate) == (None, None)
    assert "the two sides have no seed in common" in apart.missing_values[0].reason
    assert [missing_value.code for missing_value in alone.missing_values] == ["not run", "diverged"]


def test_a_diverged_seed_is_marked_and_named():
    published, corrected = (
        trained_run("mlp", "published", {0: 0.5, 1: 0.5, 2: 0.75}),
        trained_run("mlp", "corrected", {0: 0.5, 2: 0.875}),
    )
    numbers = numbers_of([*published, *corrected, diverged("corrected")])
    found = effect_of(numbers, "mlp", "lr-decay", kind=CUMULATIVE)
    assert [*found.estimate.first.by_seed] == [0, 2]
    assert found.missing_values == (MissingValue("diverged", "mlp corrected, seed 1: loss is nan", is_fault=True),)
    text = markdown(table_of("mlp", numbers))
    # mean .0625; t(1, .975) = 12.7062 times sd .0883883 / sqrt 2 = .0625: .7941 to both sides, beyond 1 from .625
    assert "+0.0625 ~[-0.7316, +0.8566]\\*" in text
    assert "seed 1: loss is nan" in text


def test_weights_are_read_from_the_first_tensor_row_by_row():
    """Of [[1, 2], [3, 4]] the weight 2 is 3; its standard deviation here is a tenth of it."""
    mean = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    first = Marginal(mean, mean / 10, torch.ones(2, 2, dtype=torch.bool))
    other = Marginal(-mean, mean, torch.ones(2, 2, dtype=torch.bool))
    keys = ("weights/mean@2", "weights/std@2")
    network = SimpleNamespace(weights=lambda: {"first": first, "other": other})
    assert read_keys(network, None, keys) == ({keys[0]: 3.0, keys[1]: pytest.approx(0.3)}, {})
    plain = SimpleNamespace(weights=lambda: {"first": dataclasses.replace(first, std=None)})
    assert read_keys(plain, None, keys) == (
        {},
        dict.fromkeys(keys, message_reason("unsupported", "the network has no sigma")),
    )
    with pytest.raises(ConfigError, match="did you mean 'mean'"):
        parse("weights/maen@2")


def test_a_derived_metric_counts_for_its_own_fit_only():
    key = "mnist/geometric_accuracy"
    records = trained_run("linear_bbb", "published", {0: 0.75, 1: 0.5})
    mine = record("linear_bbb", "published", "derived", fit_key=records[0].fit_key, metrics={key: 0.5})
    other = record("linear_bbb", "published", "derived", seed=1, fit_key="another-fit", metrics={key: 0.25})
    found = effect_of(numbers_of(records, [mine, other]), "linear_bbb", "mean-of-probabilities", kind=MEASURING)
    assert (found.estimate.n, found.estimate.difference) == (1, 0.25)
    place = MetricKey("linear_bbb", "published", "derived", key)
    assert command(place) == "python -m bench ablation linear_bbb --run --seeds 3"


def test_ties_are_shown_as_such():
    numbers = numbers_of(
        [*trained_run("mlp", "published", {0: 0.5, 1: 0.7}), *trained_run("mlp", "corrected", {0: 0.5, 1: 0.7})]
    )
    (shown,) = [row["accuracy"] for row in by_column(table_of("mlp", numbers)) if row["single change"] == "lr-decay"]
    assert str(shown) == "same"


def test_csv_has_the_unrounded_numbers_of_every_single_change():
    numbers = numbers_of([*trained_run("mlp", "published", {0: 0.1}), *trained_run("mlp", "corrected", {0: 0.4})])
    table = table_of("mlp", numbers)
    lines = list(csv.DictReader(comma_separated(table).splitlines()))
    assert (
        len(lines)
        == len(table.lines)
        == sum(len(single_change.numbers) for single_change in ablation("mlp").single_changes)
    )
    line = next(line for line in lines if (line["single change"], line["quantity"]) == ("lr-decay", "accuracy"))
    assert float(line["difference"]) == 0.4 - 0.1
    assert (line["n"], line["low"], line["before"]) == ("1", "", "0.1")


def test_single_changes_of_the_paper_are_read_from_longer_fits():
    """Test error falls from 2 to 1 % after epoch 150. The single change of the prior compares whole fits."""
    key = "mnist/test10k/error"
    epochs = [{"epoch": epoch, key: 0.02 if epoch <= 150 else 0.01} for epoch in range(1, 201)]
    made = [
        record("blundell_bbb", recipe, seed=seed, metrics={key: error}, epochs=epochs)
        for recipe, error in (("published", 0.01), ("published+gaussian-prior", 0.03))
        for seed in range(5)
    ]
    results = Results(made, manifests())
    numbers, what = Numbers(results, ()), ("mnist", "error")
    assert differences(effect_of(numbers, "blundell_bbb", "epochs-150", what, VARIANT)) == (0.01,) * 5
    assert differences(effect_of(numbers, "blundell_bbb", "gaussian-prior", what, CONTROL)) == (0.03 - 0.01,) * 5
    assert effect_of(numbers, "blundell_bbb", "rho-8", what, VARIANT).missing_values[0].code == "not run"
    rows = by_column(table_of("blundell_bbb", numbers))
    assert {row["data set"] for row in rows} == {"mnist"}
    needed = {
        (trained_run.approach, trained_run.recipe)
        for trained_run in trained_runs_of([ablation("blundell_bbb")], Selection())
    }
    assert ("blundell_bbb", "published") in needed
    assert ("blundell_bbb", "published+epochs-150") not in needed  # the record of the fit above has it
    assert ("blundell_bbb", "all-images+epochs-150") in needed
    rest = {
        trained_run.recipe
        for trained_run in trained_runs_of([ablation("blundell_bbb")], Selection(seeds=(0,)), results)
    }
    assert "published+epochs-150+rho-8" in rest


# --- the command ----------------------------------------------------------------------------------------------------


def test_the_command_shows_all_and_writes(tmp_path, capsys):
    alone = ["--results", str(tmp_path), "--baseline", "none"]
    assert main(["ablation", "--all", *alone, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {one["approach"] for one in found} == set(read_entries()) - {"blundell_bbb"}  # of another group
    assert all(
        line["n"] == 0 and "python -m bench" in line["reason"] for one in found for line in one["single changes"]
    )
    assert main(["ablation", "mlp", *alone, "--write"]) == 0
    assert (tmp_path / "tables" / "ablation_mlp.md").read_text().startswith("# Ablation of mlp")
    assert (tmp_path / "tables" / "ablation_mlp.csv").exists()
