"""Every metric has a unit and bounds, and a record with a number that no metric can have is not read, sealed or not."""

import json
import math
import re
from pathlib import Path

import pytest

from bench.cli.main import main
from bench.core.canonical import seal
from bench.core.metric_table import unit_of
from bench.core.store import Store
from bench.judge.ablation.derived_metrics import folder
from tests.synthetic import record

RESULTS = Path(__file__).resolve().parents[2] / "results"
BINS = {"lower": [0, 0.5], "upper": [0.5, 1], "count": [3, 4], "confidence": [None, 0.7], "accuracy": [None, 0.5]}
TOY = {"x": [0, 1], "mean": [0, 1], "lower": [0, 1], "upper": [0, 1]}


def test_every_number_of_our_records_has_a_unit_and_lies_within_its_bounds():
    store = Store(RESULTS)
    records, problems = store.all_records()
    derived_metrics, others = folder(store).read_all()
    assert [problem.reason for problem in (*problems, *others)] == []
    kept = [*records, *derived_metrics]
    names = {key for one in kept for metrics in (one.metrics, *(e.metrics for e in one.epochs)) for key in metrics}
    assert [name for name in sorted(names) if unit_of(name) is None] == []


@pytest.mark.parametrize(
    ("key", "name", "high"),
    [
        ("mnist/accuracy", "fraction", 1),
        ("mnist/test10k/pruned_accuracy@0.75", "fraction", 1),
        ("mnist/mean_network/nll", "nats per row", 1e100),
        ("letters/predictive_entropy", "nats per row", math.log(10)),
        (
            "toy/nll",
            "in the unit of its document",
            1e100,
        ),  # of a density, which may be negative, unlike that of classes
    ],
)
def test_the_unit_of_a_key(key, name, high):
    unit = unit_of(key)
    assert unit.name == name
    assert unit.high == pytest.approx(high, abs=0.01)


FORGERIES = {
    "accuracy above 1": {"metrics": {"mnist/accuracy": 1.5}},
    "a negative share": {"metrics": {"letters/auroc_max_probability": -0.01}},
    "more entropy than ten classes have": {"metrics": {"letters/predictive_entropy": 2.4}},  # log 10 = 2.3026
    "a Brier score above 2": {"metrics": {"mnist/brier": 2.1}},
    "a negative NLL": {"metrics": {"mnist/nll": -0.1}},
    "a number whose square overflows": {"metrics": {"mnist/train60k/train_loss": 1e308}},
    "an accuracy above 1 of an epoch": {"epochs": [{"epoch": 1, "seconds": 1.0, "metrics": {"mnist/accuracy": 2}}]},
    "a negative time": {"timings": {"fit_s": -1.0}},
    "a negative epoch": {"epochs": [{"epoch": -1, "seconds": 1.0, "metrics": {}}]},
    "a negative seed": {"seed": -1},
    "no arrays": {"arrays": None},
    "arrays that are text": {"arrays": "none"},
    "a model that is a number": {"model": 3},
    "metrics that are text": {"metrics": {"mnist/accuracy": "high"}},
    "metrics that are a number": {"metrics": 5},
    "a number beyond all floats": {"metrics": {"mnist/accuracy": 10**400}},
    "half a character": {"outcome": "\ud800"},  # JSON can write half of a pair of surrogates; the hash over it fits
    "a number as a reason": {"missing": {"letters": 1}},
    "an unknown kind of reason": {"missing": {"letters": {"kind": "unknown"}}},
    "a reason without its values": {"missing": {"letters": {"kind": "seeds-together", "values": {}}}},
    "a reason with a value of another kind": {"missing": {"letters": {"kind": "resumed", "values": {"n": 1}}}},
    "words as a reason": {"reason": "no memory"},
    "an unknown field": {"timing": {}},
    "a seed that is text": {"seed": "0"},
    "a seed that is true": {"seed": True},
    "epochs by name": {"epochs": {}},
    "an epoch without its fields": {"epochs": [{"loss": 1.0}]},
    "a list of times": {"timings": {"fit_s": []}},
    "provenance without names": {"provenance": []},
    "no device": {"device": None},
    "bins of unequal number": {"arrays": {"mnist/reliability": {**BINS, "count": [3]}}},
    "no bins": {"arrays": {"mnist/reliability": {name: [] for name in BINS}}},
    "bins that end before 1": {"arrays": {"mnist/reliability": {**BINS, "upper": [0.5, 0.9]}}},
    "a confidence above 1": {"arrays": {"mnist/reliability": {**BINS, "confidence": [None, 1.7]}}},
    "half a row": {"arrays": {"mnist/reliability": {**BINS, "count": [3, 0.5]}}},
    "coverage above 1": {"arrays": {"mnist/risk_coverage": {"coverage": [0.5, 1.5], "risk": [0, 0]}}},
    "risk without coverage": {"arrays": {"mnist/risk_coverage": {"coverage": [0.5], "risk": []}}},
    "a curve without points": {"arrays": {"mnist/risk_coverage": {"coverage": [], "risk": []}}},
    "a curve with a missing end": {"arrays": {"toy/near": {**TOY, "upper": [0]}}},
    "votes without rows": {
        "arrays": {"mnist/heldout10k-of-train/first_uncertain": {"rows": [], "votes": [[1, 2]], "scanned": 5}}
    },
    "a row that no file has": {
        "arrays": {"mnist/heldout10k-of-train/first_uncertain": {"rows": [60_000], "votes": [[1]], "scanned": 5}}
    },
    "a percentage above 100": {"arrays": {"mnist/test10k/printed": {"accuracy_percent": 150, "skipped": 3}}},
}


@pytest.mark.parametrize("changes", FORGERIES.values(), ids=FORGERIES)
def test_a_sealed_record_with_an_impossible_field_is_not_read(tmp_path, changes):
    store = Store(tmp_path)
    path = store.write(record("mlp", protocol="common", metrics={"mnist/accuracy": 0.9}))
    path.write_bytes(seal({**json.loads(path.read_text()), **changes}))
    records, problems = store.all_records()
    assert records == []
    (problem,) = problems
    told = f"{next(iter(changes))}|allowed are numbers|surrogate"
    assert re.search(f"does not have the fields of this version.*({told})|out of range", problem.reason)
    assert "\n" not in problem.reason


def test_a_huge_seed_makes_no_huge_list(tmp_path, capsys):
    """Three seeds, the last of them 2**62: a table names the three without a list of all seeds between them."""
    for seed in (0, 1, 2**62):
        Store(tmp_path).write(record("mlp", seed=seed, metrics={"mnist/test10k/accuracy": 0.98}))
    assert main(["table", "accuracy", "--results", str(tmp_path), "--baseline", "none"]) == 0
    assert f", {2**62}" in capsys.readouterr().out
