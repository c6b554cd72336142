"""Names of executors and what they open; if an executor cannot be opened, the error is one line."""

import asyncio

import pytest
import torch

from bench.core.errors import ConfigError
from bench.run.remote import dask_pool, opening


@pytest.mark.parametrize(
    ("error", "cause", "words"),
    [
        (OSError("timed out"), OSError(111, "Connection refused"), "[Errno 111] Connection refused"),
        (OSError("timed out"), asyncio.CancelledError(), "timed out"),  # the first cause has no words
        (RuntimeError(), None, "RuntimeError"),
    ],
)
def test_a_scheduler_that_does_not_answer_is_told_in_the_words_of_the_first_cause_that_has_some(error, cause, words):
    error.__cause__ = cause
    told = dask_pool._why_no_answer("tcp://127.0.0.1:1", error)
    assert f"no Dask scheduler answers at tcp://127.0.0.1:1 ({words})" in told


def test_one_gpu_is_not_shared():
    with pytest.raises(ConfigError, match="--executor dask gives each fit its own GPU"):
        opening.open_executor("process", "cuda", workers=2)


def test_gpus_are_those_that_this_process_may_see(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2, GPU-5f")
    assert opening.gpus() == ("2", "GPU-5f")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(ConfigError, match="no CUDA device"):
        opening.gpus()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert opening.gpus() == ("0", "1")


@pytest.mark.parametrize(
    ("name", "threads", "workers", "expected"),
    [
        ("process", None, None, None),  # one fit at a time has all cores
        ("process", None, 1, None),
        ("process", None, 2, 4),
        ("process", None, 3, 2),
        ("process", None, 99, 1),
        ("process", 3, 2, 3),
        ("dask", None, 2, None),  # its workers say how many
    ],
)
def test_a_fits_threads_are_its_share_of_the_cores(name, threads, workers, expected, monkeypatch):
    monkeypatch.setattr("torch.get_num_threads", lambda: 8)
    assert opening.threads_of_a_fit(name, threads, workers) == expected
