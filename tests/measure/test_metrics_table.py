"""The evaluators return exactly the metrics that the table of metrics defines; which weights pruning removes."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.core import metric_table
from bench.core.errors import ConfigError
from bench.core.metric_table import FRACTION, LARGEST, Metric, Unit, check_metrics, metric, metrics, unit_of
from bench.interface import Marginal, Noise
from bench.measure.metrics import evaluate
from bench.measure.metrics.classification import accuracy, brier
from bench.measure.metrics.draws import draw_hits, reduce_draws
from bench.measure.metrics.evaluate import evaluate_classification, evaluate_mean_network, evaluate_ood
from bench.measure.metrics.pruning import prune, pruning_row, pruning_scores, score_name, sparse_bytes
from bench.measure.metrics.shifts import MEASURED, area_key, step_key
from bench.show.tables import lists
from tests.close import close


def declared(*rows: str) -> set[str]:
    return {one.key for one in metrics().values() if one.rows in rows}


def predictions(n_draws: int) -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.Generator().manual_seed(0)
    log_probs = (3 * torch.randn(n_draws, 60, 10, generator=source)).log_softmax(2)
    return log_probs, torch.randint(10, (60,), generator=source)


def classify(n_draws: int, noise: Noise) -> tuple[dict[str, float], dict[str, str]]:
    log_probs, labels = predictions(n_draws)
    values, missing, _ = evaluate_classification(reduce_draws(log_probs), labels, draw_hits(log_probs, labels), noise)
    return values, missing


@pytest.mark.parametrize("n_draws", [1, 5])
def test_every_name_is_either_measured_or_missing_with_a_reason(n_draws: int) -> None:
    summary, labels = reduce_draws(predictions(n_draws)[0]), predictions(n_draws)[1]
    results = {
        "in": classify(n_draws, "weights"),
        "mean": evaluate_mean_network(summary, labels),
        "out": evaluate_ood(summary, summary),
    }
    expected = {
        "in": declared("test", "every"),
        "mean": declared("mean network"),
        "out": declared("outside", "every"),
    }
    for kind, (values, missing) in results.items():
        assert set(values) | set(missing) == expected[kind]
        assert not set(values) & set(missing)
        assert all(type(value) is float and math.isfinite(value) for value in values.values())
        assert all(missing.values())
    assert declared("moved").union(*expected.values()) == {one.key for one in metrics().values()}


def test_the_curves_and_areas_of_moved_images_have_specs() -> None:
    names = {key.rpartition("/")[2].partition("@")[0] for key in (step_key("rotated", 15, name) for name in MEASURED)}
    areas = {area_key("rotated", name).rpartition("/")[2].partition("@")[0] for name in MEASURED}
    assert areas == declared("moved")
    assert names <= {name.partition("@")[0] for name in declared("test", "every")}
    assert all(
        unit_of(area_key("translated", name)) is metrics()[f"{name.partition('@')[0]}_area"].unit for name in MEASURED
    )


def test_no_metric_is_named_twice() -> None:
    with pytest.raises(ValueError, match="accuracy is declared twice"):
        metric("accuracy", FRACTION, "higher", "definition", "source")(accuracy)


def test_a_metric_is_computed_stored_and_listed_from_its_declaration_alone(monkeypatch) -> None:
    """One function adds a number to what is measured, with bounds that a record must keep, and a row of the table."""
    skill = Metric(
        "made_up_skill", Unit("fraction", -LARGEST, 1), "higher", "skill", "Brier", "test", None, None, 1, made_up_skill
    )
    for module in (metric_table, evaluate, lists):
        monkeypatch.setattr(module, "metrics", lambda: {"brier": one_of("brier"), "made_up_skill": skill})
    one_of, log_probs = metrics().__getitem__, predictions(5)[0]
    values, _ = classify(5, "weights")
    assert set(values) == {"brier", "made_up_skill"}
    labels = predictions(5)[1].numpy()
    assert values["made_up_skill"] == made_up_skill(reduce_draws(log_probs).mean_probs, labels)
    unit_of.cache_clear()
    with pytest.raises(ValueError, match=r"mnist/made_up_skill is 1\.5; allowed are numbers"):
        check_metrics({"mnist/made_up_skill": 1.5})
    unit_of.cache_clear()
    assert [row[0] for row in lists.definitions_table().rows[:2]] == ["brier", "made_up_skill"]


def made_up_skill(probs, labels):
    rates = np.bincount(labels, minlength=10) / len(labels)
    return 1 - brier(probs, labels) / brier(np.tile(rates, (len(labels), 1)), labels)


def test_declarations_are_read_without_heavy_libraries() -> None:
    code = "import sys; from bench.core.metric_table import metrics; metrics(); print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "bench.measure.metrics.ood" in found
    assert not {"torch", "pandas", "scipy"} & set(found)


def test_one_draw() -> None:
    values, missing = classify(1, "none")
    assert values["mutual_information"] == 0.0
    assert values["predictive_entropy"] == values["expected_entropy"]
    assert values["draw_accuracy_mean"] == values["accuracy"]
    assert {"disagreement_rate", "draw_accuracy_std"} <= set(missing)
    # a score that is the same for every row tells nothing
    summary = reduce_draws(predictions(1)[0])
    detection, lacking = evaluate_ood(summary, summary)
    assert detection["auroc_mutual_information"] == 0.5
    assert set(lacking) == {"disagreement_rate"}


@pytest.mark.parametrize("noise", ["row", "shared"])
def test_spread_of_accuracy_needs_whole_networks(noise: Noise) -> None:
    _, missing = classify(5, noise)
    assert missing["draw_accuracy_std"].kind == f"{noise}-noise"
    values, _ = classify(5, "weights")
    log_probs, labels = predictions(5)
    accuracies = [(one.argmax(1) == labels).double().mean().item() for one in log_probs]
    assert values["draw_accuracy_std"] == close(np.std(accuracies, ddof=1))
    assert values["draw_accuracy_mean"] == close(np.mean(accuracies))


def test_infinite_nll_is_missing_with_a_reason() -> None:
    log_probs = torch.tensor([[[0.0, -math.inf]]])
    values, missing = evaluate_mean_network(reduce_draws(log_probs), torch.tensor([1]))
    assert values == {"mean_network/accuracy": 0.0}
    assert missing["mean_network/nll"].kind == "label-impossible"


def test_arrays_are_json() -> None:
    log_probs, labels = predictions(5)
    values, _, arrays = evaluate_classification(
        reduce_draws(log_probs), labels, draw_hits(log_probs, labels), "weights"
    )
    assert json.loads(json.dumps(arrays, allow_nan=False)) == arrays
    assert set(arrays) == {"risk_coverage", "reliability"}
    assert arrays["risk_coverage"]["risk"][-1] == close(1 - values["accuracy"])
    assert sum(arrays["reliability"]["count"]) == 60


def test_labels_of_no_class_are_refused() -> None:
    log_probs, labels = predictions(5)
    with pytest.raises(ConfigError, match="out-of-distribution"):
        evaluate_classification(reduce_draws(log_probs), torch.full((60,), -1), draw_hits(log_probs, labels), "weights")


def marginal(mean: list[float], std: list[float] | None, used: list[bool] | None = None) -> Marginal:
    return Marginal(
        torch.tensor(mean), None if std is None else torch.tensor(std), torch.tensor(used or [True] * len(mean))
    )


NETWORK = {
    "w1": marginal([1.0, -4.0, 3.0, 0.0], [1.0, 2.0, 1.0, 0.5]),  # ratios 1, 2, 3, 0
    "w2": marginal([8.0, 0.5], [2.0, 1.0], [False, False]),  # ratios 4, .5; the prediction ignores them
}


def kept(keep: dict[str, torch.Tensor]) -> dict[str, list[bool]]:
    return {name: mask.tolist() for name, mask in keep.items()}


def test_scores() -> None:
    assert score_name(NETWORK) == "|mu|/sigma"
    scores = pruning_scores(NETWORK)
    assert scores["w1"].tolist() == [1, 2, 3, 0]
    assert scores["w2"].tolist() == [4, 0.5]


def test_if_one_tensor_has_no_sigma_all_are_pruned_by_magnitude() -> None:
    network = {"w1": NETWORK["w1"], "w3": marginal([-2.0], None)}
    assert score_name(network) == "|w|"
    assert pruning_scores(network)["w1"].tolist() == [1, 4, 3, 0]
    assert kept(prune(network, 0.4)) == {"w1": [False, True, True, False], "w3": [True]}


def test_weights_without_noise() -> None:
    scores = pruning_scores({"w": marginal([0.0, -1.0], [0.0, 0.0])})
    assert scores["w"].tolist() == [0.0, math.inf]


def test_prune_takes_the_lowest_of_all_tensors() -> None:
    # int(6 * .5) = 3 lowest ratios: 0 and 1 of w1, .5 of w2
    assert kept(prune(NETWORK, 0.5)) == {"w1": [False, True, True, False], "w2": [True, False]}
    # int(6 * .49) = 2
    assert kept(prune(NETWORK, 0.49)) == {"w1": [True, True, True, False], "w2": [True, False]}


def test_equal_scores_are_removed_in_order() -> None:
    network = {"a": marginal([1.0] * 3, None), "b": marginal([-1.0] * 3, None)}
    assert kept(prune(network, 0.7)) == {"a": [False] * 3, "b": [False, True, True]}
    # many weights: short arrays are sorted stably by any method
    many = prune({"w": Marginal(torch.arange(4000.0) % 2, None, torch.ones(4000, dtype=torch.bool))}, 0.25)["w"]
    assert (~many).nonzero().reshape(-1).tolist() == list(range(0, 2000, 2))


def test_row_of_the_pruning_table() -> None:
    row = pruning_row(NETWORK, prune(NETWORK, 0.5))
    # 2 of 4 used weights are gone; kept 2 + 1; w1 sparse: 2 * (4 + 4 + 4) = 24 against dense 4 * 8 = 32; w2 unused: 0
    assert row == {"pruned_of_used": 0.5, "kept": 3, "bytes": 24, "layers": {"w1": 0.5, "w2": 0.5}}
    # without sigma: sparse 2 * (4 + 4) = 16 against dense 4 * 4 = 16
    assert pruning_row(NETWORK, prune(NETWORK, 0.5), with_sigma=False)["bytes"] == 16


def test_bytes() -> None:
    # nothing pruned: dense, 4 weights of value and sigma, no positions
    assert sparse_bytes(NETWORK, prune(NETWORK, 0.0)) == 32
    assert sparse_bytes(NETWORK, prune(NETWORK, 1.0)) == 0
    plain = {"w": marginal([1.0, 2.0, 3.0, 4.0], None)}
    assert sparse_bytes(plain, prune(plain, 0.0)) == 16
    assert sparse_bytes(plain, prune(plain, 0.75)) == 8


@pytest.mark.parametrize(
    ("network", "fraction", "words"),
    [
        (NETWORK, 95.0, "from 0 to 1"),
        (NETWORK, math.nan, "from 0 to 1"),
        ({}, 0.5, "without weights"),
        ({"w": marginal([math.nan], [1.0])}, 0.5, "diverged"),
    ],
)
def test_faults(network: dict[str, Marginal], fraction: float, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        prune(network, fraction)


@st.composite
def networks(draw: st.DrawFn) -> dict[str, Marginal]:
    source = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    shapes = draw(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=4))
    with_sigma = draw(st.booleans())
    return {
        f"layer{i}": Marginal(
            torch.randn(shape, generator=source).round(decimals=1),  # ties
            torch.rand(shape, generator=source) + 0.1 if with_sigma else None,
            torch.rand(shape, generator=source) < 0.7,
        )
        for i, shape in enumerate(shapes)
    }


@given(networks(), st.floats(0, 1), st.booleans())
def test_exactly_the_lowest_scores_are_removed(network: dict[str, Marginal], fraction: float, used_only: bool) -> None:
    keep = prune(network, fraction, used_only)
    scores = pruning_scores(network)
    gone, left, n = [], [], 0
    for name, m in network.items():
        assert keep[name].shape == m.mean.shape
        counted = m.used if used_only else torch.ones_like(m.used)
        assert keep[name][~counted].all()
        n += int(counted.sum())
        values = torch.from_numpy(scores[name])
        gone += values[~keep[name]].tolist()
        left += values[keep[name] & counted].tolist()
    assert len(gone) == int(n * fraction)
    assert max(gone, default=0) <= min(left, default=math.inf)
