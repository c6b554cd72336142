"""Other people's libraries: how often an epoch of their own examples counts the KL. Nothing is trained.

setting         the network, the batches and the seed of all examples in PyTorch
examples        the examples in words: the library, the text that it follows, the change that makes it an ELBO
objectives      the examples in PyTorch as code, and their audit, with `objectives_more`
foreign_audits  the audit of those of `tensorflow_objectives` and of NumPyro, in the form of `foreign`
audited         the file of what was measured

Each example is the objective of the library's README or tutorial, on the network 784-400-400-10 for 60,000 images, at
the batch size of that text. It is audited as it is, and with one change that makes it an ELBO.
"""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType

from bench.core.project import install
from elbo_audit.errors import MissingLibrary


def library(module: str, how: str = "") -> ModuleType:
    """Return a library's module; raises MissingLibrary that says how to install it, by default with the others.

    It is imported only here: no library is needed until its own example is audited.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # we cannot mend a library's warnings about its own imports
            return importlib.import_module(module)
    except ImportError as error:
        raise MissingLibrary(f"{module} cannot be imported ({error}); {how or install('libraries')}") from error
