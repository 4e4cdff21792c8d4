"""Where PyTorch computes, and with how many threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from fedselect.errors import ConfigError

__all__ = ["one_thread", "pick_device"]


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


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch use one thread: the models are small, runs go side by side instead, and bits depend on the number."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
