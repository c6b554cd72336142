"""Every table: its rows, reasons for missing values, and the conditions that its caption names."""

import math
from typing import Any

import pytest
from msgspec import structs

from bench.core.errors import ConfigError
from bench.core.metric_table import unit_of
from bench.core.project import RESULTS
from bench.core.reasons import Reason
from bench.core.records import Record
from bench.judge.claims import load_claims
from bench.judge.results import Results, select, without_commits
from bench.judge.samples import metrics_of
from bench.show.inputs import Inputs
from bench.show.table import Measured
from bench.show.tables.common import ACCURACY, CALIBRATION, DETECTION, OOD, REFUSAL
from bench.show.tables.further import TOYS
from bench.show.tables.registry import TABLES, all_tables
from tests.synthetic import manifests, of_seed, record
from tests.tables import Tables, inputs, line, shown_rows

CLAIMS = load_claims()


# all tables


def full_records(seed: int = 0) -> list[Record]:
    """Return records of every trained run with a few numbers, as a full run leaves them."""
    variant = record("mxnet_bbb", "published+scale-mixture", "common", seed=seed, metrics={"mnist/accuracy": 0.9})
    return [*of_seed(seed), variant]


@pytest.mark.parametrize("records", [[], full_records()], ids=["nothing", "a run"])
def test_every_table_is_there_without_a_silent_blank(records):
    built = all_tables(inputs(records))
    optional = {"methods", "methods_fashion", "uci"}  # of other records
    assert {kind.name for kind in TABLES if "*" not in kind.name} - optional <= set(built)
    assert {"answer_linear_bbb", "ablation_mlp", "audit_feldman2018"} <= set(built)
    assert set(built) <= {name for kind in TABLES for name in kind.questions()}
    empty = {"metrics", "unfinished", "provenance", "confidence", "choice", "verdict_curves", "blundell2015"}
    empty |= {"sure", "coverage"}  # of scores
    for table in built.values():
        assert table.rows or table.name in empty
        for row in table.texts():
            # A paper may have no note; made-up records have no data.
            assert all(text.strip() for text in row) or table.name in ("papers", "provenance"), row


def diverged_record(seed: int) -> Record:
    return record("mlp", seed=seed, outcome="diverged", reason="loss is nan")


def test_every_claim_has_a_line_with_a_number_or_a_reason():
    rows = shown_rows(Tables(*full_records())["verdicts"])
    assert [row["claim"] for row in rows] == [claim.id for claim in CLAIMS]
    assert all((row["measured"] == "-") == (row["verdict"] == "not run") == (row["difference"] == "-") for row in rows)
    unmeasured = next(row for row in rows if row["claim"] == "chopra2018.random_module.refused")
    assert unmeasured["why"] == "the record has no 'mnist/test10k/refusal_rate'"
    partial = [record("mlp", seed=0, epochs=[{"epoch": 1, "mnist/test10k/accuracy": 0.9}]), diverged_record(1)]
    table = Tables(*partial)["verdicts"]
    assert line(table, "feldman2018.mlp.epoch01.test_accuracy")["measured"] == "0.9000 *"
    assert "*: 1 of 2 seeds not counted (seed 1 diverged: loss is nan)" in table.notes


def test_rows_keep_the_order_of_the_approaches_and_strangers_follow():
    built = Tables(record("zeta", "published", "common"), *full_records())
    order = [row["approach"] for row in shown_rows(built["accuracy"])]
    assert order == [
        "dropout_fcn",
        "pyro_hidden_layer",
        "pyro_random_module",
        "mlp",
        "linear_bbb",
        "mxnet_bbb",
        "mxnet_bbb + scale-mixture",
        "uniform",
        "zeta",
    ]
    assert {row["approach"] for row in shown_rows(built["toys"])} == {"toy_mlp", "toy_bbb"}


def test_conditions_are_never_mixed():
    records = [
        record("mlp"),
        record("mlp", profile="epoch1"),
        record("mlp", device="cuda"),
        record("mlp", precision="x"),
    ]
    assert select(records) == records[:1]
    assert select(records, profile="epoch1") == records[1:2]
    assert select(records, device="cuda") == records[2:3]
    for other in records[1:]:
        with pytest.raises(ConfigError, match="cannot mix records of full, cpu, float32 and "):
            Results([records[0], other], manifests())


def test_the_newest_record_of_a_trained_run_and_seed_counts_and_the_others_are_mentioned():
    def at(time: str, value: float) -> Record:
        made = record("mlp", "published", "common", key=time, metrics={"mnist/accuracy": value})
        return structs.replace(made, provenance=structs.replace(made.provenance, measured=time))

    table = Tables(at("2026-02-02", 0.2), at("2026-03-03", 0.3), at("2026-01-01", 0.1))["accuracy"]
    assert line(table, "mlp")["published x common"] == "0.3000"
    assert "Left out: 2 older records of the same trained run and seed." in table.notes


def test_captions_and_notes_name_profile_device_seeds_machine_and_versions():
    records = [*full_records(0), *full_records(1), *full_records(2)]
    table = Tables(*records)["accuracy"]
    assert table.conditions == "Profile full, cpu, float32, seeds 0-2; mean +- standard deviation (number of seeds)."
    assert table.origin == ["Made on made-up CPU, 2 threads; python 3.11.9, torch 2.13.0. Code: 0123456789."]
    assert without_commits(table.origin[0]) == table.origin[0]
    assert without_commits(f"{table.origin[0][:-1]} / 1.") == (
        "Made on made-up CPU, 2 threads; python 3.11.9, torch 2.13.0. Code: 2 commits (table provenance)."
    )
    # What shows no standard deviations does not explain them.
    assert Tables(*records)["verdict_summary"].conditions == "Profile full, cpu, float32, seeds 0-2."
    assert "seeds 0, 2;" in Tables(*full_records(0), *full_records(2))["accuracy"].conditions
    assert Tables(*full_records(7))["speed"].conditions == "Profile full, cpu, float32, seed 7."


# declared tables


@pytest.fixture(scope="module")
def shipped() -> Inputs:
    return Inputs(RESULTS)


DECLARED = [ACCURACY, CALIBRATION, DETECTION, OOD, REFUSAL, TOYS]


@pytest.mark.parametrize("declared", DECLARED, ids=lambda one: one.name)
def test_a_column_shows_its_metric_of_the_records_of_its_row(declared, shipped):
    records = {one.key: one for one in shipped.results.records}
    titles = [title for column in declared.columns for title in column.titles]
    compared = 0
    for row, entries in zip(declared.rows(shipped), declared.make(shipped).rows, strict=True):
        for column in declared.columns:
            entry = entries[titles.index(column.titles[0])]
            if column.metric and isinstance(entry, Measured):
                name = column.metric.format_map(row)
                mine = [records[key] for key in entry.sample.sources]
                assert {one.approach for one in mine} <= {row["approach"]}
                assert unit_of(name) is not None
                assert entry.sample == metrics_of(mine, name)
                compared += entry.sample.n
    assert compared > 5


def test_pictures_without_digits_have_no_accuracy_and_chance_is_their_share(shipped):
    lines = shown_rows(REFUSAL.make(shipped))
    assert {row["accuracy of accepted"] for row in lines if row["data set"] != "mnist"} == {"-"}
    assert "chopra2018 truncates: 0.96 stands for 0.96 to below 0.97." in REFUSAL.make(shipped).notes
    chances = {row["data set"]: row["chance"] for row in shown_rows(DETECTION.make(shipped))}
    assert chances["letters"] == "0.0909"  # 1,000 letters among 11,000 images
    assert chances["fashion_mnist"] == "0.5000"


def test_every_metric_that_was_measured_has_a_row_by_name():
    common = [record("mlp", "corrected", "common", seed=s, metrics={"mnist/brier": 0.2 + s / 10}) for s in (0, 1)]
    other = record("linear_bbb", "corrected", "common", metrics={"letters/sure@0.99": 0.1, "letters/nobody knows": 1})
    rows = shown_rows(Tables(*common, other)["metrics"])
    assert [(row["metric"], row["mlp"], row["linear_bbb"]) for row in rows] == [
        ("letters/sure@0.99", "-", "0.100"),
        ("mnist/brier", "0.250", "-"),
    ]


# accuracy


def test_the_reported_accuracy_is_the_one_at_the_end_and_not_the_prose():
    shown = {row["approach"]: row["reported"] for row in shown_rows(Tables()["accuracy"])}
    assert shown == {
        "dropout_fcn": "0.9714",
        "pyro_hidden_layer": "0.9692",
        "pyro_random_module": "0.89",
        "mlp": "0.9800",
        "linear_bbb": "0.9725",
        "mxnet_bbb": "0.9775",
        "uniform": "-",
    }
    assert "chopra2018 truncates: 0.89 stands for 0.89 to below 0.90." in Tables()["accuracy"].notes


def test_a_shortened_profile_shows_its_number_but_compares_it_with_nothing():
    epochs = [{"epoch": 1, "mnist/test10k/accuracy": 0.96}]
    made = record("mlp", profile="epoch1", epochs=epochs, metrics={"mnist/test10k/accuracy": 0.96})
    row = line(Tables(made)["accuracy"], "mlp")
    assert (row["published x published"], row["difference"]) == ("0.9600", "fewer epochs")


def test_a_variant_measured_by_the_published_protocol_has_its_own_number():
    made = record("mxnet_bbb", "published+scale-mixture", epochs=[{"epoch": 10, "mnist/test10k/accuracy": 0.98}])
    row = line(Tables(made)["accuracy"], "mxnet_bbb + scale-mixture")
    assert (row["reported"], row["published x published"], row["difference"]) == ("-", "0.9800", "-")


# uncertainty


def test_entropies_are_in_nats_and_the_reported_ones_in_bits():
    published = record("mlp", metrics={"noise_gaussian/1000 images/predictive_entropy": 0.1 * math.log(2)})
    common = {"noise_gaussian/predictive_entropy": 0.25, "noise_gaussian/auroc_predictive_entropy": 0.75}
    made = record("mlp", "published", "common", metrics=common, missing={"notmnist459": "python -m bench data fetch"})
    table = Tables(published, made)["ood"]
    row = line(table, "mlp", "published", "noise_gaussian")
    assert row["entropy"] == "0.2500"
    assert row["AUROC predictive entropy"] == "0.7500"
    assert (row["reported, bits"], row["published x published, bits"]) == ("0.1446", "0.1000")
    assert line(table, "mlp", "published", "notmnist459")["entropy"] == "no data"
    assert "no data: python -m bench data fetch" in table.notes
    assert line(table, "mlp", "corrected", "noise_gaussian")["reported, bits"] == "-"


# pruning, speed, toys


def pruning_rows(accuracy: float) -> dict[str, Any]:
    size = {"pruned_of_used": 0.5, "kept": 239205, "bytes": 956820, "layers": {"w1": 0.4, "w2": 0.8}}
    return {
        "score": "|mu|/sigma",
        "rows": [
            {
                "fraction": 0.5,
                "network": "30 draws",
                "accuracy": accuracy,
                "nll": 0.2,
                "noise_refusal_rate": 0.6,
                **size,
            },
            {"fraction": 0.5, "network": "mean", "accuracy": accuracy, "nll": 0.1, **size},
            {"fraction": 0.0, "network": "mean", "accuracy": 0.98, "nll": 0.1, **size},
        ],
    }


def test_pruning_levels_beside_the_reported_ones():
    records = [record("mxnet_bbb", metrics={"mnist/test10k/pruned_accuracy@0.5": 0.9746})]
    records += [
        record("mxnet_bbb", "published", "common", seed=s, arrays={"pruning": pruning_rows(0.97 + s / 100)})
        for s in (0, 1)
    ]
    records += [record("mlp", "published", "common", missing={"pruning": "it cannot be pruned"})]
    table = Tables(*records)["pruning"]
    own = [row for row in shown_rows(table) if (row["approach"], row["recipe"]) == ("mxnet_bbb", "published")]
    assert [(row["network"], row["removed"]) for row in own] == [("mean", "0"), ("mean", "0.5"), ("30 draws", "0.5")]
    _, mean, draws = own
    assert (mean["score"], mean["accuracy"], mean["noise refused"]) == ("|mu|/sigma", "0.9750 +- 0.0071 (2)", "-")
    assert (mean["kept weights"], mean["kept by layer"]) == ("239205 +- 0 (2)", "w1 0.400, w2 0.800")
    # Reported 0.9756 at 50 %: 0.9746 - 0.9756 = -0.0010.
    assert (mean["reported"], mean["published x published"], mean["difference"]) == ("0.9756", "0.9746", "-0.0010")
    assert (draws["noise refused"], draws["reported"]) == ("0.6000 +- 0.0000 (2)", "-")
    label = line(table, "mlp", "published")["accuracy"]
    assert f"{label}: it cannot be pruned" in table.notes


def timed(seed: int, latency: float, **timings: Any) -> Record:
    return record(
        "mlp", "published", "common", seed=seed, timings={"fit_s": 20.0, "latency_s": latency, "valid": True, **timings}
    )


def test_times_that_do_not_count_are_marked_or_left_out():
    busy = {"valid": False, "reasons": [Reason("other-load")]}
    row = line(Tables(timed(0, 0.0021), timed(1, 0.5, **busy))["speed"], "mlp", "published")
    assert row["one image, ms"] == "2.10 *"  # seed 0 alone, in milliseconds
    table = Tables(timed(0, 0.5, **busy))["speed"]
    row = line(table, "mlp", "published")
    assert (row["one image, ms"], row["training, s"]) == ("500 !", "20.0 !")
    assert "!: times do not count: other load on the machine" in table.notes
    assert (row["device"], row["threads"]) == ("cpu", "2")
