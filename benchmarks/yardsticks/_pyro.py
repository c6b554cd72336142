"""What the documents in Pyro need to run beside ours: a parameter store of their own and no validation."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pyro

StoreState = dict[str, dict]


def empty_store() -> StoreState:
    """Return the state of a parameter store before its first parameter."""
    return {"params": {}, "constraints": {}}


@contextmanager
def with_store(state: StoreState) -> Iterator[None]:
    """Run the body with the parameters in `state`, which keeps what the body makes of them."""
    with (
        pyro.validation_enabled(False),
        pyro.get_param_store().scope(state),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", message="The `random_module` primitive is deprecated", category=FutureWarning)
        warnings.filterwarnings("ignore", message="Encountered NaN", category=UserWarning)
        yield
