"""uniform: log K to the last bit, whatever the image; no epoch to report."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.interface import Task
from bench.judge.contract import CheckContext
from implementations.uniform import Uniform
from tests.implementations.made_up import rows


@given(n_classes=st.integers(2, 1000), n_rows=st.integers(0, 5), n_draws=st.integers(1, 3))
def test_every_class_gets_log_k(n_classes, n_rows, n_draws):
    context = CheckContext(0)
    posterior = Uniform().fit(rows(0), Task("classification", n_classes, 0, 20), context)
    assert not context.traces
    log_probs = posterior.predict(rows(n_rows).x, range(n_draws), torch.arange(n_rows)).log_probs
    assert log_probs.dtype == torch.float32
    assert torch.equal(log_probs, torch.full((n_draws, n_rows, n_classes), -math.log(n_classes)))
