"""The sources of approaches, asked for by many threads."""

from __future__ import annotations

import gc
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench.plan.registry import source_files


@pytest.fixture
def restless():
    """Make threads switch inside the parser too, as a collection of garbage sometimes does."""
    before = gc.get_threshold()

    def give_way(*_):
        time.sleep(0)

    gc.callbacks.append(give_way)
    gc.set_threshold(50)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(give_way)


def test_many_threads_may_ask_for_the_sources(restless):
    """Without a lock, CPython 3.11 raises SystemError: AST constructor recursion depth mismatch."""
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(source_files, ["pyro_hidden_layer"] * 24))
    assert found == [source_files("pyro_hidden_layer")] * 24
