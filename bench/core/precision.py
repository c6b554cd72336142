"""Devices, and the precisions of a fit: which a device has, and how PyTorch is switched to them.

float32  The default: every product of float32 numbers is a float32 product.
float64  Pixels, weights, noise and the optimiser's state are float64 too.
tf32     GPUs: tensor cores multiply float32 matrices with operands of 11 significant bits (PyTorch's own switch).
bf16     GPUs: PyTorch's autocast makes matrix products in bfloat16; parameters, sums and losses stay float32.

All metrics are float64, whatever the precision.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from bench.core.errors import ConfigError, check_known

if TYPE_CHECKING:  # most commands only check a name
    import torch

ON_CPU = ("float32", "float64")
PRECISIONS = (*ON_CPU, "bf16", "tf32")  # of CUDA devices
REDUCED_CAPABILITY = (8, 0)  # of NVIDIA GPUs with products in bf16 and tf32


def check_device_name(name: str) -> None:
    """Raise ConfigError if no device has this name."""
    if name != "cpu" and not re.fullmatch(r"cuda(:[0-9]{1,4})?", name):
        raise ConfigError(f"device '{name}' is unknown; known: cpu, cuda, cuda:N")


def check_device(name: str) -> None:
    """Raise ConfigError if a device is unknown, or this machine does not have it."""
    check_device_name(name)
    if name == "cpu":
        return
    import torch  # not at the top: it takes seconds, and only GPUs need it here

    index = int(name.split(":")[1]) if ":" in name else 0
    if index >= torch.cuda.device_count():
        raise ConfigError(f"device '{name}' is not there; this machine has {torch.cuda.device_count()} CUDA devices")


def check_precision(precision: str, device: str) -> None:
    """Raise ConfigError if the precision is unknown, or devices of this kind do not have it."""
    check_known("precision", PRECISIONS, precision)
    if device == "cpu" and precision not in ON_CPU:
        raise ConfigError(f"precision '{precision}' was given with device cpu, which has {' and '.join(ON_CPU)} only")


def check_gpu(precision: str, device: str) -> None:
    """Raise ConfigError if this machine's GPU lacks the precision."""
    if precision in ON_CPU or device == "cpu":
        return
    import torch

    if torch.cuda.get_device_capability(device) < REDUCED_CAPABILITY:
        name = torch.cuda.get_device_name(device)
        raise ConfigError(f"precision '{precision}' was given with {name}, which has {' and '.join(ON_CPU)} only")


def dtype_of(precision: str) -> torch.dtype:
    """Return the type of pixels, weights, noise and optimiser's state of a fit in this precision."""
    import torch

    return torch.float64 if precision == "float64" else torch.float32


@contextmanager
def computing_in(precision: str, device: torch.device) -> Iterator[None]:
    """Multiply float32 matrices in this precision inside the `with`, and restore the old state after it."""
    import torch

    setting = torch.get_float32_matmul_precision()
    backends = (torch.backends.mkldnn.matmul, torch.backends.cuda.matmul)  # type: ignore[attr-defined]  # not in torch's types
    states = [backend.fp32_precision for backend in backends]
    try:
        # PyTorch has one older setting, and a newer one for each device. Setting the older one also sets the newer
        # ones. If only the newer ones were set, torch.compile and others would refuse to read the older one.
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        with _autocast(precision, device):
            yield
    finally:
        torch.set_float32_matmul_precision(setting)
        for backend, state in zip(backends, states, strict=True):
            backend.fp32_precision = state


def _autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Return autocast to bfloat16, or for another precision what ends one that is on."""
    import torch

    if not torch.is_autocast_enabled(device.type) and precision != "bf16":
        return nullcontext()
    # Without the cache: it would keep the weights of the first training step until the `with` ends.
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16", cache_enabled=False)


@contextmanager
def without_denormals() -> Iterator[None]:
    """Flush numbers below 1e-38 to zero inside the `with`: they do not matter, but slow every operation on them."""
    import numpy as np
    import torch

    for kind in (np.float32, np.float64):
        np.finfo(kind)  # called first here: its first call tests for denormals, and warns if they are flushed
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
