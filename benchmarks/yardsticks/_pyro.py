"""What the documents in Pyro need to run beside ours: a parameter store of their own and no validation."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

import pyro

from bench.interface import Split
from benchmarks.throughput.yardsticks import Yardstick


class PyroYardstick(Yardstick):
    """A document in Pyro, with the parameters that its steps make."""

    smallest: ClassVar = {"n_hidden": 8}

    def __init__(self, train: Split, sizes: Sequence[int]) -> None:
        super().__init__(train, sizes)
        self._store: dict[str, dict] = {"params": {}, "constraints": {}}

    @contextmanager
    def session(self) -> Iterator[None]:
        """Give the body the document's parameters, and keep what it makes of them."""
        with (
            pyro.validation_enabled(False),
            pyro.get_param_store().scope(self._store),
            warnings.catch_warnings(),
        ):
            for message, category in (
                ("The `random_module` primitive is deprecated", FutureWarning),
                ("Encountered NaN", UserWarning),
            ):
                warnings.filterwarnings("ignore", message=message, category=category)
            yield
