"""One spread from the seeds of several recipes; only methods that the seeds can tell apart get different places."""

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import kendalltau

from bench.judge.alternatives.named import others, with_others
from bench.judge.alternatives.own import OwnNumber, judge_own
from bench.judge.claims import match
from bench.judge.comparison import CANNOT_TELL, CONFIRMED
from bench.judge.flatness import siblings
from bench.judge.samples import MissingValue, Samples
from bench.judge.stats.on_scale import on_scale, pool
from bench.judge.stats.places import Rank, places, rank_correlation
from bench.judge.stats.rule import judge_one
from bench.judge.stats.verdicts import judge
from bench.show.reasoning import explain
from bench.show.screens.verdict import own_json, own_text
from tests.close import close
from tests.judge.claims import BY_ID, CLAIMS, FINAL, FIVE, Z, results
from tests.synthetic import record


def test_the_pooled_spread_and_bartletts_test_are_scipys():
    source = np.random.default_rng(3)
    groups = [source.normal(mean, sd, n) for mean, sd, n in [(0, 1, 5), (9, 1.5, 8), (-4, 2, 3)]]
    found = pool(*[Samples.of(groups[0].tolist()), [Samples.of(one.tolist()) for one in groups[1:]]])
    centred = np.concatenate([one - one.mean() for one in groups])
    assert (found.freedom, found.n_recipes) == (13, 3)
    assert found.sd == close(math.sqrt((centred**2).sum() / 13))
    assert found.p == close(stats.bartlett(*groups).pvalue)


def test_recipes_that_scatter_unlike_each_other_are_not_pooled():
    narrow, wide = Samples.of(FIVE), Samples.of([10 * value for value in FIVE])
    assert not pool(narrow, [wide]).is_allowed  # F of 100 on 4 and 4 degrees of freedom
    assert pool(narrow, [Samples.of([value + 1 for value in FIVE])]).is_allowed
    assert not pool(Samples.of([0.5] * 5), [narrow]).is_allowed


def test_recipes_with_one_seed_or_a_failed_one_do_not_count():
    failed = Samples.of(FIVE, MissingValue("*", "seed 5 diverged"))
    assert pool(Samples.of(FIVE), [Samples.of(FIVE[:1]), failed, Samples()]) is None


def test_more_degrees_of_freedom_make_a_verdict_sharper():
    # t(4, .975) sqrt(1.2) = 3.0414 standard deviations, t(8, .975) sqrt(1.2) = 2.5261: .00304 and .00253 around .9770
    claim = msgspec.structs.replace(FINAL, stage="final", printed="0.977", margin=0.0026)
    other = Samples.of([value - 0.01 for value in FIVE])
    alone, pooled = judge_one(claim, Samples.of(FIVE)), judge_one(claim, Samples.of(FIVE), others=[other])
    assert (alone.outcome, pooled.outcome) == (CANNOT_TELL, CONFIRMED)
    assert pooled.on_scale.spread == (close(0.001), 8)
    assert pooled.on_scale.half_width == close(stats.t.ppf(0.975, 8) * 0.001 * math.sqrt(1.2))
    assert pooled.on_scale.own_estimate.half_width() == alone.on_scale.half_width
    # t(7, .975) sqrt(1 + 1/8) = 2.508, and with one seed less 2.616
    assert (alone.on_scale.seeds_to_settle, pooled.on_scale.seeds_to_settle) == (8, 5)
    best = judge_one(msgspec.structs.replace(claim, printed="0.9795"), Samples.of(FIVE), others=[other])
    assert best.best_of_three_p < judge_one(best.claim, Samples.of(FIVE)).best_of_three_p


def test_a_report_of_several_runs_and_seeds_off_the_scale_are_not_pooled():
    spread = msgspec.structs.replace(FINAL, spread=0.001, n_runs=5)
    assert on_scale(spread, Samples.of(FIVE), [Samples.of(FIVE)]).pooled is None
    toy = BY_ID["feldman2018.toy_mlp.step25000.loss"]
    assert on_scale(toy, Samples.of([0.1, 0.2]), [Samples.of([0.0, 0.1])]).pooled is None  # log of 0


def accuracies(recipe, mean, approach="mlp", key="mnist/test10k/accuracy", **changes):
    return [record(approach, recipe, seed=seed, metrics={key: mean + 0.001 * z}, **changes) for seed, z in enumerate(Z)]


def test_a_users_number_is_judged_by_the_seeds_of_all_recipes_and_shows_its_own():
    found = results(accuracies("published", 0.98), accuracies("corrected", 0.99), accuracies("other", 0.95, "uniform"))
    answer = judge_own(OwnNumber("mlp", "accuracy", ".9800"), found, CLAIMS)
    assert answer.verdict.on_scale.spread == (close(0.001), 8)
    text = " ".join(own_text(answer, 80).split())
    assert "pooled? yes, Bartlett's test over 2 recipes, p = 1.00: s = 0.001 with 8 degrees of freedom counts;" in text
    assert own_json(answer)["pooled"]["counts"]
    assert own_json(answer)["own_p"] == 1


def test_end_results_are_pooled_over_recipes_by_the_published_protocol_and_say_so():
    key = "heldout10k-of-train/accuracy"
    parts = [
        accuracies(recipe, 0.97, "dropout_fcn", f"mnist/{key}", protocol=protocol)
        for recipe, protocol in (("published", "published"), ("published+shuffle", "published"), ("other", "common"))
    ]
    trained_on = accuracies("corrected", 0.98, "dropout_fcn", f"mnist/{key}")
    found = results(*parts, trained_on)
    claim = BY_ID["alsibahi2019.fcn.test_accuracy"]
    judgement = judge(with_others(match([claim], found), found))
    (verdict,) = judgement.verdicts
    assert verdict.on_scale.pooled.n_recipes == 2  # the corrected recipe trains on the rows that are measured
    assert "pooled?        yes, Bartlett's test over 2 recipes" in explain(judgement, verdict)
    assert len(others(found, "dropout_fcn", "published", "published", "test10k", lambda _: Samples())) == 2


def test_recipes_that_share_their_fits_are_one():
    paper = results(
        accuracies("published", 0.98, "blundell_bbb"),
        accuracies("published+epochs-150", 0.98, "blundell_bbb"),
        accuracies("published+epochs-150+adam", 0.98, "blundell_bbb"),
    )
    assert siblings(paper, "blundell_bbb", "published+epochs-300", "published") == ["published+epochs-150+adam"]


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
