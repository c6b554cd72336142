"""One spread from the seeds of several recipes: Bartlett's test, what is left out, and sharper verdicts."""

import math

import msgspec
import numpy as np
from scipy import stats

from bench.judge.alternatives.named import others, with_others
from bench.judge.alternatives.own import OwnNumber, judge_own
from bench.judge.claims import match
from bench.judge.comparison import CANNOT_TELL, CONFIRMED
from bench.judge.samples import MissingValue, Samples
from bench.judge.shorter import siblings
from bench.judge.stats.on_scale import on_scale
from bench.judge.stats.pooling import pool
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
