"""The documents' code beside ours: it trains and predicts in turn with our fits. How operations are counted."""

import dataclasses

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from bench.core import timing
from bench.plan.registry import manifest
from benchmarks.throughput import blocks, prediction, training
from tests.benchmarks.small_networks import APPROACHES, CPU, rows_of, subject_of, yardstick_of

# operations


def test_operations_with_shared_noise():
    # 4-3-2, 5 rows: the first layer's mean and variance once, 2 * 120, the last layer for each draw, 10 * 60
    yardstick = yardstick_of("mlp", rows_of(5))
    yardstick.sizes = (4, 3, 2)
    assert yardstick.prediction_flops(5, 10, "shared") == 240 + 600


@pytest.mark.parametrize("name", ["mlp", "dropout_fcn", "linear_bbb", "pyro_random_module"])
def test_operations_are_those_that_pytorch_counts_in_the_documents_code(name):
    yardstick = yardstick_of(name, rows_of(300))
    with yardstick.session(), FlopCounterMode(display=False) as counter:
        yardstick.step()
    assert counter.get_total_flops() == yardstick.training_flops(128)
    with yardstick.session(), FlopCounterMode(display=False) as counter:
        yardstick.predict(rows_of(8).x, 3)
    assert counter.get_total_flops() == yardstick.prediction_flops(8, 3, "weights")


def test_operations_of_hidden_layers():
    yardstick = yardstick_of("pyro_hidden_layer", rows_of(300))
    # 20-12-12-12-10: 240, 144, 144, 120 weights. A row of a step: means and variances, each 2 * 648 forward, again for
    # the draw after the step, 2 * 648 for the weights' and 2 * 408 for the inputs' gradient.
    assert yardstick.training_flops(1) == 2 * 2 * (648 + 648 + 648 + 408)
    assert yardstick.prediction_flops(1, 100, "row") == 2 * 2 * (240 + 100 * 408)
    # shared: the later layers are one product each, with drawn weights: 960 once and 816 for each of 100 draws
    assert yardstick.prediction_flops(1, 100, "shared") == 960 + 100 * 816
    assert yardstick.prediction_flops(1, 1, "none") == 2 * 648


# the documents' code beside ours


@pytest.mark.parametrize("name", APPROACHES)
def test_every_yardstick_trains_and_predicts_in_turn_with_our_fit(name):
    subject = subject_of(name)
    yardstick = yardstick_of(name, subject.train)
    product = blocks.MatrixProduct(CPU, size=16)
    found = training.alternate(subject, yardstick, product, ours=2, document=1, rounds=2)
    for side in (found.ours, found.document, found.product):
        assert len(side.seconds) == 2
        assert min(side.seconds) > 0
    posterior = training.short_fit(subject)
    compared = prediction.compare_prediction(subject, posterior, yardstick, product, subject.test, 3, 2, 1e-3)
    n_draws = posterior.n_draws or 3
    assert compared.ours.work % (n_draws * 40) == 0
    assert compared.document.work % (n_draws * min(40, yardstick.predict_rows)) == 0


@pytest.mark.parametrize("name", APPROACHES)
def test_the_documents_blocks_do_not_touch_our_fit(name):
    """Three epochs that the document's steps interrupt give the same parameters as three epochs alone."""
    subject = subject_of(name)
    yardstick = yardstick_of(name, subject.train)
    kept = []

    def document() -> None:
        with yardstick.session():
            yardstick.step()

    for between in (lambda: None, document):
        context = training.BlockContext(0, CPU, 2, timing.Stopwatch(CPU), between)
        kept.append(dataclasses.replace(subject.approach, epochs=3).fit(subject.train, subject.task, context).arrays())
    assert kept[0].keys() == kept[1].keys()
    assert all(torch.equal(kept[0][key], kept[1][key]) for key in kept[0])


def test_overhead_is_the_real_step_on_the_smallest_network(monkeypatch):
    monkeypatch.setattr(training, "TINY_STEPS", 2)
    subject = subject_of("mlp")
    seen = []
    fit = type(subject.approach).fit

    def spy(approach, train, task, context):
        seen.append((approach.width, train.x.shape[1], len(train), context.steps_per_epoch))
        return fit(approach, train, task, context)

    monkeypatch.setattr(type(subject.approach), "fit", spy)
    assert training.overhead_seconds(subject, yardstick_of("mlp", subject.train)) > 0
    assert seen == [(8, training.TINY_INPUTS, 2 * 128, 2)]


def test_pyros_parameters_of_the_document_stay_its_own():
    pyro = pytest.importorskip("pyro")
    yardstick = yardstick_of("pyro_random_module", rows_of(300))
    with pyro.get_param_store().scope():
        pyro.param("fc1.weight_mu", torch.zeros(1))
        with yardstick.session():
            yardstick.step()
            first = pyro.param("fc1.weight_mu").detach().clone()
        assert pyro.param("fc1.weight_mu").shape == (1,)
        with yardstick.session():
            assert torch.equal(pyro.param("fc1.weight_mu"), first)  # what it has learnt is still there
            yardstick.step()
            assert not torch.equal(pyro.param("fc1.weight_mu"), first)


def test_the_network_of_random_module_lies_where_its_images_do():
    """The device "meta" stands for a GPU."""
    train = rows_of(300)
    yardstick = yardstick_of("pyro_random_module", dataclasses.replace(train, x=train.x.to("meta")))
    assert {weight.device.type for weight in yardstick.document.net.parameters()} == {"meta"}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", [name for name in APPROACHES if not manifest(name).cpu_float32_only])
def test_every_yardstick_that_a_gpu_can_run_trains_and_predicts_there(name):
    train, device = rows_of(300), torch.device("cuda")
    moved = dataclasses.replace(train, x=train.x.to(device), y=train.y.to(device))
    yardstick = yardstick_of(name, moved)
    with blocks.as_documented(device), yardstick.session():
        yardstick.step()
        assert len(yardstick.predict(moved.x[:8], 3)) in (3, 8)  # draws, or a class for each image
