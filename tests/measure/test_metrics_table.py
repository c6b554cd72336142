"""The evaluators return exactly the metrics that the table of metrics defines."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from bench.core.errors import ConfigError
from bench.core.metric_table import _SPECS, METRICS, unit_of
from bench.interface import Noise
from bench.measure.metrics.draws import draw_hits, reduce_draws
from bench.measure.metrics.evaluate import evaluate_classification, evaluate_mean_network, evaluate_ood
from bench.measure.metrics.shifts import MEASURED, area_key, step_key
from tests.close import close

IN_DISTRIBUTION = {
    *("accuracy", "nll", "brier", "ece", "ece_equal_mass"),
    *("predictive_entropy", "expected_entropy", "mutual_information"),
    *("refusal_rate", "selective_accuracy", "refusal_rate_strict", "selective_accuracy_strict"),
    *("sure@0.99", "sure_right@0.99", "sure_promised@0.99"),
    *("risk_coverage_area", "disagreement_rate", "draw_accuracy_mean", "draw_accuracy_std"),
}
SHIFTED = {"accuracy_area", "nll_area", "ece_area", "sure_area"}
MEAN_NETWORK = {"mean_network/accuracy", "mean_network/nll"}
OUT_OF_DISTRIBUTION = {
    *("predictive_entropy", "expected_entropy", "mutual_information", "geometric_entropy"),
    *("refusal_rate", "refusal_rate_strict", "disagreement_rate", "sure@0.99"),
    *("auroc_predictive_entropy", "auroc_mutual_information", "auroc_max_probability"),
    *("aupr_predictive_entropy", "aupr_mutual_information", "aupr_max_probability"),
    *("fpr95_predictive_entropy", "fpr95_mutual_information", "fpr95_max_probability"),
}


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
    expected = {"in": IN_DISTRIBUTION, "mean": MEAN_NETWORK, "out": OUT_OF_DISTRIBUTION}
    for kind, (values, missing) in results.items():
        assert set(values) | set(missing) == expected[kind]
        assert not set(values) & set(missing)
        assert all(type(value) is float and math.isfinite(value) for value in values.values())
        assert all(missing.values())
    assert {name.partition("@")[0] for name in set().union(SHIFTED, *expected.values())} == set(METRICS)


def test_the_curves_and_areas_of_moved_images_have_specs() -> None:
    names = {key.rpartition("/")[2].partition("@")[0] for key in (step_key("rotated", 15, name) for name in MEASURED)}
    areas = {area_key("rotated", name).rpartition("/")[2].partition("@")[0] for name in MEASURED}
    assert areas == SHIFTED
    assert names <= {name.partition("@")[0] for name in IN_DISTRIBUTION}
    assert all(
        unit_of(area_key("translated", name)) is METRICS[f"{name.partition('@')[0]}_area"].unit for name in MEASURED
    )


def test_no_metric_is_named_twice() -> None:
    assert len(_SPECS) == len(METRICS)


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
