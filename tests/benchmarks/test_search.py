"""The search for hyper-parameters: which values it tries, and that the defaults are the best trials."""

import csv

import pytest
import torch

from bench.cli import INTERRUPTED
from bench.core.errors import ConfigError, Diverged
from bench.interface import Split
from bench.plan.registry import load_class, manifest, of_group
from benchmarks import search
from benchmarks.search import ACCURACY, FOLDER, NLL, best, combinations, main, trial
from tests.implementations.made_up import class_of

SEARCHED = [name for name, entry in of_group("methods").items() if entry.search]


def lines(name):
    with (FOLDER / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", SEARCHED)
def test_the_defaults_are_the_best_trial_of_all_combinations(name):
    found = lines(name)
    fields = list(manifest(name).search)
    tried = [{field: float(line[field]) for field in fields} for line in found]
    assert tried == combinations(manifest(name))
    recipe = class_of(name)()
    assert {field: getattr(recipe, field) for field in fields} == {field: float(best(found)[field]) for field in fields}


def test_a_diverged_trial_is_never_the_best():
    found = [{"held-out nll": "diverged"}, {"held-out nll": "0.3"}, {"held-out nll": "0.2"}]
    assert best(found) == {"held-out nll": "0.2"}
    with pytest.raises(Diverged, match="every trial diverged"):
        best(found[:1])


def test_an_approach_without_a_search_is_an_error_that_says_where_it_stands():
    with pytest.raises(ConfigError, match=r"mlp.toml has no \[search\]"):
        combinations(manifest("mlp"))
    assert main(["mlp"]) == 2


def test_a_search_that_was_stopped_goes_on_with_the_next_trial(tmp_path, monkeypatch):
    found, n = [], len(combinations(manifest("mc_dropout")))

    def made_up(approach, values, train, held, seed):
        found.append(values)
        if len(found) == 2:
            raise KeyboardInterrupt
        return {**values, "epochs": approach.epochs, "seed": seed, NLL: 1.0 / len(found), ACCURACY: 0.5, "seconds": 1}

    monkeypatch.setattr(search, "FOLDER", tmp_path)
    monkeypatch.setattr(search, "trial", made_up)
    monkeypatch.setattr(search, "load_split", lambda *_: None)
    assert main(["mc_dropout", "--write"]) == INTERRUPTED
    assert [path.name for path in tmp_path.iterdir()] == ["mc_dropout.part.csv"]
    assert main(["mc_dropout", "--write"]) == 0
    assert len(found) == n + 1  # the stopped trial runs again, the first one does not
    assert [path.name for path in tmp_path.iterdir()] == ["mc_dropout.csv"]
    assert len((tmp_path / "mc_dropout.csv").read_text().splitlines()) == 1 + n


def test_a_trial_learns_from_the_one_part_and_is_measured_on_the_other():
    """Labels of the held-out rows that no training row has are never predicted."""
    train = Split("train50k", torch.rand(200, 784), torch.zeros(200, dtype=torch.int64), torch.arange(200))
    held = Split("heldout10k-of-train", torch.rand(50, 784), torch.ones(50, dtype=torch.int64), torch.arange(50))
    recipe = load_class("mc_dropout")(epochs=3)
    wrong = trial(recipe, {"dropout": 0.1}, train, held, seed=0)
    right = trial(recipe, {"dropout": 0.1}, train, Split(held.name, held.x, held.y * 0, held.rows), seed=0)
    assert (wrong[ACCURACY], right[ACCURACY]) == (0.0, 1.0)
    assert wrong[NLL] > right[NLL]
    assert wrong["dropout"] == 0.1
