"""The registry of selectors, and what several of them share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import ConfigError
from fedselect.options import Registry

__all__ = ["SELECTORS", "check_size", "data_weights"]

#: Builders ``(scenario, *, options) -> Selector`` by name.
SELECTORS: Registry = Registry("selector")


def check_size(size: int) -> int:
    """Return ``size`` if it is a number of clients to select; raise `ConfigError` otherwise."""
    if isinstance(size, bool) or not hasattr(size, "__index__") or size < 1:
        raise ConfigError(f"the number of clients to select must be a positive integer; got {size!r}")
    return int(size)


def data_weights(sizes: NDArray[np.int64], clients: NDArray[np.int64]) -> NDArray[np.float64]:
    r""":math:`n_k / \sum_{i \in S} n_i` for the selected clients, shape (m,) (FedGS Eq. 18)."""
    chosen = sizes[clients].astype(np.float64)
    return chosen / chosen.sum() if clients.size else chosen
