"""Throughput beside the documents' code: training and predicting in turn, the table of ratios, the command."""

import dataclasses
from functools import partial

import pytest
import torch

from bench.cli import INCOMPLETE, USAGE
from bench.core import timing
from bench.core.errors import MissingFramework
from bench.core.reasons import OTHER_LOAD, Reason
from bench.plan.registry import manifest
from bench.show.table import Missing, Number
from benchmarks.throughput import blocks, documents, measure, prediction, training
from benchmarks.throughput.__main__ import main as measure_speeds
from benchmarks.throughput.blocks import Comparison, Side
from benchmarks.throughput.measure import TARGETS, Request, Speeds, throughput_table
from tests.benchmarks.small_networks import APPROACHES, CPU, SIZES, code_of, rows_of, subject_of
from tests.tables import by_column


@pytest.mark.parametrize("name", APPROACHES)
def test_the_documents_code_trains_and_predicts_in_turn_with_our_fit(name):
    subject = subject_of(name)
    code = code_of(name, subject.train)
    found = training.alternate(subject, code, ours=2, document=1, rounds=2)
    for side in (found.ours, found.document):
        assert len(side.seconds) == 2
        assert min(side.seconds) > 0
    posterior = training.short_fit(subject)
    compared = prediction.compare_prediction(subject, posterior, code, subject.test, 3, 2, 1e-3)
    n_draws = posterior.n_draws or 3
    assert compared.ours.work % (n_draws * 40) == 0
    assert compared.document.work % (n_draws * min(40, code.predict_rows)) == 0


@pytest.mark.parametrize("name", APPROACHES)
def test_the_documents_blocks_do_not_touch_our_fit(name):
    """Three epochs that the document's steps interrupt give the same parameters as three epochs alone."""
    subject = subject_of(name)
    code = code_of(name, subject.train)
    kept = []

    def document() -> None:
        with code.session():
            code.step()

    for between in (lambda: None, document):
        context = training.BlockContext(0, CPU, 2, timing.Stopwatch(CPU), between)
        kept.append(dataclasses.replace(subject.approach, epochs=3).fit(subject.train, subject.task, context).arrays())
    assert kept[0].keys() == kept[1].keys()
    assert all(torch.equal(kept[0][key], kept[1][key]) for key in kept[0])


def test_pyros_parameters_of_the_document_stay_its_own():
    pyro = pytest.importorskip("pyro")
    code = code_of("pyro_random_module", rows_of(300))
    with pyro.get_param_store().scope():
        pyro.param("fc1.weight_mu", torch.zeros(1))
        with code.session():
            code.step()
            first = pyro.param("fc1.weight_mu").detach().clone()
        assert pyro.param("fc1.weight_mu").shape == (1,)
        with code.session():
            assert torch.equal(pyro.param("fc1.weight_mu"), first)  # what it has learnt is still there
            code.step()
            assert not torch.equal(pyro.param("fc1.weight_mu"), first)


def test_the_network_of_random_module_lies_where_its_images_do():
    """The device "meta" stands for a GPU."""
    train = rows_of(300)
    code = code_of("pyro_random_module", dataclasses.replace(train, x=train.x.to("meta")))
    assert {weight.device.type for weight in code.document.net.parameters()} == {"meta"}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", [name for name in APPROACHES if not manifest(name).cpu_float32_only])
def test_the_documents_code_that_a_gpu_can_run_trains_and_predicts_there(name):
    train, device = rows_of(300), torch.device("cuda")
    moved = dataclasses.replace(train, x=train.x.to(device), y=train.y.to(device))
    code = code_of(name, moved)
    with blocks.by_default_on(device), code.session():
        code.step()
        assert len(code.predict(moved.x[:8], 3)) in (3, 8)  # draws, or a class for each image


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
    monkeypatch.setattr(measure, "TARGETS", {"train": {"mlp": 7.5, "linear_bbb": 2.0}})
    # the ratio of `speeds` is 5
    asked = ({}, {"approach": "linear_bbb"}, {"approach": "dropout_fcn"}, {"device": "cuda"})
    made = throughput_table([speeds(**one) for one in asked])
    assert [getattr(line[9], "value", "") for line in made.rows] == [7.5, 2.0, "", ""]
    assert [note for note in made.notes if "target" in note] == ["Below the target: mlp, made up (5.00 of 7.5)."]
    assert not [note for note in throughput_table([speeds(**asked[1])]).notes if "target" in note]


def test_targets_are_of_approaches_of_a_document():
    assert set(TARGETS["train"]) == set(documents.names()) >= set(TARGETS["predict"])


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
