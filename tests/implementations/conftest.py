"""Shared by the tests of implementations."""

import pytest
import torch


@pytest.fixture
def float64():
    """Let every new tensor be float64."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
