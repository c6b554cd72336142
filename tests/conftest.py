"""Shared settings: hypothesis without deadlines and reproducible; one thread, because all matrices are small
(`tools.numerical` sets another number).

What commands print is as wide as in a pipe, whatever the terminal is that runs the tests. Files are not synced: no test
reads them after a power cut, and the tests of syncing put a function of their own in the place of `os.fsync`. The
records that come with the suite are read once: to read and check 800 files takes a second, and half of the commands do.
"""

import functools
import os

import pytest
import torch
from hypothesis import settings

import implementations.toy_mlp
from bench.core.project import RESULTS
from bench.core.store import Store
from bench.plan import plugins, registry

settings.register_profile("bench", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("bench")
torch.set_num_threads(int(os.environ.get("BNN_BENCH_TEST_THREADS", "1")))
os.environ.pop("COLUMNS", None)
os.fsync = lambda handle: None


read_all = Store.all_records
read_shipped = functools.cache(lambda root, without: read_all(Store(root), without))


def all_records(store, without=()):
    """Return records and problems as the store does; of a folder that comes with the suite, those read before."""
    root = store.root.resolve()
    is_shipped = root.is_relative_to(RESULTS)
    return tuple(map(list, read_shipped(root, frozenset(without)))) if is_shipped else read_all(store, without)


Store.all_records = all_records


@pytest.fixture
def float64():
    """Let every new tensor be float64."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def own_approaches(monkeypatch):
    """Look for approaches anew, before and after; the variable names none."""
    monkeypatch.setenv(plugins.VARIABLE, "")
    registry._look.cache_clear()
    yield
    registry._look.cache_clear()


@pytest.fixture
def look_again():
    """After the test, forget the approaches of the test's own folder."""
    yield
    registry._look.cache_clear()


@pytest.fixture
def short_intervals(monkeypatch):
    """Let each of toy_mlp's six epochs (intervals) take 5 steps, not 5,000."""
    whole = implementations.toy_mlp.descend

    def descend(layout, flat, x, y, n_steps, rate):
        return whole(layout, flat, x, y, min(n_steps, 5), rate)

    monkeypatch.setattr(implementations.toy_mlp, "descend", descend)


@pytest.fixture(scope="session")
def shipped():
    """Return the records that come with the suite; shared by the tests, because their verdicts take seconds."""
    from bench.show.inputs import Inputs

    return Inputs(RESULTS)


@pytest.fixture(scope="session")
def tables(shipped):
    """Return every table of the records that come with the suite, by name."""
    from bench.show.tables.registry import all_tables

    return all_tables(shipped)
