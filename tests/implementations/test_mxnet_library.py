"""What is around the step of mxnet_bbb: MXNet itself, a GPU, the moving average."""

import importlib
import importlib.util
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from bench.core.errors import MissingFramework, Unsupported
from bench.interface import Task
from bench.judge.contract import CheckContext

try:
    from implementations import _mxnet
except MissingFramework as absent:
    pytest.skip(str(absent), allow_module_level=True)

from implementations._mxnet import mx, nd, to_ndarray, to_tensor
from implementations.mxnet_bbb import MxnetBbb, moving_average
from tests.close import close
from tests.implementations.made_up import rows

MNIST = Task("classification", n_outputs=10, n_train=60_000, n_inputs=784)


U = 2.0**-24  # unit roundoff of float32


@pytest.mark.parametrize(("low", "high", "polynomial"), [(-4.0, -2.0, 3.8e-7), (-8.0, 4.0, 1.08e-6)])
def test_softplus_of_onednn_has_the_error_of_its_polynomial(low, high, polynomial):
    rho = torch.linspace(low, high, 100_001)
    found = to_tensor(nd.Activation(to_ndarray(rho), act_type="softrelu"))
    gap = found.double() - functional.softplus(rho.double())
    # tolerance: the polynomial's largest error over the interval, and two roundings of 1 + e^rho and of the result
    assert (gap.abs() <= polynomial + 2 * U * (1 + rho.double().exp().clamp(max=4))).all()


def test_memory_is_shared():
    tensor = torch.zeros(3)
    array = to_ndarray(tensor)
    tensor[1] = 2
    assert array.asnumpy().tolist() == [0, 2, 0]
    array *= 3
    array.wait_to_read()
    assert tensor.tolist() == [0, 6, 0]
    assert to_tensor(array).data_ptr() == tensor.data_ptr()


def test_mxnet_that_is_not_there_or_does_not_import_says_what_to_do(monkeypatch):
    def fail(name):
        raise AttributeError("module 'numpy' has no attribute 'product'")

    before = vars(np).get("bool")  # which the import of MXNet needs in another form
    assert _mxnet.import_mxnet() is mx
    assert vars(np).get("bool") is before
    with monkeypatch.context() as patch:
        patch.setattr(importlib, "import_module", fail)
        with pytest.raises(MissingFramework, match=r"'product'.*NumPy < 2"):
            _mxnet.import_mxnet()
    assert vars(np).get("bool") is before
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingFramework, match=r"-c constraints\.txt -e '\.\[mxnet\]'"):
        _mxnet.import_mxnet()


def test_a_gpu_is_refused():
    context = CheckContext(0)
    context.device = torch.device("cuda")
    with pytest.raises(Unsupported, match="--device cpu"):
        MxnetBbb().fit(rows(4, 784), MNIST, context)


COUNT_THREADS = """
import os, torch
torch.set_num_threads(1)
os.environ.update(OMP_NUM_THREADS="1", MXNET_OMP_MAX_THREADS="{threads}")
from implementations._mxnet import mx
inputs, weights, bias = (mx.nd.ones(shape) for shape in ((128, 784), (400, 784), 400))
mx.nd.FullyConnected(inputs, weights, bias, num_hidden=400).wait_to_read()
print(len(os.listdir("/proc/self/task")), os.environ["OMP_NUM_THREADS"])
"""


@pytest.mark.skipif(
    not Path("/proc/self/task").exists() or len(os.sched_getaffinity(0)) < 2, reason="needs Linux and two cores"
)
def test_mxnet_obeys_a_limit_of_threads_that_is_set_after_pytorch_has_started_openmp():
    """If MXNet saw OMP_NUM_THREADS, it would use all processors, and both counts would be equal."""
    unset = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "MXNET_"))}

    def count(threads):
        code = COUNT_THREADS.format(threads=threads)
        done = subprocess.run([sys.executable, "-c", code], env=unset, capture_output=True, text=True, check=True)
        n_threads, openmp = done.stdout.split()
        assert openmp == "1"  # other frameworks still see it
        return int(n_threads)

    assert count(1) < count(2)


def test_moving_average_by_hand():
    # 10; .99 x 10 + .01 x 20 = 10.1; .99 x 10.1 + .01 x 0 = 9.999
    assert moving_average(None, [10.0, 20.0, 0.0], 0.01) == close(9.999)
    assert moving_average(moving_average(None, [10.0], 0.01), [20.0, 0.0], 0.01) == close(9.999)
    assert math.isnan(moving_average(10.0, [math.nan, 1.0], 0.01))
