"""The table of throughput: ratios computed by hand, targets, what is missing or does not count."""

from bench.show.table import Missing, Number
from benchmarks.throughput import documents, table
from benchmarks.throughput.blocks import Comparison, Side
from benchmarks.throughput.measure import Request, Speeds
from benchmarks.throughput.table import TARGETS, throughput_table
from tests.tables import by_column

SIDES = Comparison(
    Side(10, [2.0, 1.0, 4.0]),  # 5, 10, 2.5 steps a second: median 5
    Side(2, [1.0, 4.0, 4.0]),  # 2, 0.5, 0.5
)


def speeds(outcome="done", reason="", **request):
    """Return speeds with three rounds of made-up seconds."""
    compared = (("made up", SIDES),) if outcome == "done" else ()
    return Speeds(Request(**{"approach": "mlp", **request}), outcome, reason, compared)


def test_medians_ranges_and_ratios_of_a_row():
    (line,) = throughput_table([speeds()]).rows
    assert (line[3].value, line[4]) == (200.0, "100 - 400")  # milliseconds
    assert (line[5].value, line[6]) == (2000.0, "500 - 2000")
    # the rounds' own ratios are 2.5, 20 and 5; the ratio of the medians would be 10
    assert (line[7].value, line[8]) == (5.0, "2.50 - 20.0")


def test_predictions_are_rates():
    (row,) = by_column(throughput_table([speeds(what="predict")]))
    assert (row["ours"].value, row["unit"]) == (5.0, "1/s")


def test_a_row_says_what_is_missing_or_does_not_count():
    skipped = speeds("skipped", "mxnet_bbb needs mxnet", approach="mxnet_bbb")
    made = throughput_table([speeds(reason="other load on the machine"), skipped])
    loaded, absent = by_column(made)
    assert loaded["what"] == "made up !"
    assert isinstance(loaded["ours"], Number)
    assert isinstance(absent["ours"], Missing)
    assert {"skipped: mxnet_bbb needs mxnet", "!: other load on the machine"} <= set(made.notes)


def test_targets_stand_beside_the_ratios_and_missed_ones_are_named(monkeypatch):
    monkeypatch.setattr(table, "TARGETS", {"train": {"mlp": 7.5, "linear_bbb": 2.0}})
    # the ratio of `speeds` is 5
    asked = ({}, {"approach": "linear_bbb"}, {"approach": "dropout_fcn"}, {"device": "cuda"})
    made = throughput_table([speeds(**one) for one in asked])
    assert [getattr(line[9], "value", "") for line in made.rows] == [7.5, 2.0, "", ""]
    assert [note for note in made.notes if "target" in note] == ["Below the target: mlp, made up (5.00 of 7.5)."]
    assert not [note for note in throughput_table([speeds(**asked[1])]).notes if "target" in note]


def test_targets_are_of_approaches_of_a_document():
    assert set(TARGETS["train"]) == set(documents.names()) >= set(TARGETS["predict"])
