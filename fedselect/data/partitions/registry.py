"""The registry of partitions, and what each of them checks first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import DataError
from fedselect.options import Registry

__all__ = ["PARTITIONS", "check_clients"]

#: Splitters ``(labels, clients, rng, *, options) -> list of index arrays`` by name.
PARTITIONS: Registry = Registry("partition")


def check_clients(labels: NDArray[np.int64], n_clients: int, shared: bool = False) -> None:
    """Raise `DataError` for no clients at all, or for more than samples where these are not ``shared``."""
    if n_clients < 1:
        raise DataError(f"there must be at least 1 client; got {n_clients}")
    if not shared and n_clients > labels.size:
        raise DataError(f"n_clients must lie between 1 and the number of samples, {labels.size}; got {n_clients}")
