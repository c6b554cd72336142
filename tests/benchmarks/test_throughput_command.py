"""The command that measures throughput: the table, one-line errors, what is skipped or fails."""

from functools import partial

import pytest

from bench.cli import INCOMPLETE, USAGE
from bench.core.errors import MissingFramework
from bench.core.reasons import OTHER_LOAD, Reason
from benchmarks.throughput import documents, measure
from benchmarks.throughput.__main__ import main as measure_speeds
from benchmarks.throughput.measure import Request
from tests.benchmarks.small_networks import SIZES, subject_of


@pytest.fixture
def small(monkeypatch):
    """Let the command measure small networks on made-up images in this process."""
    monkeypatch.setattr(measure, "make_subject", lambda name, device, data_dir: subject_of(name))
    smaller = {name: partial(made, sizes=SIZES[name]) for name, made in documents.DOCUMENTS_CODE.items()}
    monkeypatch.setattr(documents, "DOCUMENTS_CODE", smaller)
    monkeypatch.setattr(measure, "_in_process", measure.measure)


def test_the_command_prints_a_row_for_each_measurement(small, capsys):
    assert measure_speeds(["mlp", "linear_bbb", "--rounds", "2", "--block", "0.001", "--draws", "3"]) == 0
    shown = capsys.readouterr()
    assert shown.err.splitlines()[0] == "mlp train, cpu"
    assert shown.out.count("| mlp ") == 2
    assert shown.out.count("| linear_bbb ") == 3  # it also predicts with noise that rows share


def test_a_missing_framework_is_a_row_and_exit_code_3(small, monkeypatch, capsys):
    def absent(name, device, data_dir):
        raise MissingFramework("mxnet_bbb needs mxnet")

    monkeypatch.setattr(measure, "make_subject", absent)
    assert measure_speeds(["mxnet_bbb", "--what", "train"]) == INCOMPLETE
    assert "skipped: mxnet_bbb needs mxnet" in capsys.readouterr().out


def test_an_approach_that_fails_is_told_in_one_line_and_the_others_are_measured(small, monkeypatch, capsys):
    def break_mlp(name, device, data_dir):
        if name == "mlp":
            raise RuntimeError("no such luck\nand more of it")
        return subject_of(name)

    monkeypatch.setattr(measure, "make_subject", break_mlp)
    arguments = ["mlp", "linear_bbb", "--what", "train", "--rounds", "1", "--block", "0.001"]
    assert measure_speeds(arguments) == INCOMPLETE
    shown = capsys.readouterr()
    assert shown.err.splitlines()[:2] == [
        "mlp train, cpu",
        "  RuntimeError: no such luck",
    ]
    assert [line.split("|")[1].strip() for line in shown.out.splitlines() if " failed " in line] == ["mlp"]


def test_what_runs_on_a_cpu_only_is_skipped_elsewhere():
    record = measure.measure(Request("mxnet_bbb", device="cuda"))
    assert (record.outcome, record.compared) == ("skipped", ())
    assert record.reason.startswith("mxnet_bbb runs on cpu only: ")


def test_load_of_others_is_marked(small, monkeypatch):
    monkeypatch.setattr(measure.OtherLoad, "reasons", lambda self: [Reason(OTHER_LOAD)])
    record = measure.measure(Request("mlp", rounds=1, block_s=1e-3))
    assert (record.outcome, record.reason) == ("done", "other load on the machine")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "unknown approach 'nope'"),
        (["toy_bbb"], "unknown approach of a document 'toy_bbb'"),
        (["mlp", "--rounds", "0"], "'0' is not a count"),
        (["mlp", "--draws", "many"], "'many' is not a count"),
        (["mlp", "--images", "-1"], "'-1' is not a count"),
        (["mlp", "--threads", "0"], "number of threads 0 is below 1"),
        (["mlp", "--block", "0"], "not a positive number"),
        (["mlp", "--what", "trian"], "did you mean 'train'"),
        (["mlp", "--device", "tpu"], "known: cpu, cuda"),
    ],
)
def test_nonsense_is_one_line(arguments, message, capsys):
    assert measure_speeds(arguments) == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_errors_of_the_process_of_a_measurement_are_its_record():
    record = measure._in_process(Request("nope"))
    assert record.outcome == "failed"
    assert record.reason.startswith("ConfigError: unknown approach 'nope'")
