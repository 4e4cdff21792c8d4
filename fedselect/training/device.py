"""Where PyTorch computes."""

from __future__ import annotations

import torch

from fedselect.errors import ConfigError

__all__ = ["pick_device"]


def pick_device(name: str) -> torch.device:
    """The device that a setting ``"auto"``, ``"cpu"`` or ``"cuda"`` means here.

    Raises
    ------
    ConfigError
        When CUDA was asked for and is not there.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            "training: device 'cuda' was asked for, but PyTorch sees no CUDA device (use 'auto' or 'cpu')"
        )
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")
