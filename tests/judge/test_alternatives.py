"""The alternatives to a claim's recipe: which there are, by which protocol they are measured, and what is said."""

import math

import pytest
from msgspec import structs

from bench.judge.alternatives.named import CONTROL, CORRECTED, CORRECTION, VARIANT, Alternative, alternatives
from bench.judge.alternatives.weighing import (
    COMMON,
    FAR_OUTSIDE,
    FEW_SEEDS,
    NOT_MEASURED,
    PUBLISHED,
    RATIO,
    Against,
    against,
    weigh,
)
from bench.judge.samples import Samples
from bench.plan.registry import manifests
from bench.show.tables.alternatives import against_lines, alternatives_table, in_brief, ratio_text, sentences
from tests.judge.claims import BY_ID, Z, results
from tests.synthetic import record

FORCED = BY_ID["chopra2018.random_module.forced_accuracy"]  # 0.89, truncated
OTHER = Alternative(CORRECTED, FORCED.approach, "corrected")


def five(mean, sd=0.006):
    return tuple(mean + sd * z for z in Z)


def weighed(published=(), corrected=(), common=(), common_corrected=(), claim=FORCED):
    """Weigh a claim on made-up seeds of the two recipes, by the published and by the common protocol."""
    given = {
        ("published", PUBLISHED): published,
        ("corrected", PUBLISHED): corrected,
        ("published", COMMON): common,
        ("corrected", COMMON): common_corrected,
    }
    recipes = ("published", "corrected")
    pairs = {p: [Samples.of(tuple(given[recipe, p])) for recipe in recipes] for p in (PUBLISHED, COMMON)}
    return weigh(claim, OTHER, pairs)


def said(one):
    return sentences(Against(FORCED, (one,)))


def test_alternatives_are_the_fits_that_the_ablation_compares_each_once():
    found = alternatives(manifests()["linear_bbb"])
    assert [(one.kind, one.name) for one in found] == [
        (CORRECTED, "linear_bbb corrected"),
        (CORRECTION, "linear_bbb published+attached-mu"),
        (CORRECTION, "linear_bbb published+prior-variance"),
        (VARIANT, "linear_bbb published+constant-rate"),
        (VARIANT, "linear_bbb published+wide-start"),
        (CONTROL, "mlp published"),
        (CONTROL, "mlp published+sigmoid-512"),
        (CONTROL, "mlp published+sigmoid-512-uniform-init"),
    ]
    assert alternatives(manifests()["toy_bbb"]) == []


def test_the_network_without_bayes_is_the_control_where_an_ablation_has_none():
    controls = {
        name: [one.name for one in alternatives(manifests()[name]) if one.kind == CONTROL] for name in manifests()
    }
    assert controls["pyro_random_module"] == controls["mxnet_bbb"] == ["mlp published"]
    assert controls["mlp"] == controls["toy_mlp"] == []


def test_a_recipe_that_trains_on_the_rows_that_the_document_holds_out_is_no_alternative():
    (one, *_) = against(BY_ID["alsibahi2019.fcn.test_accuracy"], results()).found
    assert (one.alternative.recipe, one.finding) == ("corrected", NOT_MEASURED)
    assert one.reason == "it trains on the rows that the document holds out"


def test_the_ratio_of_two_recipes_at_a_number():
    # scale sqrt(1.2) s for both. The report lies at the published mean and 2 scales from the other:
    # (1 + 2^2 / 4)^(5/2) = 5.657
    claim = structs.replace(FORCED, printed="0.89", precision_kind="exact")
    one = weighed(five(0.89), five(0.89 + 2 * 0.006 * math.sqrt(1.2)), claim=claim)
    assert (one.finding, one.protocol) == (RATIO, PUBLISHED)
    assert one.ratio == pytest.approx(2**2.5, rel=1e-3)  # float32's resolution of .89 has a width
    assert ratio_text(one) == "5.7"
    assert not one.is_overwhelming


def test_a_ratio_above_a_thousand_is_only_bounded_and_gives_the_strongest_sentence():
    # 9 s from the other mean: t = 9 / sqrt(1.2) = 8.22, (1 + 8.22^2 / 4)^(5/2) = 1,350; no number beyond 1,000 is told
    claim = structs.replace(FORCED, precision_kind="exact")
    one = weighed(five(0.89), five(0.89 + 9 * 0.006), claim=claim)
    assert (one.finding, ratio_text(one)) == (RATIO, ">1000")
    assert one.ratio == pytest.approx(1_350, rel=0.01)
    assert said(one) == [
        "0.89 is over 1000 times less likely under our corrected recipe (5 seeds): the report can hardly have come "
        "from a run without the mistake"
    ]


def test_beyond_ten_standard_deviations_there_is_no_number():
    one = weighed(five(0.895), five(0.962, 0.0017))
    assert (one.finding, ratio_text(one)) == (FAR_OUTSIDE, "far outside")
    assert one.is_overwhelming
    # a report that is far from both recipes does not speak for either: .89 lies 10 s below .95
    neither = weighed(five(0.95), five(0.9999, 0.0001))
    assert neither.ratio > 1000
    assert not neither.is_overwhelming
    assert said(neither) == []


def test_a_number_that_speaks_for_the_alternative_is_printed_as_a_fraction():
    one = weighed(five(0.93), five(0.895))
    assert ratio_text(one).startswith("1/")
    assert said(one) == []


@pytest.mark.parametrize(("mean", "finding"), [(0.9, FEW_SEEDS), (0.962, FAR_OUTSIDE)])
def test_few_seeds_give_no_ratio(mean, finding):
    one = weighed(five(0.895), five(mean, 0.0017)[:3])
    assert (one.finding, one.ratio, ratio_text(one)) == (finding, None, finding)
    assert said(one) == []


def test_what_was_not_run_names_its_command_and_seeds_without_spread_are_no_distribution():
    one = against(FORCED, results()).found[0]
    assert one.finding == NOT_MEASURED
    assert "run pyro_random_module --recipe corrected --protocol published --seeds 5`" in one.reason
    assert weighed(five(0.89), (0.895,) * 5).finding == NOT_MEASURED
    # a network that always gives another number is as far away as can be
    never = weighed(five(0.895), (0.0,) * 5)
    assert (never.finding, never.shared, never.ratio) == (FAR_OUTSIDE, 0.0, None)


def test_the_common_protocol_stands_in_with_a_caution_until_the_published_one_is_measured():
    one = weighed(five(0.895), (), five(0.896), five(0.962, 0.0017))
    assert one.protocol == COMMON
    assert said(one)[0].endswith("both recipes are measured by the common protocol here, the report was not")
    assert in_brief([Against(FORCED, (one,))], {}) == [
        f"Over 1000 times less likely under our corrected recipe: {FORCED.id} (common protocol)."
    ]
    assert weighed(five(0.895), five(0.962), five(0.896), five(0.962)).protocol == PUBLISHED
    # three seeds by the published protocol give no ratio, five by the common one do
    assert weighed(five(0.895), five(0.962)[:3], five(0.896), five(0.962)).protocol == COMMON


def test_a_common_protocol_that_moves_the_published_recipe_stands_in_for_nothing():
    one = weighed(five(0.895), (), five(0.95), five(0.962, 0.0017))
    assert (one.finding, one.shared) == (NOT_MEASURED, None)
    assert "the common protocol measures something else: it gives the published recipe 0.95" in one.reason


def test_records_are_found_by_protocol_and_in_the_claims_unit():
    # 1 bit is .6931 nats; the document's entropy is that of mean log-probabilities
    claim = BY_ID["feldman2018.bbb.noise_entropy"]
    records = [
        record("linear_bbb", recipe, protocol, seed=seed, metrics={key: math.log(2) * (mean + sd * z)})
        for seed, z in enumerate(Z)
        for recipe, protocol, key, mean, sd in (
            ("published", PUBLISHED, "noise_gaussian/1000 images, not renormalised/predictive_entropy", 0.98, 0.05),
            ("published", COMMON, "noise_gaussian/geometric_entropy", 0.99, 0.05),
            ("corrected", COMMON, "noise_gaussian/geometric_entropy", 0.78, 0.04),
        )
    ]
    one = against(claim, results(records)).found[0]
    assert (one.protocol, one.published.mean, one.measured.mean) == (COMMON, pytest.approx(0.99), pytest.approx(0.78))


def test_a_number_tests_nothing_where_every_alternative_would_give_much_the_same():
    same, apart = weighed(five(0.895), five(0.896)), weighed(five(0.895), five(0.962))
    few = weighed(five(0.895), five(0.896)[:3])
    assert same.shared > 0.5 > apart.shared
    assert Against(FORCED, (same,)).tests_nothing
    assert in_brief([Against(FORCED, (same,))], {FORCED.id: "forced"}) == [
        "Every alternative gives these numbers about as often, so they test nothing: forced."
    ]
    assert not Against(FORCED, (same, apart)).tests_nothing
    assert not Against(FORCED, (same, few)).tests_nothing  # three seeds are too few to say so
    assert not Against(FORCED, ()).tests_nothing


def test_the_table_has_a_line_for_each_alternative_and_names_what_is_missing():
    records = [
        record("pyro_random_module", recipe, seed=seed, metrics={"mnist/test10k/accuracy": mean + 0.002 * z})
        for seed, z in enumerate(Z)
        for recipe, mean in (("published", 0.895), ("corrected", 0.962))
    ]
    made = results(records)
    found = [against(BY_ID[name], made) for name in (FORCED.id, "chopra2018.random_module.refused")]
    table = alternatives_table(made, found)
    first, control, second, _ = table.texts()
    assert control[2] == "mlp published"
    assert first[1:5] == ["0.89", "corrected", PUBLISHED, "0.8950 +- 0.0020 (5)"]
    assert first[-1] == FAR_OUTSIDE
    assert second[-3:] == ["not measured [2]", "-", "-"]
    assert any("hardly have come from a run without the mistake" in note for note in table.notes)
    assert against_lines(found[0])[1].startswith("corrected: far outside; it gives 0.962")
