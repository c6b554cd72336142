"""The precision table on records made up so that every number can be worked out by hand."""

import math

import numpy as np
import pytest
from msgspec import structs

from bench.show.tables.precision import MIN_SEEDS, auroc_error, noise_of, precision_table
from bench.show.tables.render import comma_separated
from tests.synthetic import changed, manifests, record
from tests.tables import by_column

TIMED = {"valid": True, "reason": "", "epoch_s_median": 2.0, "predict_draw_images_per_s": 100.0}


def made(approach="mlp", precision="float32", seed=0, **changes):
    record_of = record(approach, "published", "common", seed=seed, precision=precision, **changes)
    return changed(record_of, provenance=structs.replace(record_of.provenance, products="made-up means"))


def table(*records, rows=None):
    return precision_table(records, "full", "cpu", manifests(), lambda _: rows or {})


def line(found, metric):
    (row,) = [row for row in by_column(found) if row["metric"] == metric]
    return row


def labels(**sizes):
    return {f"{name}/label": np.zeros(size, dtype=np.int8) for name, size in sizes.items()}


@pytest.mark.parametrize(("after", "verdict"), [(0.96, "no"), (0.85, "no"), (0.99, "yes"), (0.81, "yes")])
def test_a_proportion_against_the_error_of_its_rows(after, verdict):
    """p = 0.9 of 100 rows: sqrt(0.09 / 100) = 0.03; a difference of two values may be 2 sqrt 2 0.03 = 0.0849."""
    pair = [made(metrics={"mnist/accuracy": 0.9}), made(precision="bf16", metrics={"mnist/accuracy": after})]
    row = line(table(*pair, rows=labels(mnist=100)), "accuracy")
    assert row["noise"].value == pytest.approx(0.03)
    assert (row["noise from"], row["n"].value) == ("proportion", 100)
    assert row["difference"].value == pytest.approx(after - 0.9)
    assert row["beyond noise"] == verdict


@pytest.mark.parametrize(("shift", "verdict"), [(0.03, "no"), (0.035, "yes")])
def test_three_seeds_are_their_own_noise(shift, verdict):
    """0.90, 0.92, 0.94: standard deviation 0.02; of a mean difference of three 0.02 sqrt(2/3), twice that 0.0327."""
    values = (0.90, 0.92, 0.94)
    plain = [made(seed=seed, metrics={"mnist/accuracy": value}) for seed, value in enumerate(values)]
    other = [
        made(seed=seed, precision="bf16", metrics={"mnist/accuracy": value + shift})
        for seed, value in enumerate(values)
    ]
    assert len(values) == MIN_SEEDS
    row = line(table(*plain, *other, rows=labels(mnist=100)), "accuracy")
    assert (row["noise from"], row["n"].value, row["beyond noise"]) == ("seeds", 3, verdict)
    assert row["noise"].value == pytest.approx(0.02)
    assert row["float32"].sample.mean == pytest.approx(0.92)


def test_more_float32_seeds_than_pairs():
    """One pair, three float32 seeds: the noise is theirs, and a single difference may be 2 sqrt 2 0.02 = 0.057."""
    plain = [made(seed=seed, metrics={"mnist/accuracy": value}) for seed, value in enumerate((0.90, 0.92, 0.94))]
    other = made(seed=1, precision="bf16", metrics={"mnist/accuracy": 0.97})
    row = line(table(*plain, other), "accuracy")
    assert row["difference"].value == pytest.approx(0.05)
    assert row["beyond noise"] == "no"


def test_a_mean_over_rows():
    """Entropies 0, 1, 2, 3: squared deviations from 1.5 add up to 5, sd sqrt(5/3), of the mean sqrt(5/3)/2 = 0.6455."""
    rows = {**labels(mnist=4), "mnist/predictive_entropy": np.array([0, 1, 2, 3], dtype=np.float16)}
    rows["mnist/expected_entropy"] = np.array([0, 1, 1, 1], dtype=np.float16)
    noise = noise_of("mnist/predictive_entropy", [1.5], {}, rows)
    assert (noise.kind, noise.n) == ("rows", 4)
    assert noise.value == pytest.approx(math.sqrt(5 / 3) / 2)
    # mutual information of the rows 0, 0, 1, 2: mean 0.75, squares 0.5625 x 2 + 0.0625 + 1.5625 = 2.75
    assert noise_of("mnist/mutual_information", [0.75], {}, rows).value == pytest.approx(math.sqrt(2.75 / 3) / 2)


def test_accuracy_of_the_accepted_counts_the_accepted():
    """0.9 of the 25 that a rate of 0.75 leaves of 100: sqrt(0.09 / 25) = 0.06."""
    noise = noise_of(
        "mnist/selective_accuracy", [0.9], record("mlp", metrics={"mnist/refusal_rate": 0.75}), labels(mnist=100)
    )
    assert (noise.value, noise.n) == (pytest.approx(0.06), 25)
    assert (
        noise_of("mnist/selective_accuracy", [0.9], record("mlp", metrics={"mnist/refusal_rate": 1.0}), labels(mnist=9))
        is None
    )


def test_a_proportion_of_none_is_known_to_one_row():
    assert noise_of("mnist/refusal_rate", [0.0], {}, labels(mnist=200)).value == 1 / 200


def test_false_alarms_are_of_the_images_inside():
    """0.5 of 25 digits: sqrt(0.25 / 25) = 0.1, however many foreign images there are."""
    assert noise_of("letters/fpr95_max_probability", [0.5], {}, labels(letters=900, mnist=25)).value == 0.1


@pytest.mark.parametrize(("m", "n"), [(100, 100), (3, 50), (1000, 10_000)])
def test_the_error_of_chance_is_that_of_the_rank_sum_test(m, n):
    """At A = 1/2 the variance of the Mann-Whitney statistic is (m + n + 1) / (12 m n), Mann and Whitney 1947."""
    assert auroc_error(0.5, m, n) == pytest.approx(math.sqrt((m + n + 1) / (12 * m * n)))
    assert auroc_error(1.0, m, n) == pytest.approx(0, abs=1e-7)


def test_the_error_of_an_area():
    """A = 0.8, m = n = 2: Q1 = 2/3, Q2 = 32/45, A^2 = 0.64; (0.16 + 2/75 + 16/225) / 4 = 0.064444."""
    assert auroc_error(0.8, 2, 2) == pytest.approx(math.sqrt((0.16 + 2 / 75 + 16 / 225) / 4))
    noise = noise_of("letters/auroc_max_probability", [0.8], {}, labels(letters=2, mnist=2))
    assert (noise.kind, noise.n) == ("ROC", 2)


def test_what_the_rows_do_not_tell_is_unknown():
    metrics = {"mnist/ece": 0.01, "mnist/nll": 0.1}
    found = table(made(metrics=metrics), made(precision="bf16", metrics=metrics), rows=labels(mnist=100))
    for name in ("ece", "nll"):
        assert line(found, name)["beyond noise"] == "unknown"
    assert any("3 float32 seeds" in note for note in found.notes)
    assert (
        "mlp, bf16, full: 0 of 0 metrics with a known noise are beyond it; 1 seed(s), products by made-up means."
        in found.notes
    )


def test_times_are_compared_where_both_count():
    metrics = {"mnist/accuracy": 0.9}
    fast = {**TIMED, "epoch_s_median": 1.5, "predict_draw_images_per_s": 250.0}
    found = table(made(metrics=metrics, timings=TIMED), made(precision="bf16", metrics=metrics, timings=fast))
    assert line(found, "s an epoch")["ratio"].value == 0.75
    assert line(found, "draws x images/s")["ratio"].value == 2.5
    busy = {**fast, "valid": False, "reason": "other load"}
    found = table(made(metrics=metrics, timings=TIMED), made(precision="bf16", metrics=metrics, timings=busy))
    assert line(found, "s an epoch")["ratio"].gap.reason == "times of bf16 do not count: other load"


def test_times_of_two_machines_are_not_compared():
    metrics = {"mnist/accuracy": 0.9}
    there = made(precision="bf16", metrics=metrics, timings=TIMED)
    there = changed(there, provenance=structs.replace(there.provenance, vector_instructions="AVX512"))
    found = table(made(metrics=metrics, timings=TIMED), there)
    assert "different machines" in line(found, "s an epoch")["ratio"].gap.reason


def test_only_equal_seeds_profiles_and_devices_are_compared():
    metrics = {"mnist/accuracy": 0.9}
    other = made(precision="bf16", seed=1, metrics=metrics)
    found = table(made(metrics=metrics), other)
    assert not found.rows
    assert found.notes == ("mlp, bf16, full: no float32 record of seed 1 to compare with.",)
    for name, value in (("profile", "smoke"), ("device", "cuda")):
        assert table(made(seed=1, metrics=metrics), changed(other, **{name: value})).notes[0].startswith("No records")


def test_a_precision_that_could_not_be_had_says_why():
    found = table(made(), made("mxnet_bbb", "bf16", outcome="skipped", reason="MXNet computes in float32"))
    assert found.notes == ("mxnet_bbb, bf16, full: skipped, MXNet computes in float32.",)


def test_the_test_set_comes_first():
    metrics = {"letters/refusal_rate": 0.5, "mnist/nll": 0.1, "mnist/accuracy": 0.9}
    found = table(made(metrics=metrics), made(precision="bf16", metrics=metrics))
    assert [row["metric"] for row in by_column(found)][:3] == ["accuracy", "nll", "refusal_rate"]


def test_two_precisions_have_lines_of_their_own():
    metrics = {"mnist/accuracy": 0.9}
    found = table(*(made(precision=name, metrics=metrics) for name in ("float32", "bf16", "tf32")))
    assert {row["precision"] for row in by_column(found)} == {"bf16", "tf32"}


def test_one_epoch_stands_in_where_there_is_no_full_run():
    """mlp has both and is shown by its full run; linear_bbb's one epoch is compared with one epoch."""
    pairs = [
        made(approach, precision, profile=profile, metrics={"mnist/accuracy": value})
        for approach, profile, value in (("mlp", "full", 0.9), ("mlp", "epoch1", 0.5), ("linear_bbb", "epoch1", 0.7))
        for precision in ("float32", "bf16")
    ]
    full_run_without_partner = made("linear_bbb", metrics={"mnist/accuracy": 0.99})
    rows = by_column(table(*pairs, full_run_without_partner))
    shown = [(r["approach"], r["profile"], r["float32"].sample.mean) for r in rows if r["metric"] == "accuracy"]
    assert shown == [("mlp", "full", 0.9), ("linear_bbb", "epoch1", 0.7)]


def test_a_full_run_without_numbers_does_not_hide_one_epoch():
    ended = made(precision="bf16", outcome="out-of-time", reason="not finished")
    pair = [made(precision=name, profile="epoch1", metrics={"mnist/accuracy": 0.5}) for name in ("float32", "bf16")]
    assert [row["profile"] for row in by_column(table(made(), ended, *pair))] == [
        "epoch1"
    ] * 3  # accuracy and two times
    assert table(made(), ended).notes == ("mlp, bf16, full: out-of-time, not finished.",)


def test_a_shorter_profile_is_not_shown_by_a_longer_one():
    pair = [made(precision=name, profile="epoch1", metrics={"mnist/accuracy": 0.5}) for name in ("float32", "bf16")]
    assert not precision_table(pair, "smoke", "cpu", manifests(), lambda _: {}).rows


def test_without_records_it_says_how_to_make_them():
    found = table(made(metrics={"mnist/accuracy": 0.9}))
    assert not found.rows
    assert "--precision bf16" in found.notes[0]
    assert comma_separated(found).startswith("approach,precision,profile,data set,metric")
