"""The precision table on records made up so that every number can be worked out by hand."""

import math

import pytest
from msgspec import structs

from bench.show.tables.precision import MIN_SEEDS, precision_table
from bench.show.tables.render import comma_separated
from tests.synthetic import changed, manifests, record
from tests.tables import by_column


def made(approach="mlp", precision="float32", seed=0, accuracy=None, **changes):
    if accuracy is not None:
        changes["metrics"] = {"mnist/accuracy": accuracy}
    record_of = record(approach, "published", "common", seed=seed, precision=precision, **changes)
    return changed(record_of, provenance=structs.replace(record_of.provenance, products="made-up means"))


def table(*records, profile="full"):
    return precision_table(records, profile, "cpu", manifests())


def line(found, metric):
    (row,) = [row for row in by_column(found) if row["metric"] == metric]
    return row


@pytest.mark.parametrize(("shift", "verdict"), [(0.03, "no"), (0.035, "yes")])
def test_the_noise_is_that_of_the_float32_seeds(shift, verdict):
    """0.90, 0.92, 0.94: standard deviation 0.02; of a mean difference of three 0.02 sqrt(2/3), twice that 0.0327."""
    values = (0.90, 0.92, 0.94)
    plain = [made(seed=seed, accuracy=value) for seed, value in enumerate(values)]
    other = [made(precision="bf16", seed=seed, accuracy=value + shift) for seed, value in enumerate(values)]
    assert len(values) == MIN_SEEDS
    row = line(table(*plain, *other), "accuracy")
    assert (row["n"].value, row["beyond noise"]) == (3, verdict)
    assert row["noise"].value == pytest.approx(0.02)
    assert row["float32"].sample.mean == pytest.approx(0.92)


def test_more_float32_seeds_than_pairs():
    """One pair, three float32 seeds: the noise is theirs, and a single difference may be 2 sqrt 2 0.02 = 0.057."""
    plain = [made(seed=seed, accuracy=value) for seed, value in enumerate((0.90, 0.92, 0.94))]
    row = line(table(*plain, made(seed=1, precision="bf16", accuracy=0.97)), "accuracy")
    assert row["difference"].value == pytest.approx(0.05)
    assert row["beyond noise"] == "no"


def test_fewer_seeds_tell_no_noise():
    found = table(*(made(seed=0, precision=name, accuracy=0.9) for name in ("float32", "bf16")))
    assert line(found, "accuracy")["beyond noise"] == "unknown"
    assert any("fewer than 3 float32 seeds" in note for note in found.notes)
    assert (
        "mlp, bf16, full: 0 of 0 metrics with a known noise are beyond it; 1 seed, products by made-up means."
        in found.notes
    )


def test_only_equal_seeds_profiles_and_devices_are_compared():
    other = made(precision="bf16", seed=1, accuracy=0.9)
    found = table(made(accuracy=0.9), other)
    assert not found.rows
    assert found.notes == ("mlp, bf16, full: no float32 record of seed 1 to compare with.",)
    for name, value in (("profile", "smoke"), ("device", "cuda")):
        assert table(made(seed=1, accuracy=0.9), changed(other, **{name: value})).notes[0].startswith("No records")


def test_a_precision_that_could_not_be_had_says_why():
    found = table(made(), made("mxnet_bbb", "bf16", outcome="skipped", reason="MXNet computes in float32"))
    assert found.notes == ("mxnet_bbb, bf16, full: skipped, MXNet computes in float32.",)


def test_the_main_metrics_of_the_test_set_come_first_and_what_is_no_number_not_at_all():
    metrics = {"letters/auroc_predictive_entropy": 0.5, "mnist/nll": 0.1, "mnist/accuracy": 0.9, "mnist/ece": math.nan}
    found = table(*(made(precision=name, metrics=metrics) for name in ("float32", "bf16")))
    assert [row["metric"] for row in by_column(found)] == ["accuracy", "nll", "auroc_predictive_entropy"]


@pytest.mark.parametrize(("shift", "shown"), [(0.0, ["accuracy"]), (0.1, ["accuracy", "brier"])])
def test_another_metric_is_shown_if_it_changes_beyond_noise(shift, shown):
    """0.10, 0.11, 0.12: a mean difference of three is beyond noise from 2 x 0.01 sqrt(2/3) = 0.016."""
    briers = (0.10, 0.11, 0.12)
    plain = [made(seed=seed, metrics={"mnist/accuracy": 0.9, "mnist/brier": one}) for seed, one in enumerate(briers)]
    other = [
        made(precision="bf16", seed=seed, metrics={"mnist/accuracy": 0.9, "mnist/brier": one + shift})
        for seed, one in enumerate(briers)
    ]
    found = table(*plain, *other)
    assert [row["metric"] for row in by_column(found)] == shown
    assert found.notes[0].startswith(f"mlp, bf16, full: {len(shown) - 1} of 2 metrics")


def test_two_precisions_have_lines_of_their_own():
    found = table(*(made(precision=name, accuracy=0.9) for name in ("float32", "bf16", "tf32")))
    assert {row["precision"] for row in by_column(found)} == {"bf16", "tf32"}


def test_one_epoch_stands_in_where_there_is_no_full_run():
    """mlp has both and is shown by its full run; linear_bbb's one epoch is compared with one epoch."""
    pairs = [
        made(approach, precision, profile=profile, accuracy=value)
        for approach, profile, value in (("mlp", "full", 0.9), ("mlp", "epoch1", 0.5), ("linear_bbb", "epoch1", 0.7))
        for precision in ("float32", "bf16")
    ]
    rows = by_column(table(*pairs, made("linear_bbb", accuracy=0.99)))  # a full run without a partner
    assert [(row["approach"], row["profile"], row["float32"].sample.mean) for row in rows] == [
        ("mlp", "full", 0.9),
        ("linear_bbb", "epoch1", 0.7),
    ]


def test_a_full_run_without_numbers_does_not_hide_one_epoch():
    ended = made(precision="bf16", outcome="out-of-time", reason="not finished")
    pair = [made(precision=name, profile="epoch1", accuracy=0.5) for name in ("float32", "bf16")]
    assert [row["profile"] for row in by_column(table(made(), ended, *pair))] == ["epoch1"]
    assert table(made(), ended).notes == ("mlp, bf16, full: out-of-time, not finished.",)
    assert not table(*pair, profile="smoke").rows  # nor is a shorter profile shown by a longer one


def test_without_records_it_says_how_to_make_them():
    found = table(made(accuracy=0.9))
    assert not found.rows
    assert "--precision bf16" in found.notes[0]
    assert comma_separated(found).startswith("approach,precision,profile,data set,metric")
