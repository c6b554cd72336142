"""A model for each test."""

import pytest

from tests.elbo_audit.models import Model


@pytest.fixture
def model():
    return Model()
