"""The documents' code beside ours: it trains and predicts in turn with our fits."""

import dataclasses

import pytest
import torch

from bench.core import timing
from bench.plan.registry import manifest
from benchmarks.throughput import blocks, prediction, training
from tests.benchmarks.small_networks import APPROACHES, CPU, code_of, rows_of, subject_of


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
