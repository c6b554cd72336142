"""The import of laplace-torch, which imports torchmetrics, which imports torchvision where it is installed."""

from __future__ import annotations

import warnings

from bench.data.torchvision_shim import make_importable

make_importable()
with warnings.catch_warnings():  # of what the library imports
    warnings.filterwarnings("ignore", message="`torch.jit.script", category=DeprecationWarning)
    from laplace import Laplace
    from laplace.utils.matrix import Kron

__all__ = ["Kron", "Laplace"]
