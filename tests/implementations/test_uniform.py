"""uniform: log K to the last bit, whatever the image; no epoch to report."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.core.errors import ConfigError
from bench.interface import Split, Task
from bench.judge.contract import CheckContext
from implementations.uniform import Uniform


def empty_split():
    return Split("train60k", torch.empty(0, 784), torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64))


@given(n_classes=st.integers(2, 1000), n_rows=st.integers(0, 5), n_draws=st.integers(1, 3))
def test_every_class_gets_log_k(n_classes, n_rows, n_draws):
    context = CheckContext(0)
    posterior = Uniform().fit(empty_split(), Task("classification", n_classes, 0, 784), context)
    assert not context.traces
    x = torch.randn(n_rows, 784, generator=torch.Generator().manual_seed(0))
    log_probs = posterior.predict(x, range(n_draws), torch.arange(n_rows)).log_probs
    assert log_probs.dtype == torch.float32
    assert torch.equal(log_probs, torch.full((n_draws, n_rows, n_classes), -math.log(n_classes)))


def test_rebuilt_from_its_arrays():
    task = Task("classification", 7, 0, 784)
    posterior = Uniform().rebuild(Uniform().fit(empty_split(), task, CheckContext(0)).arrays(), task, 0)
    assert posterior.predict(torch.zeros(1, 784), range(1), torch.arange(1)).log_probs.shape == (1, 1, 7)


def test_wrong_kind_of_task():
    with pytest.raises(ConfigError, match="classification task and was given a regression one"):
        Uniform().fit(empty_split(), Task("regression", 1, 0, 1), CheckContext(0))
