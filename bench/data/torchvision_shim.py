"""Import torchvision with a torch that cannot load torchvision's compiled operators.

PyPI's torchvision is built for CUDA. With a CPU-only torch, its library does not load. Then the import of its Python
code fails, because this code attaches meta functions to two operators that are not declared. If the two are declared,
`torchvision.datasets` can be imported. The operators themselves stay unusable.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from bench.core.errors import MissingFramework
from bench.core.project import install

if TYPE_CHECKING:
    import torch

OPERATORS = ("nms", "qnms")
SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def import_datasets() -> ModuleType:
    """Return the module `torchvision.datasets`.

    Raises:
        MissingFramework: torchvision is not installed, or does not fit this torch.
    """
    if not make_importable():
        raise MissingFramework(f"torchvision is not installed; {install('torchvision')}")
    try:
        return importlib.import_module("torchvision.datasets")
    except (ImportError, RuntimeError, OSError, AttributeError) as error:
        what = str(error).partition("\n")[0]
        raise MissingFramework(
            f"torchvision cannot be imported ({what}); install the version made for torch"
        ) from error


def make_importable() -> bool:
    """Declare the operators without which torchvision, and libraries that import it, cannot be imported.

    Call it before the import of such a library: laplace-torch, torch-uncertainty, torchmetrics.

    Returns:
        Whether torchvision is installed.
    """
    specification = importlib.util.find_spec("torchvision")
    if specification is None:
        return False
    for folder in specification.submodule_search_locations or ():
        _declare_missing_operators(Path(folder))
    return True


@functools.cache  # an operator can be declared only once, and exists only as long as the returned library
def _declare_missing_operators(package: Path) -> torch.library.Library | None:
    import torch  # here: it takes seconds, and only fetching needs it

    for library in package.glob("_C.*"):
        try:
            torch.ops.load_library(library)  # type: ignore[no-untyped-call]
        except OSError:
            continue
        return None
    declared = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    for operator in OPERATORS:
        declared.define(operator + SCHEMA)  # type: ignore[no-untyped-call]
    return declared
