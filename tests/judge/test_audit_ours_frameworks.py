"""The ELBO auditor on our approaches of Pyro and MXNet: the objective that their training steps minimise, in small."""

import importlib
import warnings

import pytest
import torch
from torch.nn.functional import softplus

from bench.core.errors import MissingFramework
from bench.core.streams import generator
from bench.judge.audit import elbo
from bench.judge.audit.elbo.objective import Factor
from bench.judge.contract import CheckContext
from implementations._kernels.layout import Layout
from tests.judge.ours import (
    INPUTS,
    N_TRAIN,
    STEPS,
    TASK,
    WIDTH,
    audit_written,
    batches,
    flat,
    leaves,
    logits,
    recipe_of,
    split,
    summed_nll,
)

# --- Pyro -----------------------------------------------------------------------------------------------------------


def pyro_report(name, recipe, factors_of, **small):
    """Audit model, guide and estimator of a module's `_Network`."""
    pyro = pytest.importorskip("pyro", reason="Pyro is not installed")
    module = importlib.import_module(f"implementations.{name}")
    from implementations._pyro import isolated

    with isolated(torch.device("cpu")), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The `random_module`", category=FutureWarning)
        torch.manual_seed(0)
        network = module._Network(recipe_of(name, recipe, **small), TASK, CheckContext(0))
        # pyro_hidden_layer keeps what follows from the parameters, which the audit moves
        forget = getattr(network, "forget", lambda: None)

        def model(x, y):
            forget()
            network.model(x, y)

        def guide(x, y):
            forget()
            return network.guide(x, y)

        return elbo.audit_pyro(
            model,
            guide,
            batches(torch.float32),
            N_TRAIN,
            loss=getattr(network, "estimator", None),
            factors=factors_of(pyro.get_param_store()),
            prior_std=1.0,
            draws=16,
        )


def random_module_factors(store):
    from implementations.pyro_random_module import WEIGHTS

    def factor(name):
        return Factor(name, lambda: store[f"{name}/mu"], lambda: softplus(store[f"{name}/rho"]))

    return [factor(name) for name in WEIGHTS]


@pytest.mark.parametrize(
    ("recipe", "factor", "outcome"),
    # the whole KL in each of 468.75 steps; a 469th of it
    [("published", STEPS, "fails"), ("corrected", STEPS / 469, "passes")],
)
def test_how_often_pyro_random_module_counts_its_kl(recipe, factor, outcome):
    report = pyro_report("pyro_random_module", recipe, random_module_factors, n_hidden=WIDTH)
    assert report.numbers["kl_per_epoch"] == pytest.approx(factor, rel=0.05)
    assert report.of("kl-scale").outcome == outcome
    assert report.of("kl-sign").outcome == "passes"
    assert report.of("unused-layer").outcome == "passes"


def hidden_layer_factors(store):
    def factor(name):
        def std():
            dropout = 1.0 if name == "a4" else store[f"{name}_dropout"]
            return dropout * (0.01 + store[f"{name}_log_excess"].exp())

        return Factor(name, lambda: store[f"{name}_mean"], std)

    return [factor(name) for name in ("a1", "a2", "a3", "a4")]


@pytest.mark.parametrize(("recipe", "factor"), [("published", -1), ("corrected", 1)])
def test_pyro_hidden_layer_has_the_sign_of_its_recipe(recipe, factor):
    # kappa = 128 / N in each of N / 128 steps
    report = pyro_report("pyro_hidden_layer", recipe, hidden_layer_factors, n_hidden=WIDTH)
    assert report.numbers["kl_per_epoch"] == pytest.approx(factor, abs=0.02)
    assert report.of("kl-sign").outcome == ("passes" if factor == 1 else "fails")
    assert report.of("kl-scale").outcome == "passes"
    assert report.numbers["prior_std"] == pytest.approx(1, rel=0.05)  # N(0, 1), whichever way it is pulled


# --- MXNet ----------------------------------------------------------------------------------------------------------


class OneStep(CheckContext):
    """A context whose fit takes one step from the given mu and rho."""

    def __init__(self, seed, layout, values):
        mu, rho = values.chunk(2)
        super().__init__(seed, resume=(0, {"mu": mu.contiguous(), "rho": rho.contiguous()}))
        self.steps_per_epoch = 1


def mxnet(recipe):
    """Audit `MxnetBbb.fit` itself: its loss is the trace of one step, its gradient what the step moved."""
    try:
        approach = recipe_of("mxnet_bbb", recipe, hidden_units=WIDTH, epochs=1)
    except MissingFramework as absent:
        pytest.skip(str(absent))
    layout = Layout((INPUTS, WIDTH, WIDTH, 10))
    source = torch.Generator().manual_seed(0)
    mu = torch.randn(layout.n_weights, generator=source, dtype=torch.float64) * 0.1
    parameters = leaves(layout, mu=mu, rho=torch.full_like(mu, -3.0))

    def evaluate(x, y, values):
        context = OneStep(int(torch.randint(2**31, ())), layout, values)
        approach.fit(split(x, y), TASK, context)
        after = torch.cat([context.states[1]["mu"], context.states[1]["rho"]])
        (loss,) = context.traces[1].values()
        return torch.tensor(loss, dtype=torch.float64), (values - after) / approach.learning_rate

    def nll(x, y):
        seed = int(torch.randint(2**31, ()))
        epsilon = torch.empty(layout.n_weights).normal_(generator=generator(seed, "noise", 1))
        mu, rho = flat(parameters).chunk(2)
        layers = layout.layers(mu + softplus(rho) * epsilon)
        used = layers if approach.use_second_hidden else [layers[0], layers[2]]
        return summed_nll(logits(x * approach.pixel_scale, used, torch.relu), y)

    return audit_written(
        evaluate,
        parameters,
        batches(),
        N_TRAIN,
        nll=nll,
        prior_std=1.0,
    )


def test_mxnet_bbb_as_published_counts_one_kl_an_epoch_and_leaves_a_layer_out():
    report = mxnet("published")
    assert report.numbers["kl_per_epoch"] == pytest.approx(STEPS / 469, abs=0.02)
    assert report.of("kl-scale").outcome == "passes"
    finding = report.of("unused-layer")
    assert finding.outcome == "fails"
    assert finding.measured["tensors"] == 4  # mu and rho of one layer's weight and bias
    assert finding.detail.count("hidden2") == 4


def test_mxnet_bbb_corrected_is_an_elbo():
    report = mxnet("corrected")
    assert report.ok
    assert report.numbers["kl_per_epoch"] == pytest.approx(STEPS / 469, abs=0.02)
    assert report.numbers["prior_std"] == pytest.approx(1, rel=0.05)
