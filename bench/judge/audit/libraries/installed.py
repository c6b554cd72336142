"""Import a library only when its own example is asked for."""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType

from elbo_audit.errors import MissingLibrary

EXTRA = "'bnn-uncertainty-bench[libraries]'"


def library(module: str, install: str = EXTRA) -> ModuleType:
    """Return a library's module; raises MissingLibrary that says what to install.

    It is imported only here: no library is needed until its own example is audited.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # we cannot mend a library's warnings about its own imports
            return importlib.import_module(module)
    except ImportError as error:
        raise MissingLibrary(f"{module} cannot be imported ({error}); pip install {install}") from error
