"""Where PyTorch computes."""

from __future__ import annotations

import torch

from fedselect.errors import ConfigError

__all__ = ["pick_device"]


def pick_device(name: str) -> torch.device:
    """The device that a setting ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:1"`` means here.

    Raises
    ------
    ConfigError
        When a CUDA device was asked for and is not there.
    """
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        return torch.device("cuda" if there else "cpu")
    if name == "cpu":
        return torch.device("cpu")
    if int(name.partition(":")[2] or 0) >= there:
        known = ", ".join(f"'cuda:{place}'" for place in range(there))
        seen = f"sees only {known}" if there else "sees no CUDA device"
        raise ConfigError(f"training: device {name!r} was asked for, but PyTorch {seen} (use 'auto' or 'cpu')")
    return torch.device(name)
