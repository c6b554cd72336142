"""The determinism report: what counts as exact, a fit that is not repeatable, rows and the table."""

import msgspec
import numpy as np
import pytest
import torch

import implementations.mlp
from bench.cli import FAILED
from bench.core.errors import BenchError
from bench.judge.samples import MissingValue
from bench.plan.registry import manifest
from bench.show.table import Missing, Number
from bench.show.tables.render import text
from tests.stress import __main__ as command
from tests.stress import determinism
from tests.stress.determinism import (
    BLOCKS,
    COMPARED,
    CONDITIONS,
    NOTHING_TO_COMPARE,
    TWO,
    _conditions,
    _shown,
    answers,
    compare,
    faults,
    measure,
    table,
)

NO_GPU = Missing(MissingValue("n/a", "no CUDA device here"))


def test_exact_means_every_bit():
    """-0.0 equals 0.0 as a number, not as bits; |1.5 - 1.25| = 0.25 is the larger of the differences."""
    one = {"a": np.array([0.0, 1.5]), "b": np.array([3])}
    assert compare(one, {name: value.copy() for name, value in one.items()}) == "exact"
    assert compare(one, {**one, "a": np.array([-0.0, 1.5])}) == Number(0.0, TWO)
    assert compare(one, {**one, "a": np.array([0.125, 1.25])}) == Number(0.25, TWO)
    assert compare({}, {}) == NOTHING_TO_COMPARE
    with pytest.raises(BenchError, match="other names or shapes"):
        compare(one, {"a": one["a"]})
    with pytest.raises(BenchError, match="other names or shapes"):
        compare(one, {**one, "a": np.zeros(3)})


def test_differences_of_log_probabilities_are_told_in_probability():
    """log 0.5 and log 0.25 differ by 0.69 nats and by 0.25 in probability; a toy's means stay as they are."""
    left, right = np.log(np.array([[[0.5]]])), np.log(np.array([[[0.25]]]))
    assert _shown(left, right, manifest("mlp")).value == pytest.approx(0.25)
    assert _shown(left, right, manifest("toy_mlp")).value == pytest.approx(np.log(2))
    tiny = np.nextafter(left, 0)
    assert isinstance(_shown(left, tiny, manifest("mlp")), Number)


def test_a_fit_that_does_not_repeat_or_fails_is_a_fault():
    """Other blocks and threads may change bits; the same fit again may not."""
    exact, off = ["exact"] * len(CONDITIONS), Number(0.25, TWO)
    assert list(faults([["mlp", "weights", *exact], ["mlp", "predictions", *exact[:2], off, off, off, NO_GPU]])) == []
    crashed = Missing(MissingValue("failed", "its process ended without a word"))
    (first, second) = faults([["mlp", "weights", "exact", off, *exact[:4]], ["a", "predictions", *exact[:5], crashed]])
    assert first == "mlp, weights, a new process: not exact, the largest difference is 0.25"
    assert second == "a, predictions, GPU: its process ended without a word"


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
    again, process, _, large, *_ = found
    assert again[0].value == pytest.approx(0.25, abs=1e-6)  # 2^-1 - 2^-2
    assert process[0].value == pytest.approx(0.375, abs=1e-6)  # 2^-1 - 2^-3
    assert isinstance(process[1], Number)
    assert large[1] == "exact" or large[1].value < 1e-5  # blocks are of one fit


def rows(name, *entries):
    entries = entries or ("exact", "exact", Number(1.25e-7, TWO), "exact", NOTHING_TO_COMPARE, NO_GPU)
    return [[name, what, *entries] for what in ("weights", "predictions")]


def test_the_table_has_every_row_and_every_reason():
    failed = [Missing(MissingValue("failed", "its process ended without a word"))] * 6
    shown = text(table([*rows("mlp"), *rows("mxnet_bbb", *failed)]))
    assert [line.split()[0] for line in shown.splitlines() if line.startswith(("mlp", "mxnet"))] == [
        *["mlp"] * 2,
        *["mxnet_bbb"] * 2,
    ]
    assert "1.2e-07" in shown
    assert "n/a: no CUDA device here" in shown
    assert "failed: its process ended without a word" in shown


def test_the_command_prints_markdown_and_fails_if_a_fit_does(monkeypatch, capsys):
    monkeypatch.setattr(command.determinism, "measure", lambda name, data_dir: rows(name))
    assert command.main(["determinism", "--approaches", "uniform,mlp"]) == 0
    grid = [line.split("|")[1:4] for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert [[text.strip() for text in row] for row in grid[1:]] == [
        [name, what, "exact"] for name in ("uniform", "mlp") for what in ("weights", "predictions")
    ]
    failed = [Missing(MissingValue("failed", "no luck"))] * 6
    monkeypatch.setattr(command.determinism, "measure", lambda name, data_dir: rows(name, *failed))
    assert command.main(["determinism", "--approaches", "uniform"]) == FAILED
    assert "- failed: no luck" in capsys.readouterr().out


def test_what_cannot_run_is_a_row_with_the_reason(monkeypatch):
    entry = msgspec.structs.replace(manifest("mlp"), requires=("not_there",))
    monkeypatch.setattr(determinism, "manifest", lambda name: entry)
    (weights, _) = measure("mlp")
    assert {one.missing_value.code for one in weights[2:]} == {"skipped"}
    assert "needs not_there" in weights[2].missing_value.reason
    monkeypatch.setattr(determinism, "manifest", manifest)
    monkeypatch.setattr(determinism, "_apart", lambda *_: 1 / 0)
    assert measure("mlp")[1][2:] == [Missing(MissingValue("failed", "ZeroDivisionError: division by zero"))] * 6
