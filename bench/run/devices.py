"""The devices of this machine by name: cpu, cuda, cuda:N."""

from __future__ import annotations

import re

from bench.core.errors import ConfigError


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
