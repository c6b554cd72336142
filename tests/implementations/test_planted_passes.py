"""A change inside a compiled pass alone fails the test that ties the pass to its plain form in float64."""

import importlib.util
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

pytest.importorskip("bench.core.noise_loops", reason="numba is not installed")

from bench.core import noise_loops
from implementations._kernels import layer_loops, mixture_loops, sampled_mlp, weight_loops
from tests.core.test_noise import test_compiled_numbers_are_the_plain_ones as numbers
from tests.implementations.test_blundell import MIXTURE
from tests.implementations.test_mixture_pass import check_fused_pass
from tests.implementations.test_weight_loops import test_a_compiled_step_is_the_float64_one as a_step_of_adam

PLANTED = {
    "nothing": (weight_loops, "float32(0.999)", "float32(0.999)"),
    "nothing, in the normals": (noise_loops, "float32(1.6666654611e-1)", "float32(1.6666654611e-1)"),
    "nothing, with a mixture": (mixture_loops, "kl / sigma", "kl / sigma"),
    "nothing, in a layer": (layer_loops, "scale = free * dropout", "scale = free * dropout"),
    "the variance": (layer_loops, "variance[i] = scale * scale", "variance[i] = scale * scale * float32(0.999)"),
    "the gradient": (
        layer_loops,
        "product[0, i] + weight) - weight",
        "product[0, i] + weight) - weight * float32(0.999)",
    ),
    "a coefficient of the sine": (noise_loops, "float32(1.6666654611e-1)", "float32(1.6665e-1)"),
    "Adam's beta2": (weight_loops, "second[i] * float32(0.999)", "second[i] * float32(0.998)"),
    "the prior's pull": (weight_loops, "weights[i] * pull", "weights[i] * pull * float32(0.999)"),
    "the slope of sigma": (weight_loops, "(g * noise[i] - push * inverse) * slope", "(g * noise[i] - push * inverse)"),
    "the sum of log sigma": (weight_loops, "log_sigma += log32(sigma)", "log_sigma += log32(sigma) * float32(0.999)"),
    "the narrow prior's share": (mixture_loops, "wide + narrow * share", "wide + narrow * share * float32(0.999)"),
    "the entropy": (mixture_loops, "kl / sigma", "kl / sigma * float32(0.999)"),
    "the rate of rho": (mixture_loops, "v_rho[a:b], rates[2]", "v_rho[a:b], rates[2] * float32(0.999)"),
}


@pytest.fixture
def planted(request, tmp_path):
    """Return a module of loops, compiled from a copy of its file in which one piece is another."""
    module, before, after = PLANTED[request.param]
    text = Path(module.__file__).read_text()
    assert text.count(before) == 1
    copy = tmp_path / "planted_loops.py"
    copy.write_text(text.replace(before, after))
    spec = importlib.util.spec_from_file_location("planted_loops", copy)
    found = sys.modules["planted_loops"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    yield found
    del sys.modules["planted_loops"]


@pytest.mark.parametrize("planted", ["nothing"], indirect=True)
def test_an_unchanged_copy_passes(planted, monkeypatch):
    monkeypatch.setattr(sampled_mlp, "loops_for", lambda value: planted if value.element_size() == 4 else None)
    a_step_of_adam(False, 1, 1, monkeypatch)


@pytest.mark.parametrize("planted", ["nothing, with a mixture"], indirect=True)
def test_an_unchanged_copy_of_the_mixtures_pass_passes(planted):
    for is_adam in (False, True):
        check_fused_pass(MIXTURE, planted, is_adam)


@pytest.mark.parametrize("planted", ["nothing, in a layer", "the variance", "the gradient"], indirect=True)
def test_in_a_layer(planted, monkeypatch, request):
    pytest.importorskip("pyro", reason="Pyro is not installed")
    from implementations._kernels import hidden_layer
    from tests.implementations.test_hidden_layer_kernels import test_compiled_layer_is_the_plain_one_in_float64 as layer

    monkeypatch.setattr(hidden_layer, "loops_for", lambda value, _: planted if value.element_size() == 4 else None)
    with nullcontext() if "nothing" in request.node.name else pytest.raises(AssertionError):
        layer(0.75)


@pytest.mark.parametrize("planted", ["nothing, in the normals", "a coefficient of the sine"], indirect=True)
def test_in_the_normals(planted, monkeypatch, request):
    monkeypatch.setattr(noise_loops, "fill_normals", planted.fill_normals)
    with nullcontext() if "nothing" in request.node.name else pytest.raises(AssertionError):
        numbers()


@pytest.mark.parametrize(
    "planted", ["Adam's beta2", "the prior's pull", "the slope of sigma", "the sum of log sigma"], indirect=True
)
def test_in_a_step_of_adam(planted, monkeypatch):
    monkeypatch.setattr(sampled_mlp, "loops_for", lambda value: planted if value.element_size() == 4 else None)
    with pytest.raises(AssertionError):
        a_step_of_adam(False, 1, 1, monkeypatch)


@pytest.mark.parametrize("planted", ["the narrow prior's share", "the entropy"], indirect=True)
def test_in_a_step_of_sgd(planted):
    with pytest.raises(AssertionError):
        check_fused_pass(MIXTURE, planted)


@pytest.mark.parametrize("planted", ["the narrow prior's share", "the entropy", "the rate of rho"], indirect=True)
def test_in_a_step_of_adam_with_a_mixture(planted):
    with pytest.raises(AssertionError):
        check_fused_pass(MIXTURE, planted, is_adam=True)
