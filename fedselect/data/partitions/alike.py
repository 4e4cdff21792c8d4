"""Partitions that give every client the same mix of labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedselect.data.partitions.registry import PARTITIONS, check_clients
from fedselect.errors import DataError

__all__ = ["iid", "iid_draws"]


@PARTITIONS.register("iid")
def iid(labels: NDArray[np.int64], n_clients: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Shuffle, and deal out in equal parts."""
    check_clients(labels, n_clients)
    return [np.sort(part) for part in np.array_split(rng.permutation(labels.size), n_clients)]


@PARTITIONS.register("iid-draws")
def iid_draws(
    labels: NDArray[np.int64], n_clients: int, rng: np.random.Generator, *, samples: int = 500
) -> list[NDArray[np.int64]]:
    """Let every client draw its samples by itself (E3CS, iid): two clients may hold the same one.

    Parameters
    ----------
    labels : (n,) ndarray of int
        Label of each sample.
    n_clients : int
        Number of clients N.
    rng : numpy.random.Generator
        Source of randomness.
    samples : int
        Samples of each client, drawn without replacement.

    Returns
    -------
    list of ndarray of int
        Sorted sample indices of each client.

    Raises
    ------
    DataError
        When there are not as many samples.
    """
    check_clients(labels, n_clients, shared=True)
    if not 1 <= samples <= labels.size:
        raise DataError(f"samples must lie between 1 and the number there is, {labels.size}; got {samples}")
    return [np.sort(rng.choice(labels.size, samples, replace=False)) for _ in range(n_clients)]
