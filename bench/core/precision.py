"""The precisions of a fit, and which devices support them.

float64: pixels, weights, noise and the optimiser's state too. The others: operands of matrix products alone.
"""

from __future__ import annotations

from bench.core.errors import ConfigError, check_known

PRECISIONS = ("float32", "float64", "bf16", "tf32")
TF32_CAPABILITY = (8, 0)


def check_precision(precision: str, device: str) -> None:
    """Raise ConfigError if the precision is unknown, or the device does not support it."""
    check_known("precision", PRECISIONS, precision)
    if precision != "tf32":
        return
    if not device.startswith("cuda"):
        raise ConfigError(f"precision 'tf32' was given with device {device}; only CUDA devices have it: use bf16 there")
    import torch  # here: most commands only check a name

    if torch.cuda.get_device_capability(device) < TF32_CAPABILITY:
        name = torch.cuda.get_device_name(device)
        raise ConfigError(f"precision 'tf32' was given with {name}, which lacks it; use bf16 or float32 there")
