"""Verdicts of documents: curves as single claims, the joint p-value, Holm's procedure, printed texts, the command."""

import dataclasses
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from bench.judge.claims import ClaimRow
from bench.judge.comparison import CONTRADICTED, Reported
from bench.judge.results import Results
from bench.judge.samples import MissingValue, Samples
from bench.judge.stats.curves import DUPLICATES, SEEN_BEFORE, curve_on_scale, curves, joint_p
from bench.judge.stats.on_scale import OnScale
from bench.judge.stats.on_scale import on_scale as on_its_scale
from bench.judge.stats.rule import NOT_RUN, TOO_FEW, is_exact
from bench.judge.stats.verdicts import judge
from bench.show.outcomes import why
from bench.show.reasoning import explain
from bench.show.screens.verdict import all_text
from bench.show.tables.verdicts import curve_verdicts_table, summary_table, verdicts_table
from tests.judge.claims import BY_ID, FINAL, FIVE
from tests.synthetic import record


def row(values, reported=None, missing_value=None, **changes):
    """Return a claim of an exactly printed number with these seeds."""
    claim = msgspec.structs.replace(FINAL, **{"stage": "final", **changes})
    if reported is not None:
        claim = msgspec.structs.replace(claim, printed=repr(reported))
    return ClaimRow(claim, Samples.of(tuple(values), missing_value))


def on_scale(ours, low, high=None):
    """Return a claim of a number that prints as all from low to high."""
    return OnScale(Samples.of(ours), Reported(low, low if high is None else high), 1.0)


def curve_rows(values, reported, **changes):
    """Return the points of a training curve: `values` [epochs, seeds], `reported` [epochs]."""
    return [
        row(v, r, id=f"e{epoch}", stage=f"epoch:{epoch}", split="train60k", **changes)
        for epoch, (v, r) in enumerate(zip(values, reported, strict=True), start=1)
    ]


# --- Holm -----------------------------------------------------------------------------------------------------------


def _factor(*rows):
    """Return the factor by which the p-values of these equal claims are adjusted."""
    first, *_ = found = judge(rows).verdicts
    (factor,) = {round(one.p_adjusted / first.on_scale.estimate.p, 6) for one in found}
    return factor


def test_the_adjustment_is_over_the_claims_of_one_document():
    alike = [row(FIVE, 0.99, id=f"claim{n}") for n in range(3)]
    apart = [row(FIVE, 0.99, id=f"claim{n}", source=f"document{n}") for n in range(3)]
    assert (_factor(*alike), _factor(*apart)) == (3, 1)
    assert judge(alike).verdicts[0].level == pytest.approx(0.05 / 3)


def test_a_curve_is_one_hypothesis_and_its_points_have_its_verdict():
    # Ten epochs and two single claims: three hypotheses. All lie 13 standard deviations off; the curve has the seeds'
    # and the report's own p (all epochs are equal), which is that of the single claims.
    curve = curve_rows([FIVE] * 10, [0.99] * 10)
    found = judge([*curve, row(FIVE, 0.99, id="a"), row(FIVE, 0.99, id="b")])
    (whole,) = found.curves
    assert whole.on_scale.estimate.p == pytest.approx(found.verdicts[-1].on_scale.estimate.p)
    assert whole.p_adjusted == pytest.approx(3 * whole.on_scale.estimate.p)
    assert {(one.outcome, one.is_point, one.p_adjusted) for one in found.verdicts[:10]} == {(CONTRADICTED, True, None)}
    assert whole.smallest_p == pytest.approx(10 * found.verdicts[0].on_scale.estimate.p)


def curve_of_accuracies():
    return [row(FIVE, 0.977, id=f"e{epoch}", stage=f"epoch:{epoch}") for epoch in range(1, 5)]  # test10k


def test_the_last_test_accuracy_is_also_a_claim_by_itself():
    curve = curve_of_accuracies()
    found = judge([*curve, row(FIVE, 0.977, id="end")])
    assert [one.claim.id for one in found.ends] == ["e4", "end"]
    assert [one.is_point for one in found.verdicts] == [True, True, True, False, False]
    assert found.verdicts[-1].level == pytest.approx(0.05 / 3)  # the curve, its last point, the end result
    # where the last epoch was not measured, no other takes its place
    unfinished = judge([*curve[:3], row((), 0.977, id="e4", stage="epoch:4")])
    assert [(one.claim.id, one.outcome) for one in unfinished.ends] == [("e4", NOT_RUN)]
    assert len(unfinished.curves[0].rows) == 3


def test_the_adjustment_does_not_depend_on_what_has_run():
    """A document prints two numbers and a curve with an end: four claims, whatever was measured of them."""
    printed = [*curve_of_accuracies(), row(FIVE, 0.977, id="a"), row(FIVE, 0.979, id="b")]
    alone = [dataclasses.replace(one, sample=Samples()) for one in printed[:-1]]
    every, one = judge(printed).verdicts[-1], judge([*alone, printed[-1]]).verdicts[-1]
    assert every.p_adjusted == one.p_adjusted == 4 * one.on_scale.estimate.p
    assert every.level == one.level == 0.05 / 4


@pytest.mark.parametrize("field", ["approach", "metric", "dataset", "source"])
def test_curves_of_different_numbers_are_different_claims(field):
    one = [row(FIVE, 0.99, id=f"e{n}", stage=f"epoch:{n}") for n in (1, 2, 3)]
    other = [row(FIVE, 0.99, id=f"o{n}", stage=f"epoch:{n}", **{field: "another"}) for n in (1, 2, 3, 4)]
    assert [len(curve.rows) for curve in curves([*one, *other])] == [3, 4]


# --- the statistic of a curve ---------------------------------------------------------------------------------------


def test_a_worked_curve():
    # Runs of epoch one: seeds 0, 2, 4, report 6: mean 3, sd sqrt(20/3) = 2.58199. Of epoch two: seeds 10, 10, 10,
    # report 14: mean 11, sd 2. Mean over both: seeds (-3 / 2.58199 - 1 / 2) / 2 = -.83095, (-1 / 2.58199 - .5) / 2 =
    # -.44365, -.05635; report (3 / 2.58199 + 3 / 2) / 2 = 1.33095. Margins 1 and 1: (1 / 2.58199 + 1 / 2) / 2 = .44365.
    found = curve_on_scale([on_scale((0.0, 2.0, 4.0), 6.0), on_scale((10.0, 10.0, 10.0), 14.0)])
    assert found.ours.values == pytest.approx((-0.83095, -0.44365, -0.05635), abs=1e-5)
    assert (*found.reported[:2], found.margin) == pytest.approx((1.33095, 1.33095, 0.44365), abs=1e-5)


def test_an_epoch_in_which_all_runs_are_equal_tells_nothing():
    moving, still = on_scale((0.0, 2.0, 4.0), 6.0), on_scale((1.0, 1.0, 1.0), 1.0)
    assert curve_on_scale([moving, still]) == curve_on_scale([moving])
    assert curve_on_scale([still, still]).estimate.p == 1


def test_a_curve_a_little_high_everywhere_is_seen():
    # Twelve epochs with independent noise, the report 1.5 standard deviations high in each: the smallest p times 12 is
    # 1, while the mean over the epochs has sd .29 only.
    noise = np.random.default_rng(4).normal(size=(12, 8))
    (found,) = judge(curve_rows(0.9 + 1e-3 * noise, [0.9 + 1.5e-3] * 12)).curves
    assert found.outcome == CONTRADICTED
    assert why(found).endswith("margins, less than the margin")  # 1.5e-3 of .005
    assert found.smallest_p > 0.5


def test_a_curve_with_a_failed_seed_has_too_few():
    rows = curve_rows([FIVE] * 3, [0.977] * 3)
    failed = dataclasses.replace(rows[1], sample=Samples.of(FIVE, MissingValue("*", "seed 5 diverged")))
    found = judge([rows[0], failed, rows[2]])
    assert found.curves[0].outcome == TOO_FEW
    assert "diverged" in why(found.curves[0])
    assert {one.outcome for one in found.verdicts} == {TOO_FEW}


def test_a_curve_with_a_seed_off_its_scale_says_so():
    toys = [claim for claim in BY_ID.values() if claim.id.startswith("feldman2018.toy_mlp.step")]
    rows = [ClaimRow(claim, Samples.of((1.0, 2.0, 3.0, 4.0, 0.0))) for claim in toys]  # log of 0
    (found,) = judge(rows).curves
    assert (found.outcome, why(found)) == (
        TOO_FEW,
        "5 seeds in every epoch; the scale of an epoch cannot hold one of them",
    )


def test_a_curve_of_several_runs_each_is_judged_point_by_point():
    rows = curve_rows([FIVE] * 3, [0.977] * 3, spread=0.001, n_runs=5)
    assert judge(rows).curves == []


# --- what is printed ------------------------------------------------------------------------------------------------


def test_every_step_is_printed_with_its_numbers():
    # h = .003041; D = .013 is t = 11.867 with 4 degrees of freedom, p = 2.89e-4 < .001; R = 4.12 s
    text = explain(judge([row(FIVE, 0.99)]), judge([row(FIVE, 0.99)]).verdicts[0])
    for part in (
        "D = 0.013 from our mean",
        "p = <.001, two-sided, by t(4)",
        "percentile     100 % of our 5 runs lie below",
        "h = t(4, .975) s sqrt(1 + 1/5) = 0.003041: 95 % of further reports lie from 0.9740 to 0.9800",
        "R = 0.00412:",
        "yes: 5, none without a number",
        "Holm over 1 claims and curves of the document: adjusted p = 0.000289 < 0.05? yes",
        "D = 0.013 > M = 0.005? yes",
        "so             contradicted by 0.013",
        "settled by     5 seeds can settle it",
    ):
        assert part in text


def test_the_steps_of_other_outcomes():
    exact = ClaimRow(BY_ID["feldman2018.worked_example.w"], Samples.of((4.55611,)))
    assert "does every value print as reported? yes" in explain(judge([exact]), judge([exact]).verdicts[0])
    few, none = row(FIVE[:4], 0.977), row((), 0.977, missing_value=MissingValue("no data", "not here"))
    assert "no: 4, none without" in explain(judge([few]), judge([few]).verdicts[0])
    assert "did any seed measure it? no" in explain(judge([none]), judge([none]).verdicts[0])
    # difference .001, se = .001 sqrt(2/5), 8 degrees of freedom: t = .004 / se = 6.3246, whose tail is 1.13e-4
    several = judge([row(FIVE, 0.978, margin=0.005, spread=0.001, n_runs=5)])
    assert "two one-sided tests with M, p = 0.000113 < 0.05? yes" in explain(several, several.verdicts[0])


def test_a_point_shows_its_curve():
    judgement = judge(curve_rows([FIVE] * 3, [0.99] * 3))
    text = explain(judgement, judgement.verdicts[1])
    assert "this point gets the verdict of its curve, one claim of 3 epochs" in text
    assert "smallest p of the epochs times their number: <.001" in text  # 3 x 2.89e-4
    assert text.endswith("so             contradicted by 2.6 margins")  # .013 / .005


def test_the_curve_that_was_seen_before_says_so():
    claims = [claim for claim in BY_ID.values() if claim.id.startswith("alsibahi2019.fcn.epoch")]
    rows = [ClaimRow(claim, Samples.of((0.1, 0.2, 0.3, 0.4, 0.5))) for claim in claims]
    judgement = judge(rows)
    assert SEEN_BEFORE in [one.name for one in judgement.curves]
    assert "was chosen after this curve had been seen" in explain(judgement, judgement.verdicts[1])
    (note,) = curve_verdicts_table(Results([], {}), judgement).remarks
    assert note.startswith(SEEN_BEFORE)
    assert "was chosen after this curve had been seen" in all_text(judgement, {}, 1_000)


def test_tables_never_add_up_end_results_curves_and_computed_numbers():
    exact = ClaimRow(BY_ID["feldman2018.worked_example.w"], Samples.of((4.55611,)))
    rows = [*curve_rows([FIVE] * 3, [0.99] * 3), row(FIVE, 0.978, id="end"), exact]
    results = Results([record("mlp", seed=seed) for seed in (0, 1)], {})
    judgement = judge(rows)
    (first, second) = summary_table(results, judgement).texts()
    assert first[:4] == ["rabanser2017", "1 confirmed", "1 contradicted", "none"]
    assert second[:4] == ["feldman2018", "none", "none", "1 exact"]
    caption = verdicts_table(results, judgement).caption
    assert "1 end result: 1 confirmed. 1 curve with 3 points: 1 contradicted. 1 computed number: 1 exact." in caption
    assert caption.endswith("seeds 0, 1; mean +- standard deviation (number of seeds).")


# --- margins and the command ----------------------------------------------------------------------------------------


def test_margins_follow_the_declared_rule():
    for claim in BY_ID.values():
        if claim.metric == "accuracy":
            assert claim.margin == (0.005 if claim.value > 0.95 else 0.02)
        assert (claim.margin == 0) == is_exact(claim)
    assert sum(map(is_exact, BY_ID.values())) == 10  # nine of the worked example, and the network of zeros


# What the five seeds of commit a76c72c measured of each end result, read from its records.
VALUES = json.loads((Path(__file__).parent / "end_results_a76c72c.json").read_text())


def joint_claims(document, without=tuple(DUPLICATES)):
    return [
        (BY_ID[name].approach, on_its_scale(BY_ID[name], Samples.of(tuple(values))))
        for name, values in VALUES.items()
        if BY_ID[name].source == document and name not in without
    ]


@pytest.mark.parametrize(
    ("document", "independent"),
    [
        ("alsibahi2019", 0.14),
        ("chopra2018", 0.55),
        ("feldman2018", 0.94),
        ("rabanser2017", 0.80),
        ("rabanser2017-first-run", 0.46),
    ],
)
def test_an_independent_computation_agrees(document, independent):
    # It shrank correlations by .3 and gave two digits. 20,000 simulations have a standard error of .0035 at most.
    assert joint_p(document, joint_claims(document), shrinkage=0.3) == pytest.approx(independent, abs=0.02)


def test_what_counts_as_a_duplicate_matters():
    """The joint p lies between .10 and .54, depending on which of these claims count."""
    prose = [name for name in DUPLICATES if ".prose." in name]
    found = []
    for left_out in ("correct", "incorrect", "undecided"):
        without = [*prose, f"chopra2018.random_module.first100_{left_out}"]
        found.append(joint_p("chopra2018", joint_claims("chopra2018", without), shrinkage=0.3))
    assert found == pytest.approx([0.14, 0.34, 0.10], abs=0.02)


def test_duplicates_are_claims():
    assert set(DUPLICATES) <= set(VALUES)
