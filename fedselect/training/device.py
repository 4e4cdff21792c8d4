"""Device and number of threads that PyTorch computes with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fedselect.errors import ConfigError

if TYPE_CHECKING:
    import torch

__all__ = [
    "one_thread",
    "pick_device",
]


def pick_device(name: str) -> torch.device:
    """The device that a setting ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:1"`` means here.

    Raises
    ------
    ConfigError
        When a CUDA device was asked for and is not there.
    """
    import torch

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


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch use one thread: the models are small, and runs go side by side instead."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
