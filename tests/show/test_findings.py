"""The findings and their tables: shares computed by hand, overconfidence, and effects that differ from zero or not."""

from types import SimpleNamespace

import numpy as np
import pytest

from bench.core.text import Digits
from bench.judge.ablation.effects import Effect
from bench.judge.ablation.single_changes import ALONE, MNIST
from bench.judge.claims import load_claims
from bench.judge.comparison import CANNOT_TELL, CONFIRMED, CONTRADICTED, Estimate, paired
from bench.judge.samples import MissingValue, Samples
from bench.judge.stats.rule import TOO_FEW
from bench.show.numbers import NO_CURVE, UNREACHED, refused_for_risk
from bench.show.page import findings, worth
from bench.show.page.findings import as_list, sentences
from bench.show.page.worth import NOT_MEASURED
from bench.show.sentences import MISSING
from bench.show.tables import ablation as mistakes_table
from bench.show.tables.ablation import change
from bench.show.tables.choice import METRICS, _best
from bench.show.tables.confidence import (
    NEVER,
    NO_SUCH_SET,
    ExpectedAccuracy,
    expected_accuracy_of,
    measured_expected_accuracy,
    percent_sure,
)
from bench.show.tables.registry import one_table
from bench.show.tables.uci import NOT_TRAINED
from tests.synthetic import record
from tests.tables import inputs, line


def scores(confidence, predicted=(0, 0, 0, 0), label=(0, 0, 0, 1), dataset="mnist"):
    return {
        f"{dataset}/max_probability": np.array(confidence, np.float16),
        f"{dataset}/predicted": np.array(predicted, np.int8),
        f"{dataset}/label": np.array(label, np.int8),
    }


def test_shares_are_of_all_images_and_right_ones_of_the_sure():
    # three of four images are at .99 or more; of these the last is wrong: 2 of 3 right
    given = scores([0.995, 0.5, 1.0, 0.9999])
    assert percent_sure(given, "mnist") == 75
    assert expected_accuracy_of(given).right == pytest.approx(200 / 3)


def test_an_expected_accuracy_counts_the_wrong_answers_that_the_probabilities_allow():
    # .99512 is float16's .995, and .9999 is kept as 1: at most .00488 + 0 + 0 + 3 / 4096 = .005614 wrong, and one is
    found = expected_accuracy_of(scores([0.995, 0.5, 1.0, 0.9999]))
    assert (found.answers, found.wrong) == (3, 1)
    assert found.expected == pytest.approx(1 - 0.9951171875 + 3 / 4096)
    assert found.expected_right == pytest.approx(100 * (1 - found.expected / 3))


def test_the_threshold_is_between_two_neighbours_of_half_precision():
    assert percent_sure(scores([0.9898, 0.9902, 0.0, 0.0]), "mnist") == 25  # kept as .98975 and .99023


def test_nothing_sure_or_no_such_set_is_a_reason():
    assert expected_accuracy_of(scores([0.1, 0.2, 0.3, 0.4])).right == NEVER
    assert percent_sure(scores([1, 1, 1, 1]), "letters") == NO_SUCH_SET


def test_rows_say_what_the_scores_hold(monkeypatch):
    records = [record("mlp", recipe, "common", seed=0) for recipe in ("published", "corrected")]
    made = inputs(records)
    found = {
        records[0].key: scores([1, 1, 1, 1], label=(0, 0, 0, 0)) | scores([1, 1, 0, 0], dataset="letters"),
        records[1].key: scores([1, 1, 1, 1]) | scores([1, 0, 0, 0], dataset="letters"),
    }
    monkeypatch.setattr(made, "scores", lambda one: found[one.key])
    assert line(one_table(made, "confidence"), "mlp", "corrected") == {
        "approach": "mlp",
        "recipe": "corrected",
        "digits": "100.0",
        "of these right": "75.00",
        "expected": "99.98",
        "letters": "25.0",
        "not-MNIST": "no data",
        "clothes": "no data",
        "Gaussian noise": "no data",
        "uniform noise": "no data",
    }


def test_a_record_that_says_how_often_it_is_sure_needs_no_scores():
    # of 200 digits, 100 are sure, 97 of them right; the probabilities predict 99.5
    counts = {"lower": [0], "upper": [1], "count": [200], "confidence": [0.8], "accuracy": [0.8]}
    own = {"mnist/sure@0.99": 0.5, "mnist/sure_right@0.99": 0.485, "mnist/sure_expected@0.99": 0.4975}
    one = record(
        "mlp", "corrected", "common", metrics=own | {"letters/sure@0.99": 0.25}, arrays={"mnist/reliability": counts}
    )
    assert measured_expected_accuracy(one) == ExpectedAccuracy(100, 3, pytest.approx(0.5))
    shown = line(one_table(inputs([one]), "confidence"), "mlp", "corrected")
    assert (shown["digits"], shown["of these right"], shown["expected"]) == ("50.0", "97.00", "99.50")
    assert shown["letters"] == "25.0"
    assert shown["clothes"].startswith("n/a")  # the record has no such number


def test_the_best_mean_may_be_zero():
    def candidate(name, nll):
        numbers = {column: Samples.of((0.5,)) for column in METRICS} | {"NLL": Samples.of((nll,))}
        return SimpleNamespace(approach=name, is_baseline=False, numbers=numbers)

    (said,) = _best([candidate("worse", 1.0), candidate("better", 0.0)])
    assert "better (NLL)" in said


def test_corrections_with_few_pairs_are_not_called_chance():
    made = [
        SimpleNamespace(accuracy=SimpleNamespace(n=n), is_clear=clear)
        for n, clear in ((5, True), (5, False), (2, False))
    ]
    assert worth._unclear(made) == (
        " For 1 other, chance can explain the change; for 1, fewer than 5 seeds finished with and without the mistake, "
        "too few to tell."
    )
    assert worth._unclear(made[:1]) == ""


def test_without_records_every_finding_says_so():
    said = sentences(inputs([]))
    assert said.pop("blundell2015_short").startswith("1.36 % with 400 units: not run yet.")
    assert said.pop("blundell2015").startswith("Not run yet")
    assert said.pop("blundell2015_pruning").startswith("Pruning has not run yet")
    assert said.pop("blundell2015_choices").startswith("The choices that the paper leaves open have not run yet")
    assert said.pop("methods").startswith("No method is measured yet")
    assert said.pop("uci").endswith(NOT_TRAINED)
    of_networks = ("in_short", "reports_short", "sure", "wrong_sign", "which", "which_network")
    assert [said.pop(name) for name in (*of_networks, "posterior_short", "uci_short")] == [MISSING] * 8
    assert set(said.values()) == {NOT_MEASURED}


def changed(*after: float) -> Estimate:
    return paired(dict.fromkeys(range(len(after)), 0.0), dict(enumerate(after)))


def test_changes_are_clear_only_after_adjusting_for_the_number_of_mistakes(monkeypatch):
    """p of (.01, ..., .05) is .0132 (t = 4.24, 4 degrees), .0397 as the second of four; of `unclear` .0312.

    Four pairs are too few, however small their p, and one pair has none.
    """
    few, clear, unclear = (0.5, 0.51, 0.52, 0.53), (0.01, 0.02, 0.03, 0.04, 0.05), (0.0, 0.02, 0.03, 0.04, 0.05)
    changes = iter([changed(*one) for one in (clear, unclear, unclear, few, (0.5,))])
    single_changes = [(SimpleNamespace(kind=ALONE, name=name, title=name), None) for name in "abcde"]
    monkeypatch.setattr(mistakes_table, "chosen", lambda names: [SimpleNamespace(approach="mlp")])
    monkeypatch.setattr(
        mistakes_table,
        "effects",
        lambda ablation, numbers: [
            (single_change, {(MNIST, "accuracy"): Effect(next(changes))}) for single_change, _ in single_changes
        ],
    )
    found = mistakes_table.mistakes(inputs([]))
    assert [one.p for one in found[:3]] == pytest.approx([3 * 0.013236, 2 * 0.03123, 2 * 0.03123], abs=1e-5)
    assert [one.is_clear for one in found] == [True, False, False, False, False]
    assert found[3].p < 0.001  # too few pairs
    assert found[4].p is None  # one seed


def test_an_effect_is_shown_in_points_and_marked_where_seeds_are_lost():
    points = Digits(decimals=2, signed=True)
    assert str(change(Effect(changed(0.03, 0.04, 0.05)), 100, points)) == "+4.00 [+1.52, +6.48]"
    lost = Effect(changed(0.5), (MissingValue("diverged", "why", is_fault=True),))
    assert str(change(lost, 100, points)) == "+50.00*"


def curve(coverage, risk):
    arrays = {"mnist/risk_coverage": {"coverage": coverage, "risk": risk}}
    return record("mlp", "corrected", "common", arrays=arrays)


def test_refusal_is_the_least_that_reaches_one_percent_of_mistakes():
    assert refused_for_risk(curve([0.5, 0.8, 1.0], [0.001, 0.01, 0.02])) == pytest.approx(20)
    assert refused_for_risk(curve([0.5, 1.0], [0.0, 0.004])) == 0
    assert refused_for_risk(curve([0.5, 1.0], [0.3, 0.4])) == UNREACHED
    assert refused_for_risk(record("mlp", "corrected", "common")) == NO_CURVE


def test_choice_shows_the_corrected_recipe_and_what_knows_nothing_last():
    def measured(approach, recipe, accuracy):
        return record(approach, recipe, "common", metrics={"mnist/accuracy": accuracy})

    made = inputs(
        [measured("uniform", "published", 0.1), measured("mlp", "published", 0.9), measured("mlp", "corrected", 0.95)]
    )
    rows = one_table(made, "choice").texts()
    assert [row[0] for row in rows] == ["mlp", "uniform"]
    assert rows[0][1] == "0.9500"


def test_confirmed_reports_are_counted_and_contradicted_ones_named():
    made = inputs([])
    claim = load_claims()[1]  # an accuracy up to .95, whose margin is .02
    other = next(one for one in load_claims() if one.metric == "refusal_rate")
    outcomes = (CONFIRMED, CANNOT_TELL, CANNOT_TELL, CONTRADICTED, TOO_FEW)
    small = SimpleNamespace(is_within_margin=True, seeds_to_settle=None)
    vars(made)["judgement"] = SimpleNamespace(
        ends=[
            *(SimpleNamespace(outcome=one, claim=claim, on_scale=small) for one in outcomes),
            SimpleNamespace(outcome=CONFIRMED, claim=other, on_scale=small),
        ],
        curves=[
            SimpleNamespace(outcome=one, on_scale=small) for one in (CONFIRMED, CANNOT_TELL, CONTRADICTED, TOO_FEW)
        ],
    )
    assert findings.reports(made) == (
        "Of 5 numbers that the documents report after training, 2 are confirmed: 95 of 100 new runs of their code, "
        "mistakes included, would land within a margin of the reported number (2 percentage points for accuracies). "
        "Confirmed are 1 of 4 accuracies and 1 of 1 other number, such as shares refused and entropies. 1 is "
        f"contradicted: {claim.printed} ({claim.source}). For 2, no single run can tell; for 2 of them, no number of "
        "seeds can, as runs scatter by more than the margin. 1 more has too few seeds. Of 3 training curves, 1 is "
        "confirmed and 1 is contradicted, by less than the margin; for 1, no single run can tell."
    )


def test_points_are_a_paragraph_and_a_list():
    assert as_list(["a"]) == "a"
    assert as_list(["a", "b", "c"]) == "a\n\n- b\n- c"
