"""How often the rule of the verdicts errs, by simulation."""

import math

import numpy as np
from scipy import stats

from bench.judge.stats.prediction import half_width
from bench.judge.stats.verdicts import CONSISTENT, NOT_REPRODUCED, WITHIN, judge
from tests.judge.test_verdicts import row


def test_false_alarms_of_a_document_are_rare():
    # 20 claims that are all true, 300 documents, a margin of zero, so that only the p-value protects: any "not
    # reproduced" in at most 5 % of the documents. Standard error of that share .0126.
    source = np.random.default_rng(2)
    alarms = 0
    for _ in range(300):
        runs = source.normal(size=(20, 6)).tolist()
        rows = [row(r[:5], r[5], margin=0.0, id=f"c{i}", split=f"s{i}") for i, r in enumerate(runs)]
        with_p = [one for one in judge(rows) if one.p_adjusted is not None]
        assert len(with_p) == 20
        alarms += any(one.outcome == NOT_REPRODUCED for one in with_p)
    assert alarms / 300 < 0.05 + 4 * 0.0126


def share(n_cases, seed, shift, margin, wanted):
    """Return how often a claim has one of the outcomes; seeds and report differ by `shift` standard deviations."""
    runs = np.random.default_rng(seed).normal(size=(n_cases, 6))
    rows = [
        row(r[:5].tolist(), float(r[5] + shift), margin=margin, id=f"claim{i}", source=f"doc{i}")
        for i, r in enumerate(runs)
    ]
    return sum(one.outcome in wanted for one in judge(rows)) / n_cases


def test_a_true_report_is_rejected_in_5_of_100_cases():
    # one claim a document, so that Holm changes nothing; margin 0: 4,000 cases, standard error .0034
    assert abs(share(4_000, 3, 0.0, 0.0, {NOT_REPRODUCED}) - 0.05) < 4 * 0.0034


def test_a_margin_only_makes_rejection_rarer():
    # with a margin of one standard deviation, some of the 5 % have D below it
    assert 0 < share(1_000, 3, 0.0, 1.0, {NOT_REPRODUCED}) <= share(1_000, 3, 0.0, 0.0, {NOT_REPRODUCED})


def test_a_report_far_off_is_not_called_reproduced():
    # 6 standard deviations off: D is about 6 +- 1.1, and h about 3 s, so that D <= 3 is a matter of 1 in 300. The power
    # of t > 2.776 with 4 degrees of freedom at a shift of 6 / sqrt(1.2) = 5.48 is .98 by the noncentral t distribution.
    assert share(1_000, 4, 6.0, 3.0, {WITHIN, CONSISTENT}) < 0.01
    power = stats.nct.sf(half_width(1.0, 5) / math.sqrt(1.2), 4, 6 / math.sqrt(1.2))
    assert abs(share(1_000, 4, 6.0, 3.0, {NOT_REPRODUCED}) - power) < 4 * math.sqrt(power * (1 - power) / 1_000) + 0.003


def test_a_curve_that_is_true_is_rejected_in_at_most_5_of_100_cases():
    # twenty epochs that move together or apart are one hypothesis; 400 documents, standard error .0109
    source = np.random.default_rng(9)
    for common in (0.0, 3.0):
        alarms = 0
        for _ in range(400):
            moves = common * source.normal(size=(1, 6)) + source.normal(size=(20, 6))
            rows = [
                row(r[:5], r[5], margin=0.0, id=f"e{i}", stage=f"epoch:{i + 1}") for i, r in enumerate(moves.tolist())
            ]
            alarms += any(one.outcome == NOT_REPRODUCED for one in judge(rows))
        assert alarms / 400 < 0.05 + 4 * 0.0109
