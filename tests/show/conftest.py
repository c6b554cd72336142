"""Fixtures for the tests of predict."""

import pytest

from bench.core.store import Store
from tests.drawings import THREE, save, strokes


@pytest.fixture
def store(tmp_path):
    """Return a store of an empty results folder."""
    return Store(tmp_path / "results")


@pytest.fixture(scope="session")
def three(tmp_path_factory):
    """Return the path of a drawn 3."""
    return save(tmp_path_factory.mktemp("pictures") / "three.png", 1 - strokes(THREE))


@pytest.fixture(scope="session")
def four(tmp_path_factory):
    """Return the path of a drawn 4."""
    points = ((0.7, 0), (0.1, 0.6), (0.9, 0.65), (0.65, 0.3), (0.65, 1))
    return save(tmp_path_factory.mktemp("pictures") / "four.png", 1 - strokes(points))
