"""Fixtures for tests of runs."""

import pytest

import implementations.toy_mlp
from bench.plan import registry


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
