"""The table of throughput: ratios and shares computed by hand, and targets."""

import pytest

from bench.core.errors import ConfigError
from bench.core.records import Provenance
from bench.show.table import Missing, Number
from bench.show.tables.render import markdown
from benchmarks.throughput import yardsticks
from benchmarks.throughput.blocks import Comparison, Side
from benchmarks.throughput.table import Request, SpeedRow, Speeds, load_targets, throughput_table
from tests.tables import by_column


def speeds(row=None, outcome="done", reason="", **changes):
    """Return speeds with three rounds of made-up seconds; `row` changes the measurement, `changes` the request."""
    sides = {
        "ours": Side(10, [2.0, 1.0, 4.0]),  # 5, 10, 2.5 steps a second: median 5
        "document": Side(2, [1.0, 4.0, 4.0]),  # 2, 0.5, 0.5
        "product": Side(1e9, [0.01, 0.02, 0.01]),  # median 100 GFLOP a second
        **(row or {}),
    }
    title, block = "training step", "10 steps"
    if changes.get("what") == "predict":
        title, block = "prediction, noise row", "1 x 10 images"
    measured = SpeedRow(title, Comparison(**sides), 8e9, block, "2 steps", overhead_s=0.02)
    made = Provenance(cpu="made-up CPU", threads=2, commit="0123456789abcdef")
    request = Request(**{"approach": "mlp", "draws": 1, **changes})
    return Speeds(request, made, outcome, reason, (measured,) if outcome == "done" else ())


def test_medians_ranges_ratios_and_shares_of_a_row():
    table = throughput_table([speeds()])
    (row,) = by_column(table)
    assert (row["ours"].value, row["ours, range"]) == (200.0, "100 - 400")
    assert (row["document"].value, row["document, range"]) == (2000.0, "500 - 2000")
    # the rounds' own ratios are 2.5, 20 and 5; the ratio of the medians would be 10
    assert (row["ratio"].value, row["ratio, range"], row["rounds"]) == (5.0, "2.50 - 20.0", "3")
    assert row["of the product rate"].value == pytest.approx(5 * 8e9 / 100e9)
    # 8 GFLOP a step at 100 GFLOP a second are 12.5 steps a second, the document's are 0.5
    assert row["ratio, products alone"].value == pytest.approx(25)
    assert row["overhead"].value == pytest.approx(0.02 * 5)  # 20 ms of 200 ms
    assert "2048 x 2048" in table.caption
    assert "made-up CPU" in table.notes[-1]


def test_predictions_are_rates_and_have_no_overhead():
    record = speeds(what="predict", draws=100)
    (row,) = by_column(throughput_table([record]))
    assert row["ours"].value == 5.0
    assert isinstance(row["overhead"], Missing)


def test_rows_stand_in_the_order_of_the_approaches_and_say_what_is_missing_or_does_not_count():
    records = [
        speeds(approach="mxnet_bbb", outcome="skipped", reason="mxnet_bbb needs mxnet"),
        speeds(reason="other load on the machine"),
        speeds(approach="dropout_fcn"),
    ]
    table = throughput_table(records)
    rows = by_column(table)
    assert [row["approach"] for row in rows] == ["dropout_fcn", "mlp", "mxnet_bbb"]
    assert [row["what"] for row in rows] == ["training step", "training step !", "training step"]
    assert isinstance(rows[2]["ours"], Missing)
    assert isinstance(rows[1]["ours"], Number)
    assert {"skipped: mxnet_bbb needs mxnet", "!: other load on the machine"} <= set(table.notes)
    assert markdown(table)


def test_targets_stand_beside_the_ratios_and_missed_ones_are_named(monkeypatch):
    aims = {("mlp", "train"): 7.5, ("linear_bbb", "train"): 2.0}
    monkeypatch.setattr("benchmarks.throughput.table.load_targets", lambda: aims)
    # the ratio of `speeds` is 5
    records = [speeds(), speeds(approach="linear_bbb"), speeds(approach="dropout_fcn"), speeds(device="cuda")]
    table = throughput_table(records)
    rows = {(row["approach"], row["device"]): row["target"] for row in by_column(table)}
    assert rows["mlp", "cpu"].value == 7.5
    assert rows["linear_bbb", "cpu"].value == 2.0
    assert rows["dropout_fcn", "cpu"] == rows["mlp", "cuda"] == ""
    assert [note for note in table.notes if "target" in note] == ["Below the target: mlp, training step (5.00 of 7.5)."]
    assert not [note for note in throughput_table(records[1:3]).notes if "target" in note]


def test_targets_are_of_approaches_with_a_yardstick_and_a_broken_file_is_named(tmp_path):
    targets = load_targets()
    assert {name for name, _ in targets} == set(yardsticks.names())
    assert min(targets.values()) > 1
    path = tmp_path / "targets.toml"
    for text in ("[train]\nmlp = 'fast'\n[predict]", "[train]", "train = 3", "["):
        path.write_text(text)
        with pytest.raises(ConfigError, match=r"speed targets .*targets\.toml"):
            load_targets(path)
