"""A model for each test."""

import pytest

from tests.judge.elbo.models import Model


@pytest.fixture
def model():
    return Model()
