"""The determinism report: what counts as exact, a fit that is not repeatable, records and the table."""

import csv
import json

import msgspec
import numpy as np
import pytest
import torch

import implementations.mlp
from bench.cli.main import main
from bench.core.canonical import plain
from bench.core.errors import BenchError
from bench.plan.registry import manifest
from bench.show.tables.render import text
from tests.stress import __main__ as command
from tests.stress import determinism
from tests.stress.determinism import BLOCKS, COMPARED, CONDITIONS, _conditions, _shown, answers, compare, measure
from tests.stress.repeatable import TITLES, Repeatability, determinism_table, repeatability_folder


def test_exact_means_every_bit():
    """-0.0 equals 0.0 as a number, not as bits; |1.5 - 1.25| = 0.25 is the larger of the differences."""
    one = {"a": np.array([0.0, 1.5]), "b": np.array([3])}
    assert compare(one, {name: value.copy() for name, value in one.items()}) == {"exact": True, "largest": 0.0}
    assert compare(one, {**one, "a": np.array([-0.0, 1.5])}) == {"exact": False, "largest": 0.0}
    assert compare(one, {**one, "a": np.array([0.125, 1.25])}) == {"exact": False, "largest": 0.25}
    assert compare({}, {}) is None
    with pytest.raises(BenchError, match="other names or shapes"):
        compare(one, {"a": one["a"]})
    with pytest.raises(BenchError, match="other names or shapes"):
        compare(one, {**one, "a": np.zeros(3)})


def test_differences_of_log_probabilities_are_told_in_probability():
    """log 0.5 and log 0.25 differ by 0.69 nats and by 0.25 in probability; a toy's means stay as they are."""
    left, right = np.log(np.array([[[0.5]]])), np.log(np.array([[[0.25]]]))
    assert _shown(left, right, manifest("mlp"))["largest"] == pytest.approx(0.25)
    assert _shown(left, right, manifest("toy_mlp"))["largest"] == pytest.approx(np.log(2))
    tiny = np.nextafter(left, 0)
    assert _shown(left, tiny, manifest("mlp"))["exact"] is False


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_a_fit_that_looks_at_the_clock_is_found(threads, monkeypatch):
    """A planted fault: every fit adds another number to its weights."""
    whole, calls = implementations.mlp.Mlp.fit, []

    def restless(self, train, task, ctx):
        posterior = whole(self, train, task, ctx)
        calls.append(1)
        arrays = {name: value + 2.0 ** -len(calls) for name, value in posterior.arrays().items()}
        return self.rebuild(arrays, task, ctx.seed)

    monkeypatch.setattr(implementations.mlp.Mlp, "fit", restless)
    monkeypatch.setattr(
        "tests.stress.determinism._apart",
        lambda name, threads, device, n_fits, blocks, data_dir: answers(name, 1, device, n_fits, blocks),
    )
    usual = answers("mlp", 1, "cpu", 2, BLOCKS)
    assert {values.shape for values in usual.predictions.values()} == {(1, COMPARED, 10)}
    found = _conditions(manifest("mlp"), usual, None)
    assert tuple(found) == CONDITIONS
    again, process = found["again"]["weights"], found["process"]["weights"]
    assert not again["exact"]
    assert again["largest"] == pytest.approx(0.25, abs=1e-6)  # 2^-1 - 2^-2
    assert process["largest"] == pytest.approx(0.375, abs=1e-6)  # 2^-1 - 2^-3
    assert not found["process"]["predictions"]["exact"]
    assert found["block-10000"]["predictions"]["largest"] < 1e-5  # blocks are of one fit


def made(name, **changes):
    equal = {"weights": {"exact": True, "largest": 0.0}, "predictions": None}
    conditions = {key: equal for key in CONDITIONS}
    conditions["cuda"] = {"missing": "no CUDA device here"}
    conditions["threads-2"] = {"weights": None, "predictions": {"exact": False, "largest": 1.25e-7}}
    record = {"schema": 1, "approach": name, "outcome": "done", "reason": "", "conditions": conditions}
    return msgspec.convert({**record, "provenance": {}, **changes}, Repeatability)


def test_the_table_has_the_order_of_the_approaches_and_every_reason():
    failed = made("mxnet_bbb", outcome="failed", reason="its process ended without a word", conditions={})
    shown = text(determinism_table([failed, made("mlp")]))
    assert [line.split()[0] for line in shown.splitlines() if line.startswith(("mlp", "mxnet"))] == [
        *["mlp"] * 2,
        *["mxnet_bbb"] * 2,
    ]
    assert "1.2e-07" in shown
    assert "n/a: no CUDA device here" in shown
    assert "failed: its process ended without a word" in shown


def test_a_report_is_kept_and_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command.determinism, "measure", lambda name, data_dir: made(name))
    assert command.main(["determinism", "--approaches", "uniform,mlp", "--write", str(tmp_path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    kept, problems = repeatability_folder(tmp_path).read_all()
    assert ([one.approach for one in kept], problems) == (["mlp", "uniform"], [])
    assert [plain(one.conditions) for one in kept] == [one["conditions"] for one in shown]
    assert (tmp_path / "tables" / "determinism.md").exists()
    assert main(["table", "determinism", "--results", str(tmp_path), "--format", "csv"]) == 0
    header, weights, _ = list(csv.reader(capsys.readouterr().out.splitlines()))[:3]
    assert header == ["approach", "of", *TITLES.values()]
    assert weights[:3] == ["mlp", "weights", "exact"]


def test_reports_that_cannot_be_trusted_are_named(tmp_path):
    path = repeatability_folder(tmp_path).write(made("mlp"))
    path.write_text(path.read_text().replace("true", "false", 1))
    (tmp_path / "determinism" / "other.json").write_text("[]")
    (tmp_path / "determinism" / "nested.json").write_text("[" * 100_000)
    records, problems = repeatability_folder(tmp_path).read_all()
    assert records == []
    assert len(problems) == 3
    assert "mlp.json was changed after it was written" in problems[0].reason


def test_what_cannot_run_is_a_record_with_the_reason(monkeypatch):
    entry = msgspec.structs.replace(manifest("mlp"), requires=("not_there",))
    monkeypatch.setattr(determinism, "manifest", lambda name: entry)
    record = measure("mlp")
    assert (record.outcome, record.conditions) == ("skipped", {})
    assert "needs not_there" in record.reason
    monkeypatch.setattr(determinism, "manifest", manifest)
    monkeypatch.setattr(determinism, "_apart", lambda *_: 1 / 0)
    record = measure("mlp")
    assert (record.outcome, record.reason) == ("failed", "ZeroDivisionError: division by zero")
