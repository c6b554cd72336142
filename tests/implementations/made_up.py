"""Made-up rows, contexts, noise and small networks for tests of single approaches."""

import dataclasses

import pytest
import torch

from bench.core.errors import MissingFramework
from bench.interface import Approach, Split
from bench.judge.contract import ApproachUnderTest, CheckContext
from bench.plan.registry import load_class
from tests.close import DOUBLE

# Widths in place of 400 to 1024 units, for tests that do not depend on the width. Masks of 70 units need two words.
SMALL = {
    "dropout_fcn": {"hidden": (70, 70)},
    "pyro_hidden_layer": {"n_hidden": 70},
    "pyro_random_module": {"n_hidden": 70},
    "mlp": {"width": 70},
    "linear_bbb": {"hidden_units": 70},
    "mxnet_bbb": {"hidden_units": 70},
    "blundell_sgd": {"hidden_units": 70},
    "blundell_bbb": {"hidden_units": 70},
    "blundell_dropout": {"hidden_units": 70},
}
WIDTHS = (70, 70)  # small widths for the methods, in place of `_methods.WIDTHS`


class SmallUnderTest(ApproachUnderTest):
    """An approach under test whose networks are small."""

    def approach(self, epochs: int = 1) -> Approach:
        return dataclasses.replace(super().approach(epochs), **SMALL.get(self.name, {}))


def class_of(name):
    """Return the class of an approach; skip the test if its framework, which is optional, is not installed.

    CI installs the documents' frameworks. For approaches that need other people's libraries, it checks their traces.
    """
    try:
        return load_class(name)
    except MissingFramework as error:
        pytest.skip(str(error))


def rows(n, n_inputs=20, seed=0, split="train60k", n_outputs=10, dtype=torch.float32):
    """Return n rows of random numbers in [0, 1) with random labels; in float64 the numbers of float32."""
    source = torch.Generator().manual_seed(seed)
    x = torch.rand(n, n_inputs, generator=source).to(dtype)
    return Split(split, x, torch.randint(n_outputs, (n,), generator=source), torch.arange(n))


def six_points(dtype=torch.float32):
    """Return feldman2018's toy."""
    x = torch.tensor([-2, -1.8, -1, 1, 1.8, 2], dtype=dtype).reshape(-1, 1)
    return Split("6 points", x, -(x**4) + 3 * x**2 + 1, torch.arange(6))


def whole_epochs(seed, dtype=torch.float32, **changes):
    """Return a context that cuts no epoch short."""
    context = context_of(seed, dtype, **changes)
    context.steps_per_epoch = None
    return context


def context_of(seed, dtype, **changes):
    """Return a context whose fits compute in a type."""
    context = CheckContext(seed, **changes)
    context.dtype = dtype
    return context


def load(net, values):
    """Copy values into the parameters of a network, in their order, and return the network."""
    for parameter, value in zip(net.parameters(), values, strict=True):
        parameter.data.copy_(value)
    return net


def assert_parameters(net, values, gradients=False, rtol=DOUBLE, atol=DOUBLE):
    """Check the float64 parameters of a network, or their gradients, in their order."""
    for parameter, value in zip(net.parameters(), values, strict=True):
        # tolerance: that of float64, or one that the caller derives
        torch.testing.assert_close(parameter.grad if gradients else parameter.data, value, rtol=rtol, atol=atol)


class PyrosNoise:
    """The noise that Pyro's own code draws, from PyTorch's global generator."""

    def __init__(self, stream):
        torch.manual_seed(stream)

    normals_ = staticmethod(torch.Tensor.normal_)
