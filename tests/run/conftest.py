"""What tests of runs share."""

import pytest

import implementations.toy_mlp
from bench.plan import registry


@pytest.fixture
def look_again():
    """Have the approaches of a test's own folder forgotten after it."""
    yield
    registry._look.cache_clear()


@pytest.fixture
def short_intervals(monkeypatch):
    """Let toy_mlp take 5 of the 5,000 steps of each of its six intervals."""
    whole = implementations.toy_mlp.descend

    def descend(layout, flat, x, y, n_steps, rate):
        return whole(layout, flat, x, y, min(n_steps, 5), rate)

    monkeypatch.setattr(implementations.toy_mlp, "descend", descend)
