"""Verdicts: the rule on worked numbers, coverage and false alarms by simulation, Holm's example, the command."""

import dataclasses
import json
import math
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bench.cli import INCOMPLETE, USAGE
from bench.cli.main import main
from bench.judge.claims import PUBLISHED, ClaimRow, load_claims
from bench.judge.results import Results
from bench.judge.samples import Gap, Sample
from bench.judge.stats import verdicts
from bench.judge.stats.evidence import Deciding, Evidence, Hypothesis
from bench.judge.stats.prediction import HolmStep, p_value
from bench.judge.stats.verdicts import (
    CONSISTENT,
    EQUIVALENT,
    EXACT,
    INCONCLUSIVE,
    NOT_REPRODUCED,
    NOT_RUN,
    OUTCOMES,
    UNRESOLVABLE,
    WITHIN,
    judge,
)
from bench.show.tables.verdicts import explain, reason, summary_table, verdicts_table
from tests.synthetic import record

CLAIMS = {claim.id: claim for claim in load_claims()}
FINAL = CLAIMS["rabanser2017.mxnet_bbb.epoch10.test_accuracy"]  # 0.9775, exact, margin .005


def row(values, reported=None, gap=None, **changes):
    """Return a claim of an exactly printed number with these seeds."""
    claim = dataclasses.replace(FINAL, **{"stage": "final", **changes})
    if reported is not None:
        claim = dataclasses.replace(claim, value=reported, printed=repr(reported))
    return ClaimRow(claim, Sample(tuple(values), gap))


def verdict(*arguments, **changes):
    (found,) = judge([row(*arguments, **changes)])
    return found


# mean 0.977; squares of (-2, -1, 0, 1, 2) sqrt(.4) add up to 4, so the standard deviation is 0.001
FIVE = tuple(0.977 + 0.001 * z * math.sqrt(0.4) for z in (-2, -1, 0, 1, 2))


# --- the rule -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reported", "margin", "outcome"),
    [  # h = 0.0030414 throughout
        (0.978, 0.005, WITHIN),  # D = .001: .001 + .00304 <= .005
        (0.9795, 0.005, CONSISTENT),  # D = .0025: .0025 + .00304 > .005, but .0025 <= .00304 <= .005
        (0.99, 0.005, NOT_REPRODUCED),  # D = .013 is 11.9 standard errors of one more run: p = 3e-4
        (0.9795, 0.002, INCONCLUSIVE),  # D = .0025 > .002, p = .083 now, .012 with ever more seeds
        (0.9785, 0.0017, UNRESOLVABLE),  # D = .0015 <= .0017 < 1.96 s: never within, never precise, never different
    ],
)
def test_each_outcome(reported, margin, outcome):
    found = verdict(FIVE, reported, margin=margin)
    assert found.outcome == outcome
    assert found.half_width == pytest.approx(0.0030414, abs=1e-6)
    assert found.difference == pytest.approx(0.977 - reported)
    assert (found.seeds_needed is not None) == (outcome == INCONCLUSIVE)


def test_the_number_of_seeds_that_would_settle_it_is_the_smallest():
    k = verdict(FIVE, 0.9795, margin=0.002).seeds_needed

    def p(n):  # of 2.5 standard deviations (float32 digits of the report take 1e-4 of one)
        return 2 * stats.t.sf(2.4999 / math.sqrt(1 + 1 / n), n - 1)

    assert p(k) < 0.05 <= p(k - 1)


def spread(mean, sd):
    """Return five seeds with this mean and standard deviation."""
    return tuple(mean + sd * z * math.sqrt(0.4) for z in (-2, -1, 0, 1, 2))


# The half-width of k seeds, in units of s: t(k - 1, .975) sqrt(1 + 1/k)
#     k                5       6       7       8       9       ever more
#     half-width / s   3.0414  2.7765  2.6159  2.5081  2.4307  1.9600


@pytest.mark.parametrize(
    ("distance", "sd", "margin", "expected"),
    [
        # feldman2018.mlp.epoch07.test_accuracy: D / s = 2.5709 and margin / s = 2.7308, with h between for k = 7
        (0.0047073, 0.0018310, 0.005, Deciding(7, 7)),
        # alsibahi2019.fcn.epoch10.train_loss: 2.4999 and 2.8868: for k = 6, 7 and 8
        (0.25978, 0.10392, 0.3, Deciding(6, 8)),
        # rabanser2017.mxnet_bbb.epoch09.train_loss: 4.2905 and 6.1475, and h is below D for 5 seeds already
        (1.3958, 0.32533, 2.0, None),
        # D / s = 1.5 < 1.96, so that D <= h for ever; margin / s = 2.5: from k = 9 on
        (1.5, 1.0, 2.5, Deciding(9, None)),
        # D / s = 2.5, margin / s = 4.95: consistent now and to k = 8, within from h <= 2.45 on, which is k = 9
        (2.5, 1.0, 4.95, Deciding(6, None)),
        # D / s = 2.55, margin / s = 4.9: consistent for k = 6 and 7, open at 8 to 10, within from h <= 2.35 on, which
        # is k = 11 (2.3726 for 10 seeds, 2.3272 for 11)
        (2.55, 1.0, 4.9, Deciding(11, None)),
    ],
)
def test_seeds_that_decide_only_until_more_are_added(distance, sd, margin, expected):
    evidence = Evidence(distance, sd, margin, Hypothesis(10, 0.01, 10, HolmStep(9, 1.0)))
    assert evidence.deciding(5) == expected
    later = [k for k in range(6, 200) if evidence.decides(k)]
    if expected is None:
        assert later == []
    else:
        assert later[-1] == (expected.last or 199)
        assert {*range(expected.first, later[-1] + 1)} <= {*later}
        assert expected.first - 1 not in later or expected.first == 6


def test_seeds_that_decide_only_for_a_while_settle_nothing():
    found = verdict(spread(0.977, 0.001831), 0.977 + 0.0047073, margin=0.005)
    assert (found.outcome, found.seeds_needed) == (INCONCLUSIVE, None)
    assert "only 7 seeds would decide, with more it is open again" in found.reason


@pytest.mark.parametrize(
    ("distance", "margin", "n_claims", "words"),
    [  # s = .001, 1.96 s = .00196, h = .00304
        (0.0015, 0.0017, 1, "seed noise exceeds the margin 0.0017"),
        (0.0035, 0.0036, 1, "beyond our seed noise but within the margin 0.0036"),
        # 2.1 s: p = .0357 in the end, times 2 claims .0715
        (0.0021, 0.0020, 2, "would still be 0.071 with ever more seeds"),
    ],
)
def test_the_reason_says_what_stands_in_the_way(distance, margin, n_claims, words):
    rows = [row(FIVE, 0.977 + distance, margin=margin, id=f"c{i}", split=f"s{i}") for i in range(n_claims)]
    found = judge(rows)[0]
    assert found.outcome == UNRESOLVABLE
    assert words in found.reason


def test_fewer_than_five_seeds_decide_nothing():
    found = verdict(FIVE[:4], 0.977)
    assert found.outcome == INCONCLUSIVE
    assert "4 of the 5 seeds" in found.reason
    assert found.difference is not None


def test_a_failed_seed_is_not_dropped():
    found = verdict(FIVE, 0.977, gap=Gap("*", "1 of 6 seeds not counted (seed 3 diverged: train_loss is nan)"))
    assert found.outcome == INCONCLUSIVE
    assert "diverged" in found.reason


def test_nothing_measured_says_why():
    found = verdict((), 0.977, gap=Gap("no data", "notmnist459 is not here"))
    assert (found.outcome, found.reason) == (NOT_RUN, "notmnist459 is not here")


def test_what_prints_as_reported_is_no_distance():
    # truncated .97 stands for .97 to below .98, which holds the mean
    found = verdict(FIVE, 0.97, precision=0.01, precision_kind="truncated")
    assert (found.distance, found.outcome) == (0, WITHIN)


def test_computed_numbers_are_compared_by_their_digits():
    claim = CLAIMS["feldman2018.worked_example.w"]  # 4.5561
    (good,) = judge([ClaimRow(claim, Sample((4.55611,)))])
    (bad,) = judge([ClaimRow(claim, Sample((4.5563,)))])
    assert (good.outcome, bad.outcome) == (EXACT, NOT_REPRODUCED)
    # the mean of these prints as reported, neither of them does: every seed counts
    (either,) = judge([ClaimRow(claim, Sample((4.5559, 4.5563)))])
    assert either.outcome == NOT_REPRODUCED


def test_a_curve_is_one_hypothesis():
    # Ten epochs and nine single claims, all with the same p. The first single has Holm's factor 10, and no later one
    # may have less than its 10 p. The curve's own p is ten times that of an epoch, the largest of the ten hypotheses:
    # factor 1, so each epoch has 10 p too.
    curve = [row(FIVE, 0.99, id=f"curve{epoch}", stage=f"epoch:{epoch}") for epoch in range(1, 11)]
    alone = [row(FIVE, 0.99, id=f"alone{n}", split=f"split{n}") for n in range(9)]
    found = {one.claim.id: one.p_adjusted for one in judge([*curve, *alone])}
    p = p_value(judge([curve[0]])[0].distance, np.std(FIVE, ddof=1), 5)
    assert {round(value / p, 6) for value in found.values()} == {10}


def _factor(*rows):
    """Return how often an unadjusted p-value the adjusted ones of these equal claims are."""
    p = p_value(judge([rows[0]])[0].distance, np.std(FIVE, ddof=1), 5)
    (found,) = {round(one.p_adjusted / p, 6) for one in judge(rows)}
    return found


def test_the_adjustment_is_over_the_claims_of_one_document():
    alike = [row(FIVE, 0.99, id=f"claim{n}") for n in range(3)]
    apart = [row(FIVE, 0.99, id=f"claim{n}", source=f"document{n}") for n in range(3)]
    assert (_factor(*alike), _factor(*apart)) == (3, 1)


@pytest.mark.parametrize("field", ["approach", "metric", "dataset", "split"])
def test_curves_of_different_numbers_are_different_hypotheses(field):
    # three epochs of one and four of another: as one curve they would have 7 times the p of an epoch
    one = [row(FIVE, 0.99, id=f"e{n}", stage=f"epoch:{n}") for n in (1, 2, 3)]
    other = [row(FIVE, 0.99, id=f"o{n}", stage=f"epoch:{n}", **{field: "another"}) for n in (1, 2, 3, 4)]
    assert _factor(*one) == 3
    # the shorter curve has the smaller p, 3 times an epoch's: factor 2; the longer one's is 4, but no less than those 6
    assert _factor(*one, *other) == 6


def test_an_interval_beyond_one_is_called_rough():
    # h = .0030414: .998 + .00304 > 1, and the images of a fraction cannot be there
    near = [value + 0.021 for value in FIVE]
    assert "rough" in verdict(near, 0.999, margin=0.01).reason
    assert "rough" not in verdict(FIVE, 0.978, margin=0.01).reason


def test_a_kept_hypothesis_keeps_those_after_it():
    # distances that give p = .03 and .04 for five seeds: .03 x 2 = .06 is kept, so .04 x 1 is kept as well
    rows = []
    for name, p in (("c", 0.03), ("b", 0.04)):
        distance = 0.001 * math.sqrt(1.2) * stats.t.isf(p / 2, 4)
        rows.append(row(FIVE, 0.977 + distance, margin=0.001, id=name, split=name))
    found = {one.claim.id: one for one in judge(rows)}
    assert {name: one.p_adjusted for name, one in found.items()} == pytest.approx({"c": 0.06, "b": 0.06}, rel=1e-3)
    assert NOT_REPRODUCED not in {one.outcome for one in found.values()}


@given(st.lists(st.floats(-10, 10), max_size=8), st.floats(-10, 10), st.floats(0, 5))
def test_exactly_one_outcome_and_a_reason(values, reported, margin):
    found = verdict(values, reported, margin=margin)
    assert found.outcome in OUTCOMES
    assert found.reason


# --- step by step, and the tables -----------------------------------------------------------------------------------


def steps(found):
    """Return the lines of an explanation that say yes or no, and their labels."""
    lines = [line.split(maxsplit=1) for line in explain(Results([], {}), found).splitlines()[1:]]
    return {label: text for label, text in lines if "? " in text}, [label for label, _ in lines]


@pytest.mark.parametrize(
    ("reported", "margin", "outcome", "label", "text"),
    [  # h = .003041; D = .013 is t = 11.867, p = 2.89e-4; p of .0025 is below .05 once h < .0025, with 9 seeds
        (0.978, 0.005, WITHIN, "within", "D + h = 0.004041 <= 0.005? yes"),
        (0.9795, 0.005, CONSISTENT, "consistent", "D = 0.0025 <= h = 0.003041 <= 0.005? yes"),
        (0.99, 0.005, NOT_REPRODUCED, "differs", "D = 0.013 > 0.005 and adjusted p = 0.000289 < 0.05? yes"),
        (0.9795, 0.002, INCONCLUSIVE, "more", "would any number of seeds from 6 to 1000 decide? from 9 on"),
        (0.9785, 0.0017, UNRESOLVABLE, "more", "would any number of seeds from 6 to 1000 decide? no"),
    ],
)
def test_the_step_that_decides_is_printed(reported, margin, outcome, label, text):
    found = verdict(FIVE, reported, margin=margin)
    said, _ = steps(found)
    assert found.outcome == outcome
    assert said["enough"].endswith("yes: 5, none without a number")
    assert said[label] == text


def test_the_steps_of_other_outcomes():
    (exact,) = judge([ClaimRow(CLAIMS["feldman2018.worked_example.w"], Sample((4.55611,)))])
    assert steps(exact)[0]["rule"] == "a computed number: does every value print as reported? yes"
    assert "4, none without" in steps(verdict(FIVE[:4], 0.977))[0]["enough"]
    assert steps(verdict((), 0.977, gap=Gap("no data", "not here")))[0]["seeds"] == "any that measured it? no"
    # difference .001, se = .001 sqrt(2/5), 8 degrees of freedom: t = .004 / se = 6.3246, whose tail is 1.13e-4
    several = verdict(FIVE, 0.978, margin=0.005, spread=0.001, n_runs=5)
    assert several.outcome == EQUIVALENT
    assert steps(several)[0]["equivalent"] == "two one-sided tests with the margin, p = 0.000113 < 0.05? yes"


def test_the_adjustment_is_printed_with_its_factors():
    # Three epochs and one single claim. t = D / (.001 sqrt(1.2)) with 4 degrees of freedom: D = .002 is t = 1.8257,
    # p = .1419; D = .013 is t = 11.867, p = 2.887e-4. The single claim is first of 2, so that 2 x 2.887e-4 = 5.77e-4 is
    # the floor of the curve, whose factor is 1: 3 x .1419 x 1 = .426.
    curve = [row(FIVE, 0.979, id=f"e{epoch}", stage=f"epoch:{epoch}") for epoch in (1, 2, 3)]
    first, *_, alone = judge([*curve, row(FIVE, 0.99, id="alone", split="s")])
    text = explain(Results([], {}), first)
    assert "p          0.142 that one more run is that far off" in text
    assert "curve      p times 3 for the epochs of its curve, the smallest p is 0.142" in text
    assert "Holm       times 1 at rank 2 of the document's 2 hypotheses: 0.426, at least 0.000577," in text
    assert "Holm       times 2 at rank 1 of the document's 2 hypotheses: 0.000577, at most 1" in explain(
        Results([], {}), alone
    )


def made(seed, wall_s, valid, **timings):
    """Return a record that a cost is read from."""
    return record(FINAL.approach, seed=seed, timings={"wall_s": wall_s, "valid": valid, **timings})


@pytest.mark.parametrize(
    ("records", "expected"),
    [  # one more seed is needed
        ([made(0, 60.0, True), made(1, 600.0, False)], "; 1 more takes about 60 s here"),
        (
            [made(0, 600.0, False), made(1, 6.0, False, batched=4)],
            "; 1 more takes about 10 min here, on a busy machine",
        ),
        ([made(0, 6.0, False, batched=4)], ""),
    ],
)
def test_what_more_seeds_take_is_of_times_that_count(records, expected):
    found = verdict(FIVE[:4], 0.977)
    assert reason(Results(records, {}), found) == found.reason + expected


def test_tables_name_units_and_say_no_spread_that_they_do_not_show():
    results = Results([made(0, 1.0, True), made(1, 1.0, True)], {})
    found = judge([row(FIVE, 0.978), row((), 0.977, unit="nats per batch", id="other")])
    table = verdicts_table(results, found)
    assert table.columns[:3] == ("claim", "reported", "unit")
    assert [row[2] for row in table.rows] == ["fraction", "nats per batch"]
    assert "standard deviation (number of seeds)" in table.caption
    caption = summary_table(results, found).caption
    assert caption.endswith("Profile full, cpu, float32, seeds 0, 1.")


# --- margins and the command ----------------------------------------------------------------------------------------


def test_margins_follow_the_declared_rule():
    for claim in CLAIMS.values():
        if claim.metric == "accuracy":
            assert claim.margin == (0.005 if claim.value > 0.95 else 0.02)
        assert (claim.margin == 0) == verdicts.is_exact(claim)
    assert sum(map(verdicts.is_exact, CLAIMS.values())) == 10  # nine of the worked example, and the network of zeros


def test_the_command_has_a_line_for_every_claim(tmp_path, capsys):
    assert main(["verdict", "--results", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found) == 303
    assert {line["verdict"] for line in found} == {EXACT, NOT_RUN}  # the worked example needs no records


def test_a_damaged_record_stands_in_for_its_seed(tmp_path, capsys):
    """Seven good seeds would decide; that the eighth cannot be read must not be forgotten."""
    folder = tmp_path / "records" / "linear_bbb"
    folder.mkdir(parents=True)
    files = [
        path for path in (PUBLISHED.parents[1] / "records" / "linear_bbb").glob("published__published__epoch1__*.json")
    ]
    for path in files:
        shutil.copy(path, folder)
    place = ["--profile", "epoch1", "--results", str(tmp_path), "--json"]
    asked = ["verdict", "feldman2018.bbb.epoch01.test_loss", *place]
    assert main(asked) == 0
    (whole,) = json.loads(capsys.readouterr().out)
    assert (whole["n"], whole["gap"], whole["verdict"]) == (8, None, WITHIN)
    broken = sorted(folder.iterdir())[3]
    broken.write_text(broken.read_text()[:500])
    assert main(asked) == INCOMPLETE
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["n"], found["verdict"]) == (7, INCONCLUSIVE)
    assert broken.name in found["gap"]
    # a good record of the seed in its place counts, and nothing is said of an older one
    again = folder / f"published__published__epoch1__seed{broken.name.partition('seed')[2][0]}__ffffffff.json"
    broken.rename(again)
    shutil.copy(PUBLISHED.parents[1] / "records" / "linear_bbb" / broken.name, folder)
    assert main(asked) == INCOMPLETE
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["n"], found["gap"]) == (8, None)
    assert main(["verdict", *asked[1:-1]]) == INCOMPLETE
    assert "left out" not in capsys.readouterr().out
    (folder / broken.name).unlink()
    broken = again
    # of another profile, or a name that is no record's: nothing to stand in for
    for name in ("published__published__full__seed3__00000000.json", "notes.json"):
        broken.rename(folder / name)
        assert main(asked) == INCOMPLETE
        (found,) = json.loads(capsys.readouterr().out)
        assert (found["n"], found["gap"]) == (7, None)
        broken = folder / name


def test_the_command_explains_one_claim(tmp_path, capsys):
    assert main(["verdict", "feldman2018.bbb.noise_entropy", "--results", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "a tenth of a bit" in text
    assert "no record of this cell" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["feldman2018.bbb.noise_entrop"], "nearest: feldman2018.bbb.noise_entropy"),
        (["--document", "nobody"], "nobody"),
    ],
)
def test_nonsense_is_one_line(arguments, message, tmp_path, capsys):
    assert main(["verdict", *arguments, "--results", str(tmp_path)]) == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
