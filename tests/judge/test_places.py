"""Places of methods: only methods that the seeds can tell apart get different places."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from bench.judge.stats.places import Rank, places, rank_correlation


def by_seed(*values):
    return dict(enumerate(values))


def test_two_methods_far_apart_are_ranked_and_two_alike_share_their_places():
    """a - c is about -1 with spread .02: t = -1 / (.02 / sqrt 5) = -112, and p < 1e-7, even times 3.

    a - b is -.01 with spread .0187: t = -.01 / (.0187 / sqrt 5) = -1.2, p = .30: not told apart.
    """
    a = by_seed(1.00, 1.02, 0.98, 1.01, 0.99)
    b = by_seed(1.02, 1.01, 1.01, 1.00, 1.01)
    c = by_seed(2.01, 2.00, 1.99, 2.02, 1.98)
    low = places({"a": a, "b": b, "c": c}, is_higher_better=False)
    assert low == {"a": Rank(1, 2), "b": Rank(1, 2), "c": Rank(3, 3)}
    assert [str(low[name]) for name in "ac"] == ["1-2", "3"]
    high = places({"a": a, "b": b, "c": c}, is_higher_better=True)
    assert high == {"a": Rank(2, 3), "b": Rank(2, 3), "c": Rank(1, 1)}


def test_the_pairing_by_seed_tells_apart_what_means_cannot():
    """Seeds differ by 1 and methods by .1 to .12 in every seed: the paired t is .11 / (.01 / sqrt 5) = 25."""
    one = by_seed(1, 2, 3, 4, 5)
    other = by_seed(1.10, 2.12, 3.11, 4.10, 5.12)
    assert places({"one": one, "other": other}, is_higher_better=True)["other"] == Rank(1, 1)
    shuffled = by_seed(5.12, 1.10, 4.10, 2.12, 3.11)
    assert places({"one": one, "other": shuffled}, is_higher_better=True)["other"] == Rank(1, 2)


def test_holm_counts_all_pairs():
    """A pair with p = .035 alone is told apart. Among three pairs, p is multiplied by three, which is above .05."""
    one, other = by_seed(0, 0, 0, 0, 0), by_seed(1.0, 2.0, 0.6, 1.5, 0.1)  # mean 1.04, sd .74: t = 3.1, p = .035
    assert places({"one": one, "other": other}, is_higher_better=True)["other"] == Rank(1, 1)
    third = by_seed(0.5, 0.9, 0.2, 0.9, 0.1)
    assert places({"one": one, "other": other, "third": third}, is_higher_better=True)["other"].worst > 1


@pytest.mark.parametrize("other", [{}, {7: 3.0}, {0: 100.0}])
def test_without_two_common_seeds_nothing_is_told_apart(other):
    assert places({"one": by_seed(1.0, 1.1), "other": other}, is_higher_better=True)["one"] == Rank(1, 2)


@given(st.lists(st.lists(st.floats(-10, 10), min_size=3, max_size=3), min_size=1, max_size=5))
def test_places_are_between_first_and_last_and_turn_round_with_the_sense(values):
    numbers = {str(index): by_seed(*row) for index, row in enumerate(values)}
    low, high = (places(numbers, is_higher_better=sense) for sense in (False, True))
    for name in numbers:
        assert 1 <= low[name].best <= low[name].worst <= len(numbers)
        assert high[name] == Rank(len(numbers) + 1 - low[name].worst, len(numbers) + 1 - low[name].best)


def test_the_rank_correlation_counts_pairs_in_the_same_and_in_the_opposite_order():
    """Of 6 pairs 5 keep their order: (5 - 1) / 6. With one tie on a side: 5 pairs keep it, 5 / sqrt(6 x 5) = .913."""
    assert rank_correlation([1, 2, 3, 4], [1, 2, 4, 3]) == pytest.approx(4 / 6)
    assert rank_correlation([1, 2, 3, 4], [1, 2, 3, 3]) == pytest.approx(5 / 30**0.5)
    assert rank_correlation([1, 2], [5, 5]) == 0.0


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=12))
def test_the_rank_correlation_is_scipys(both):
    one, other = zip(*both, strict=True)
    if len(set(one)) > 1 and len(set(other)) > 1:  # scipy gives NaN where all are equal
        assert rank_correlation(one, other) == pytest.approx(kendalltau(one, other).statistic)
