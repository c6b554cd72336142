"""Metrics are computed again from the scores of a record: true records pass, and changed metrics are named."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.cli import FAILED, INCOMPLETE
from bench.cli.main import main
from bench.core.project import RESULTS
from bench.core.store import Store
from bench.interface import Split
from bench.measure.bounds import Draws, Within, refusals, told_apart
from bench.measure.measuring import Predicted
from bench.measure.metrics.draws import draw_hits, reduce_draws
from bench.measure.metrics.evaluate import evaluate_classification, evaluate_ood
from bench.measure.metrics.ood import auroc
from bench.measure.metrics.refusal import MEDIAN_RULE, STRICT_RULE
from bench.measure.protocols import _scores
from bench.measure.recomputed import compared, contradictions, sound
from bench.show.frame import records_frame
from tests.gate_folders import folders
from tests.synthetic import changed, read_record, record


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


CHECKED = (
    *("mnist/accuracy", "mnist/nll", "mnist/brier", "mnist/predictive_entropy", "mnist/expected_entropy"),
    *("mnist/mutual_information", "mnist/disagreement_rate", "letters/predictive_entropy"),
    *("letters/auroc_predictive_entropy", "letters/auroc_mutual_information", "letters/auroc_max_probability"),
    *("mnist/sure@0.99", "mnist/sure_right@0.99", "letters/sure@0.99", "mnist/sure_promised@0.99"),
    *("mnist/ece", "mnist/ece_equal_mass", "mnist/risk_coverage_area", "mnist/draw_accuracy_mean"),
    *("letters/aupr_predictive_entropy", "letters/aupr_mutual_information", "letters/aupr_max_probability"),
    *("letters/fpr95_predictive_entropy", "letters/fpr95_mutual_information", "letters/fpr95_max_probability"),
)
OPEN = {
    *("geometric_entropy", "draw_accuracy_std", "mean_network/accuracy", "mean_network/nll"),
    *("refusal_rate", "refusal_rate_strict", "selective_accuracy", "draw_accuracy_mean", "fpr95_max_probability"),
}  # of a network with 100 draws; the last five are bounded widely


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.floats(0, 30), st.sampled_from([1, 2, 3, 4, 5, 6, 40]))
def test_what_was_measured_together_never_contradicts_itself(seed, scale, n_draws):
    """Also if half precision makes many scores equal, and with probabilities of 0 and 1."""
    assert contradictions(*measured(seed, scale, n_draws)) == []


@pytest.mark.parametrize("key", CHECKED)
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_changed_metric_is_named(key, sign):
    """Each metric is changed by 0.1: 200 times the rounding error of half precision for a number below 1."""
    metrics, scores = measured()
    (why,) = contradictions({**metrics, key: metrics[key] + 0.1 * sign}, scores)
    assert why.startswith(f"{key} is ")


SHAPES = [
    *([1.0], [0.2, 0.8], [0.21, 0.79], [0.19, 0.81], [0.2] * 5, [0.19] * 5 + [0.05], [0.21] * 4 + [0.16], [0.1] * 10),
    *([0.5, 0.5], [0.51, 0.49], [0.6, 0.4], [0.9, 0.1], [0.3, 0.3, 0.4], [0.25] * 4),
]  # of a draw's probabilities, near the thresholds .2 and .5


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([1, 2, 3, 4, 5, 10, 11, 20, 30, 31, 40, 100]), st.integers(1, 3))
def test_rows_that_are_surely_answered_or_refused_are_so(seed, n_draws, n_shapes):
    """The draws of a row have a few different sets of probabilities, in different orders of the classes."""
    source = np.random.default_rng(seed)
    probs = np.zeros((n_draws, 40, 10))
    for row in range(40):
        kinds = [(source.choice(len(SHAPES)), source.permutation(10)) for _ in range(n_shapes)]
        for draw in range(n_draws):
            shape, order = kinds[source.choice(n_shapes)]
            probs[draw, row, order[: len(SHAPES[shape])]] = SHAPES[shape]
    summary = reduce_draws(torch.from_numpy(probs).log())
    confidence, own = summary.mean_probs.max(axis=1), summary.expected_entropy
    draws = Draws(n_draws, Within(own, own), summary.votes)
    for rule in (MEDIAN_RULE, STRICT_RULE):
        answered, refused = refusals(rule, Within(confidence, confidence), draws)
        accepted = rule.accepted(summary)
        assert accepted[answered].all()
        assert not accepted[refused].any()


def test_one_draw_decides_what_is_refused():
    metrics, scores = measured(n_draws=1)
    for key in ("refusal_rate_strict", "selective_accuracy", "selective_accuracy_strict"):
        (why,) = contradictions({**metrics, f"mnist/{key}": metrics[f"mnist/{key}"] - 0.03}, scores)
        assert why.startswith(f"mnist/{key} is ")


def test_nine_tenths_of_a_shipped_metric_is_named_or_said_to_be_undetermined():
    store = Store(RESULTS)
    (path,) = store.records.glob("linear_bbb/corrected__common__full__seed0__*.npz")
    shipped = read_record(path.with_suffix(".json"))
    scores = store.scores(shipped)
    true, untold = compared(shipped.metrics, scores)
    assert true == []
    named, _ = compared({key: 0.9 * value for key, value in shipped.metrics.items()}, scores)
    unnamed = {key for key, value in shipped.metrics.items() if value} - {why.partition(" ")[0] for why in named}
    assert unnamed <= set(untold)
    assert {key.partition("/")[2] for key in unnamed} <= OPEN


def test_an_infinite_nll_is_no_number():
    metrics, scores = measured()
    nll = scores["mnist/nll"].copy()
    nll[0] = np.inf
    changed = {**scores, "mnist/nll": nll}
    assert contradictions({**metrics, "mnist/nll": None}, changed) == []
    assert len(contradictions(metrics, changed)) == 1


def test_audit_and_compare_name_a_contradiction(tmp_path, capsys):
    """The seals and hashes of the records are correct, as somebody who changes a record can make them."""
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


@given(*2 * [st.lists(st.integers(0, 5), min_size=1, max_size=8)])
def test_counts_of_pairs_give_the_area_of_ranks(inside, outside):
    """With many ties: five values."""
    inside, outside = np.array(inside, dtype=float), np.array(outside, dtype=float)
    by_counts = dict(told_apart(*(Within(scores, scores).ordered() for scores in (inside, outside))))["auroc"]
    assert by_counts == (auroc(inside, outside),) * 2


def test_a_folder_is_read_without_the_records_that_their_scores_contradict(tmp_path):
    """The message names the first number and counts the others. A record without its scores is kept."""
    store = Store(tmp_path)
    metrics, scores = measured()
    false = {**metrics, "mnist/accuracy": 1.0, "mnist/nll": 9.0, "mnist/brier": 1.9}
    for seed, values in enumerate((metrics, false, false)):
        store.write(record("mlp", protocol="common", seed=seed, metrics=values), scores)
    next(store.records.glob("mlp/*seed2*.npz")).unlink()
    kept, (problem,) = sound(store.all_records()[0], store)
    assert [one.seed for one in kept] == [0, 2]
    assert problem.path == next(store.records.glob("mlp/*seed1*.json"))
    assert f"record {problem.path} contradicts its scores and is left out: mnist/accuracy is 1, but" in problem.reason
    assert problem.reason.endswith(", and 2 more")


@pytest.fixture
def received(tmp_path):
    """A folder with a true record, and one that its scores contradict; the seals and hashes of both are correct."""
    metrics, scores = measured()
    for seed, changes in enumerate(({"mnist/accuracy": 1.0}, {})):
        Store(tmp_path / "received").write(
            record("mlp", protocol="common", seed=seed, metrics={**metrics, **changes}), scores
        )
    return tmp_path / "received"


@pytest.mark.parametrize(
    "words",
    [
        "table accuracy --baseline none --results {}",
        "table accuracy --results {}",
        "table accuracy --baseline {} --results {}/mine",
        "verdict --results {}",
        "verdict --approach mlp --metric accuracy --reported .985 --protocol common --results {}",
        "ladder mlp --results {}",
        "report --no-figures --format md --baseline none --results {}",
    ],
)
def test_reading_a_folder_names_a_contradiction_in_one_line(received, words, capsys):
    (received / "mine").mkdir()
    main(words.replace("{}", str(received)).split())
    told = [line for line in capsys.readouterr().err.splitlines() if "contradicts its scores" in line]
    (line,) = told
    assert "seed0" in line
    assert "mnist/accuracy is 1, but its scores make it" in line


def test_a_gate_leaves_out_what_its_scores_contradict(tmp_path, capsys):
    path, _, _, fresh = folders(tmp_path)
    file = next(fresh.records.glob("mlp/corrected__common__*seed1000*.json"))
    old = read_record(file)
    nll = np.full(40, old.metrics["mnist/nll"] + 1, dtype=np.float32)
    fresh.write(changed(old, scores_sha256=None), {**fresh.scores(old), "mnist/nll": nll})
    places = ["--reference", str(tmp_path / "reference"), "--fresh", str(tmp_path / "fresh")]
    assert main(["gate", "--gate", str(path), *places]) == INCOMPLETE
    assert "contradicts its scores" in " ".join(capsys.readouterr().out.split())


def test_a_frame_leaves_it_out_with_a_warning(received):
    with pytest.warns(UserWarning, match="contradicts its scores"):
        frame = records_frame(received)
    assert set(frame.seed) == {1}
