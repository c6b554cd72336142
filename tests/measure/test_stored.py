"""Metrics are computed again from scores: what was measured lies within the bounds, a changed metric does not."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.core.project import RESULTS
from bench.core.row_scores import kept
from bench.core.store import Store
from bench.interface import Split
from bench.judge.compare.verified import verify
from bench.measure.measuring import Predicted
from bench.measure.metrics.draws import draw_hits, reduce_draws
from bench.measure.metrics.evaluate import evaluate_classification, evaluate_ood
from bench.measure.protocols import _scores
from bench.measure.stored import computed_again


def measured(seed=0, scale=3.0, n_draws=5):
    """Return the metrics and scores that the common protocol makes of random predictions."""
    source = torch.Generator().manual_seed(seed)
    inside, outside = ((scale * torch.randn(n_draws, 40, 10, generator=source)).log_softmax(2) for _ in range(2))
    labels = torch.randint(10, (40,), generator=source)
    summary, other = reduce_draws(inside), reduce_draws(outside)
    values, _, _ = evaluate_classification(summary, labels.numpy(), draw_hits(inside, labels), "weights")
    metrics = {f"mnist/{name}": value for name, value in values.items()}
    metrics |= {f"letters/{name}": value for name, value in evaluate_ood(summary, other)[0].items()}
    rows = torch.arange(40)
    scores = {
        **_scores("mnist", predicted(inside, summary), Split("test10k", inside[0], labels, rows)),
        **_scores("letters", predicted(outside, other), Split("letters", outside[0], -torch.ones(40), rows)),
    }
    return metrics, scores


def predicted(log_probs, summary):
    hits = draw_hits(log_probs, torch.zeros(40, dtype=torch.long))
    return Predicted(summary, hits, 1.0, log_probs.half().numpy())


CHECKED = {
    *("mnist/accuracy", "mnist/nll", "mnist/brier", "mnist/predictive_entropy", "mnist/expected_entropy"),
    *("mnist/mutual_information", "mnist/disagreement_rate", "mnist/sure@0.99", "mnist/sure_right@0.99"),
    *("mnist/sure_expected@0.99", "mnist/ece", "mnist/risk_coverage_area"),
    *("letters/predictive_entropy", "letters/expected_entropy", "letters/mutual_information", "letters/sure@0.99"),
    *("letters/disagreement_rate", "letters/aupr_predictive_entropy", "letters/aupr_max_probability"),
    *(f"letters/{name}_predictive_entropy" for name in ("auroc", "fpr95")),
    *(f"letters/{name}_mutual_information" for name in ("auroc", "fpr95")),
    *(f"letters/{name}_max_probability" for name in ("auroc", "fpr95")),
}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.floats(0, 30), st.sampled_from([1, 2, 5, 40]))
def test_what_was_measured_lies_within_the_bounds(seed, scale, n_draws):
    """Also if half precision makes many scores equal, and with probabilities of 0 and 1."""
    metrics, scores = measured(seed, scale, n_draws)
    bounds = computed_again(scores)
    assert set(bounds) <= CHECKED
    for key in bounds.keys() & metrics.keys():
        low, high = bounds[key]
        assert low - 1e-9 <= metrics[key] <= high + 1e-9, key


def test_every_metric_that_scores_make_is_bounded_closely():
    """To within 0.05: 100 times the rounding error of half precision for a number below 1."""
    metrics, scores = measured()
    bounds = computed_again(scores)
    assert set(bounds) == CHECKED
    assert [key for key, (low, high) in bounds.items() if high - low > 0.05] == []
    assert all(low - 1e-9 <= metrics[key] <= high + 1e-9 for key, (low, high) in bounds.items())


def test_each_metric_of_a_shipped_record_is_compared_or_named_as_left_out():
    store = Store(RESULTS)
    wanted = ("linear_bbb", "corrected", "common", "full", "cpu", "float32", 0)
    found = verify([one for one in store.all_records()[0] if (*one.series, one.seed) == wanted], store)
    assert (found.records, found.scored, found.differing) == (1, 1, [])
    assert found.metrics > 40
    assert {"mean_network/nll", "draw_accuracy_std", "ece_equal_mass"} <= found.left_out
    assert found.left_out.isdisjoint({"accuracy", "nll", "brier", "auroc_predictive_entropy"})


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.floats(0, 300), st.sampled_from([1, 5]))
def test_what_is_kept_of_other_seeds_bounds_what_it_tells(seed, scale, n_draws):
    """Also with probabilities of 0, whose logarithm is infinite."""
    metrics, scores = measured(seed, scale, n_draws)
    bounds = computed_again(kept(scores))
    assert {"mnist/accuracy", "mnist/ece", "mnist/risk_coverage_area", "letters/sure@0.99"} <= set(bounds)
    assert {"letters/auroc_predictive_entropy", "letters/fpr95_max_probability"} <= set(bounds)
    for key in bounds.keys() & metrics.keys():
        low, high = bounds[key]
        assert low - 1e-9 <= metrics[key] <= high + 1e-9, key


def test_what_is_kept_of_other_seeds_tells_an_edited_metric():
    """Probabilities are known to .001, so that a calibration error is to .002, and the mean entropy to 1e-7."""
    _, scores = measured(scale=1.0)
    bounds = computed_again(kept(scores))
    for key, most in (("accuracy", 0), ("ece", 0.005), ("predictive_entropy", 1e-6)):
        low, high = bounds[f"mnist/{key}"]
        assert high - low <= most, key


def test_an_infinite_nll_is_no_number():
    _, scores = measured()
    nll = scores["mnist/nll"].copy()
    nll[0] = np.inf
    assert "mnist/nll" not in computed_again({**scores, "mnist/nll": nll})


@pytest.mark.parametrize("kind", ["label", "votes", "expected_entropy", "brier"])
def test_scores_of_fewer_kinds_give_fewer_metrics(kind):
    _, scores = measured()
    fewer = {key: value for key, value in scores.items() if not key.endswith(f"/{kind}")}
    if kind == "label":
        fewer = {key: value for key, value in fewer.items() if "probability" not in key}
    assert set(computed_again(fewer)) < CHECKED
