"""Quantities at equal coverage: worked rows, ties, and what holds for any rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.core.errors import ConfigError
from bench.measure.metrics.classification import row_hits
from bench.measure.metrics.coverage import accepted, refused_for, wrong_among
from bench.measure.metrics.refusal import risk_coverage
from tests.close import close

CONFIDENCE = np.array([4.0, 3.0, 2.0, 2.0])
HITS = np.array([True, True, False, True])


def test_worked_rows():
    # the surest two are right; of three answers, the third is one of two tied rows, of which one is wrong: .5 of 3
    assert wrong_among(CONFIDENCE, HITS, 0.5) == 0
    assert wrong_among(CONFIDENCE, HITS, 0.75) == close(0.5 / 3)
    assert wrong_among(CONFIDENCE, HITS, 1) == close(1 / 4)
    # at .75 the threshold is 2, and one of the two tied rows is answered: so half of the outside rows at 2 are
    outside = np.array([5.0, 2.0, 2.0, 1.0])
    assert accepted(CONFIDENCE, outside, 0.75) == close((1 + 0.5 * 2) / 4)
    assert accepted(CONFIDENCE, outside, 0.5) == close(1 / 4)
    # risks after 1 to 4 answers: 0, 0, .5/3, .25
    assert refused_for(CONFIDENCE, HITS, 0.2) == close(1 / 4)
    assert refused_for(CONFIDENCE, HITS, 0.1) == close(2 / 4)
    assert refused_for(CONFIDENCE, ~HITS, 0.1) is None


rows = st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=6)


@given(rows)
def test_ties_give_the_mean_over_all_orders(given_rows):
    """The plain form: sort by confidence, in every order of tied rows, and count mistakes among the first ones."""
    confidence, hits = (np.array(part) for part in zip(*given_rows, strict=True))
    n_answers = max(1, round(0.5 * len(hits)))
    orders = [
        order for order in itertools.permutations(range(len(hits))) if (np.diff(confidence[list(order)]) <= 0).all()
    ]
    plain = np.mean([(~hits[list(order[:n_answers])]).mean() for order in orders])
    assert wrong_among(confidence.astype(float), hits, 0.5) == close(plain)


@given(rows)
def test_the_curve_of_risk_is_the_same(given_rows):
    confidence, hits = (np.array(part) for part in zip(*given_rows, strict=True))
    probs = np.stack([0.6 + 0.1 * confidence, 0.4 - 0.1 * confidence], axis=1)
    labels = np.where(hits, 0, 1)
    assert (row_hits(probs, labels) == hits).all()
    curve = risk_coverage(probs, labels)
    shares = np.arange(1, len(hits) + 1) / len(hits)
    assert [wrong_among(probs[:, 0], hits, share) for share in shares] == close(curve.risk)


@given(rows, st.sampled_from([0.3, 0.9, 1.0]))
def test_the_rows_themselves_are_accepted_as_often_as_asked(given_rows, coverage):
    confidence = np.array([one for one, _ in given_rows], dtype=float)
    assert accepted(confidence, confidence, coverage) == close(
        max(1, round(coverage * len(confidence))) / len(confidence)
    )


def test_a_coverage_that_answers_nothing_is_refused():
    for coverage in (0, 1.1):
        with pytest.raises(ConfigError, match="above 0 and at most 1"):
            wrong_among(CONFIDENCE, HITS, coverage)
    with pytest.raises(ConfigError, match="of 0 rows"):
        accepted(np.array([]), CONFIDENCE, 0.5)
