"""A user's number: its metric, margin and verdict, and bad input."""

import json
import math

import pytest

from bench.cli import USAGE
from bench.cli.main import main
from bench.core.errors import ConfigError
from bench.core.store import Store
from bench.judge.alternatives.own import OwnNumber, judge_own
from bench.judge.alternatives.weighing import FAR_OUTSIDE, NOT_MEASURED
from bench.judge.claims import print_interval
from bench.judge.comparison import CANNOT_TELL, CONFIRMED, CONTRADICTED
from bench.judge.stats.papers import claims_by_interpretation, load_papers, paper_claims
from bench.judge.stats.scales import scale_of
from bench.show.outcomes import why
from bench.show.screens.verdict import own_json, own_text
from tests.judge.claims import CLAIMS, Z, results
from tests.synthetic import record

ACCURACY, ENTROPY = "mnist/test10k/accuracy", "noise_gaussian/1000 images/predictive_entropy"


def mlp(recipe, accuracy):
    metrics = {"mnist/train60k/accuracy": 0.999, "mnist/test10k/exotic": 1.0}
    return [
        record("mlp", recipe, seed=seed, metrics={**metrics, ACCURACY: accuracy + 0.0005 * z, ENTROPY: 0.1 + 0.01 * z})
        for seed, z in enumerate(Z)
    ]


RESULTS = results(mlp("published", 0.98), mlp("corrected", 0.99))


def judged(metric="accuracy", reported=".980", **changes):
    return judge_own(OwnNumber("mlp", metric, reported, **changes), RESULTS, CLAIMS)


def test_a_number_like_ours_is_confirmed_and_lies_far_outside_the_alternative():
    # half-width 2.776 * .0005 * sqrt(1.2) = .0015, margin .005
    found = judged()
    assert (found.key, found.verdict.outcome, found.verdict.claim.margin) == (ACCURACY, CONFIRMED, 0.005)
    corrected, *rest = found.against.found
    assert corrected.finding == FAR_OUTSIDE  # (.99 - .9805) / .0005 = 19 standard deviations
    assert {one.finding for one in rest} == {NOT_MEASURED}
    text = own_text(found, 80)
    assert "verdict       confirmed: 95 of 100 new runs of ours would land within the margin" in text
    assert max(map(len, text.splitlines())) <= 80


def test_equal_seeds_give_no_p():
    made = results([record("mlp", "published", seed=seed, metrics={ACCURACY: 0.98}) for seed in range(5)])
    found = judge_own(OwnNumber("mlp", "accuracy", ".985"), made, CLAIMS)
    assert [own_json(found)[name] for name in ("p", "interval", "resolution")] == [None] * 3
    text = own_text(found, 80)
    assert "too few seeds: 5 seeds, all equal" in text
    assert "one of ours?" not in text


def test_a_number_unlike_ours_is_contradicted():
    assert judged(reported=".985").verdict.outcome == CONTRADICTED


@pytest.mark.parametrize(
    ("reported", "printed", "low", "high", "outcome"),
    [  # half-width .0015, margin .005; without decimals, a share is in whole percent
        ("1", "rounded", 0.995, 1.005, CONTRADICTED),
        ("1", "truncated", 1.0, 1.01, CONTRADICTED),
        ("0", "truncated", 0.0, 0.01, CONTRADICTED),
        ("0", "rounded", -0.005, 0.005, CONTRADICTED),
        ("1.0", "rounded", 0.95, 1.05, CANNOT_TELL),  # .03 from our mean to the far end
        (".98", "rounded", 0.975, 0.985, CANNOT_TELL),  # .005
        (".980", "rounded", 0.9795, 0.9805, CONFIRMED),
    ],
)
def test_a_number_with_few_digits_confirms_nothing(reported, printed, low, high, outcome):
    found = judged(reported=reported, printed=printed).verdict
    interval = print_interval(found.claim)
    assert (interval.low, interval.high) == (low, high)
    assert found.outcome == outcome
    assert "less than the margin" not in why(found)


def test_how_many_seeds_settle_a_number_is_said():
    # With four degrees of freedom of the corrected recipe, t(k + 3, .975) sqrt(1 + 1/k) .0005 <= margin: .00126 with
    # five seeds, .00122 with six, never below .00098.
    for margin, said in [(0.005, "5 seeds"), (0.00123, "6 seeds"), (0.00097, "no number of seeds")]:
        found = judged(reported=".9800", printed="exact", margin=margin)
        assert f"settled by?   {said} can settle it" in own_text(found, 80)
        assert own_json(found)["seeds_to_settle"] == (None if said.startswith("no") else int(said[0]))


def test_another_recipe_has_the_published_one_as_its_alternative():
    found = judged(reported=".990", recipe="corrected")
    assert (found.verdict.outcome, found.against.found[0].alternative.recipe) == (CONFIRMED, "published")


@pytest.mark.parametrize(
    ("printed", "low", "high"), [("rounded", 0.985, 0.995), ("truncated", 0.99, 1.0), ("exact", 0.99, 0.99)]
)
def test_the_last_digit_says_which_numbers_print_alike(printed, low, high):
    interval = print_interval(judged(reported=".99", printed=printed).verdict.claim)
    assert (interval.low, interval.high) == (pytest.approx(low, abs=1e-6), pytest.approx(high, abs=1e-6))


def test_margins_are_those_of_the_documents_in_nats_and_can_be_given():
    # .03 bits are .03 ln 2 nats
    assert judged("predictive_entropy", "0.10").verdict.claim.margin == pytest.approx(0.03 * math.log(2))
    assert judged("exotic", "1.0", margin=0.5).verdict.claim.margin == 0.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metric": "acuracy"}, "unknown metric of mlp by protocol published 'acuracy'; .* did you mean 'accuracy'"),
        ({"metric": "a\x1b[2Jb\n" * 999}, "unknown metric"),
        ({"reported": "98.0"}, "98.0 is not a possible accuracy; give a number from 0 to 1"),
        (
            {"metric": "predictive_entropy", "reported": "-0.1"},
            "not a possible predictive_entropy; give a number from 0 to 2.303",
        ),
        ({"reported": "nan"}, "not finite"),
        ({"reported": "1e999"}, "not finite"),
        ({"reported": "1e-999999999"}, "not finite or too large"),
        ({"reported": "about .98"}, "is not a number"),
        ({"metric": "exotic", "reported": "1"}, "no margin is declared for exotic on mnist; give --margin"),
        ({"recipe": "published+sigmoid-512"}, "no finished record of mlp published.sigmoid-512 by protocol published"),
        ({"recipe": "better"}, "unknown recipe of mlp 'better'"),
        ({"protocol": "commom"}, "unknown protocol 'commom'.*did you mean 'common'"),
    ],
)
def test_bad_input_is_one_line(changes, message):
    with pytest.raises(ConfigError, match=message) as caught:
        judged(**changes)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "protocol", "split"),
    [
        ("noise_uniform/refusal_rate", "common", "100 images"),
        ("mnist/accuracy", "common", "10000 images"),
        ("letters/auroc_predictive_entropy", "common", ""),  # no count of images
        ("mnist/rotated_15/accuracy", "shift", "1000 images"),  # not 15
        ("mnist/rotated_15/ece", "shift", ""),
        ("mnist/test10k/accuracy", "published", "test10k"),
    ],
)
def test_the_images_of_a_share_are_known(key, protocol, split):
    """Near 0 and 1, a share of few images is judged on the logit scale, which needs their number."""
    records = [record("mlp", protocol=protocol, seed=seed, metrics={key: 0.02 + 0.01 * z}) for seed, z in enumerate(Z)]
    answer = judge_own(OwnNumber("mlp", key, "0.09", protocol=protocol, margin=0.02), results(records), CLAIMS)
    assert answer.verdict.claim.split == split
    assert (scale_of(answer.verdict.claim).name == "logit") == (split in ("100 images", "1000 images"))


def test_a_metric_of_several_places_must_be_given_whole():
    places = ["notmnist459/all 459/refusal_rate", "noise_uniform/100 images/refusal_rate"]
    records = [
        record("pyro_random_module", seed=seed, metrics={place: 0.5 + 0.01 * z for place in places})
        for seed, z in enumerate(Z)
    ]
    found = results(records)
    with pytest.raises(ConfigError, match="measured in several places; give one of noise_uniform/100 images"):
        judge_own(OwnNumber("pyro_random_module", "refusal_rate", "0.5"), found, CLAIMS)
    assert judge_own(OwnNumber("pyro_random_module", places[0], "0.5"), found, CLAIMS).key == places[0]


def with_error(seed, error, rest):
    """Make a record of the paper's network: an error after each of 200 epochs, and another on held-out images."""
    epochs = [{"epoch": epoch, "mnist/test10k/error": error if epoch == 200 else rest} for epoch in range(1, 201)]
    metrics = {"mnist/test10k/error": error, "mnist/heldout10k-of-train/error": 0.03}
    return record("blundell_bbb", seed=seed, metrics=metrics, epochs=epochs)


def test_a_number_of_the_paper_is_judged_on_test_images_with_the_margin_of_its_table():
    found = results([with_error(seed, 0.0175 + 0.0002 * z, rest=0.02 + 0.0002 * z) for seed, z in enumerate(Z)])
    claims = [*CLAIMS, *claims_by_interpretation(paper_claims(load_papers()))]
    answer = judge_own(OwnNumber("blundell_bbb", "error", ".0175"), found, claims)
    # half-width 2.776 * .0002 * sqrt(1.2) = .0006, margin .001
    assert (answer.key, answer.verdict.outcome, answer.verdict.claim.margin) == (
        "mnist/test10k/error",
        CONFIRMED,
        0.001,
    )
    assert answer.verdict.sample.mean == pytest.approx(0.0175)
    after_150 = next(one for one in answer.against.found if one.alternative.recipe == "published+epochs-150")
    assert after_150.measured.mean == pytest.approx(0.02)  # read from the records of the longer fits
    with pytest.raises(ConfigError, match="is not a possible error; give a number from 0 to 1"):
        judge_own(OwnNumber("blundell_bbb", "error", "1.75"), found, claims)
    with pytest.raises(ConfigError, match="by protocol common under these conditions; --protocol published has some"):
        judge_own(OwnNumber("blundell_bbb", "error", ".0175", protocol="common"), found, claims)


def test_the_command_takes_every_approach_that_has_records(tmp_path, capsys):
    store = Store(tmp_path)
    for seed, z in enumerate(Z):
        store.write(with_error(seed, 0.0175 + 0.0002 * z, rest=0.02))
    own = [
        "verdict",
        "--results",
        str(tmp_path),
        "--baseline",
        "none",
        "--metric",
        "error",
        "--reported",
        ".0175",
        "--approach",
    ]
    assert main([*own, "blundell_bbb"]) == 0
    assert "confirmed: " in capsys.readouterr().out
    assert main([*own, "deep_ensembl"]) == USAGE
    error = capsys.readouterr().err
    assert "blundell_bbb" in error
    assert "did you mean 'deep_ensemble'" in error


def test_the_command(tmp_path, capsys):
    store = Store(tmp_path)
    for one in RESULTS.records:
        store.write(one)
    place = ["verdict", "--results", str(tmp_path), "--approach", "mlp"]
    assert main([*place, "--metric", "accuracy", "--reported", ".980"]) == 0
    assert "against what? " in capsys.readouterr().out
    assert main([*place, "--metric", "accuracy", "--reported", ".980", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["verdict"], answer["key"], answer["alternatives"][0]["finding"]) == (
        CONFIRMED,
        ACCURACY,
        FAR_OUTSIDE,
    )
    for wrong in (
        ["--metric", "accuracy"],
        ["--metric", "accuracy", "--reported", ".98", "--margin", "-1"],
        ["--metric", "accuracy", "--reported", ".98", "--document", "feldman2018"],
        ["--metric", "accuracy", "--reported", ".98", "feldman2018.mlp.noise_entropy"],
    ):
        assert main([*place, *wrong]) == USAGE
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert error.count("\n") == 1
