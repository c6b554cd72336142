"""Metrics computed again from the scores beside a record: what belongs together passes, what was changed is named."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.cli import FAILED, INCOMPLETE
from bench.cli.main import main
from bench.core.store import Store
from bench.interface import Split
from bench.measure.measuring import Predicted
from bench.measure.metrics.draws import draw_hits, reduce_draws
from bench.measure.metrics.evaluate import evaluate_classification, evaluate_ood
from bench.measure.protocols import _scores
from bench.measure.recomputed import contradictions
from tests.synthetic import record


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
    return Predicted(summary, hits, 1.0, summary.n_draws, log_probs.half().numpy())


CHECKED = (
    *("mnist/accuracy", "mnist/nll", "mnist/brier", "mnist/predictive_entropy", "mnist/expected_entropy"),
    *("mnist/mutual_information", "mnist/disagreement_rate", "letters/predictive_entropy"),
    *("letters/auroc_predictive_entropy", "letters/auroc_mutual_information", "letters/auroc_max_probability"),
)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.floats(0, 30), st.integers(1, 6))
def test_what_was_measured_together_never_contradicts_itself(seed, scale, n_draws):
    """Also with equal scores in many rows, where half precision makes ties, and with probabilities of 0 and 1."""
    assert contradictions(*measured(seed, scale, n_draws)) == []


@pytest.mark.parametrize("key", CHECKED)
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_changed_metric_is_named(key, sign):
    """By 0.1, which is 200 times what half precision hides of a number below 1, whichever metric it is."""
    metrics, scores = measured()
    (why,) = contradictions({**metrics, key: metrics[key] + 0.1 * sign}, scores)
    assert why.startswith(f"{key} is ")


def test_an_infinite_nll_is_no_number():
    metrics, scores = measured()
    nll = scores["mnist/nll"].copy()
    nll[0] = np.inf
    changed = {**scores, "mnist/nll": nll}
    assert contradictions({**metrics, "mnist/nll": None}, changed) == []
    assert len(contradictions(metrics, changed)) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mnist/votes", np.zeros(40, dtype=np.uint8)),
        ("mnist/label", np.zeros((2, 2), dtype=np.int8)),
        ("mnist/brier", np.full(40, np.nan, dtype=np.float16)),
        ("mnist/predictive_entropy", np.array(["x"] * 40)),
        ("mnist/predicted", np.zeros(3, dtype=np.int8)),
        ("letters/max_probability", np.zeros((2, 2), dtype=np.float16)),
        ("mnist/nll", np.zeros(40, dtype="M8[s]")),
    ],
)
def test_scores_of_another_form_are_named(name, value):
    metrics, scores = measured()
    scores = {key: scores[key] for key in scores if key != name} | {name: value}
    (why,) = contradictions(metrics, scores)
    assert why.startswith("the scores have not the form of this suite")


def test_the_commands_tell_a_contradiction(tmp_path, capsys):
    """With seals and hashes that fit, as somebody else may have made them."""
    metrics, scores = measured()
    for name, changes in (("a", {}), ("b", {"mnist/accuracy": metrics["mnist/accuracy"] + 0.1})):
        Store(tmp_path / name).write(record("mlp", protocol="common", metrics={**metrics, **changes}), scores)
    where = ["--profile", "full", "--rule", "stale-result", "--results"]
    main(["audit", "records", *where, str(tmp_path / "a")])
    assert "computed again from their scores, 0 contradictions" in capsys.readouterr().out
    assert main(["audit", "records", *where, str(tmp_path / "b")]) == FAILED
    assert "mnist/accuracy is" in capsys.readouterr().out
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == INCOMPLETE
    assert "mnist/accuracy is" in capsys.readouterr().out
