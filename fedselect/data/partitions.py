"""Ways to split a labelled data set over clients; each returns one index array per client."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import DataError
from fedselect.options import Registry

__all__ = ["PARTITIONS", "dirichlet", "iid", "two_label"]

PARTITIONS: Registry = Registry("partition")


@PARTITIONS.register("iid")
def iid(labels: NDArray[np.int64], clients: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Shuffle, and deal out in equal parts."""
    _enough(labels, clients)
    return [np.sort(part) for part in np.array_split(rng.permutation(labels.size), clients)]


@PARTITIONS.register("two-label")
def two_label(
    labels: NDArray[np.int64], clients: int, rng: np.random.Generator, *, labels_per_client: int = 2
) -> list[NDArray[np.int64]]:
    """Give every client a fixed number of labels, and split each label equally among its owners.

    Labels are dealt as in FedGS (FashionMNIST): a client receives, one after another, a random one among the labels
    with the fewest owners that it does not own yet, so that each label has nearly the same number of owners.

    Parameters
    ----------
    labels : (n,) ndarray of int
        Label of each sample.
    clients : int
        Number of clients N.
    rng : numpy.random.Generator
        Source of randomness.
    labels_per_client : int
        Labels of each client.

    Returns
    -------
    list of ndarray of int
        Sorted sample indices of each client; together they cover every sample of an owned label once.

    Raises
    ------
    DataError
        When there are fewer labels than a client should own, or fewer samples of one than it has owners.
    """
    classes = np.unique(labels)
    if not 1 <= labels_per_client <= classes.size:
        raise DataError(f"labels_per_client must lie between 1 and {classes.size}; got {labels_per_client}")
    _enough(labels, clients)
    owners: list[list[int]] = [[] for _ in classes]
    for client in range(clients):
        for _ in range(labels_per_client):
            counts = np.array([len(o) if client not in o else np.iinfo(np.int64).max for o in owners])
            owners[int(rng.choice(np.flatnonzero(counts == counts.min())))].append(client)
    parts: list[list[NDArray[np.int64]]] = [[] for _ in range(clients)]
    for label, holding in zip(classes, owners, strict=True):
        indices = rng.permutation(np.flatnonzero(labels == label))
        if indices.size < len(holding):
            raise DataError(
                f"label {label} has {indices.size} samples for {len(holding)} clients that should own it; "
                "use fewer clients or labels_per_client"
            )
        for client, part in zip(holding, np.array_split(indices, max(len(holding), 1)), strict=False):
            parts[client].append(part)
    return [np.sort(np.concatenate(part)) for part in parts]


@PARTITIONS.register("dirichlet")
def dirichlet(
    labels: NDArray[np.int64], clients: int, rng: np.random.Generator, *, concentration: float = 0.5
) -> list[NDArray[np.int64]]:
    """Draw each client's mix of labels from a Dirichlet distribution (Hsu et al. 2019).

    Client k's mix is Dir(α p), p the global label shares. Every label is split in proportion to the clients' shares of
    it; a client left empty is given one sample of the largest client's, so that nobody is without data.

    Parameters
    ----------
    labels : (n,) ndarray of int
        Label of each sample.
    clients : int
        Number of clients N.
    rng : numpy.random.Generator
        Source of randomness.
    concentration : float
        α > 0: small for clients of few labels, large for clients like the whole. FedGS's CIFAR10 has about 1.75.

    Returns
    -------
    list of ndarray of int
        Sorted sample indices of each client; together they cover every sample once.
    """
    if not concentration > 0:
        raise DataError(f"concentration must be positive; got {concentration}")
    _enough(labels, clients)
    classes, counts = np.unique(labels, return_counts=True)
    mixes = rng.dirichlet(concentration * counts / labels.size, size=clients)
    parts: list[list[int]] = [[] for _ in range(clients)]
    for column, label in enumerate(classes):
        indices = rng.permutation(np.flatnonzero(labels == label))
        shares = mixes[:, column]
        # A tiny concentration can underflow a whole column; such a label is then spread evenly.
        shares = shares / shares.sum() if shares.sum() > 0 else np.full(clients, 1 / clients)
        cuts = np.rint(np.cumsum(shares)[:-1] * indices.size).astype(np.int64)
        for client, part in enumerate(np.split(indices, cuts)):
            parts[client].extend(part.tolist())
    for mine in parts:
        if not mine:
            mine.append(max(parts, key=len).pop())
    return [np.sort(np.array(mine, dtype=np.int64)) for mine in parts]


def _enough(labels: NDArray[np.int64], clients: int) -> None:
    if not 1 <= clients <= labels.size:
        raise DataError(f"clients must lie between 1 and the number of samples, {labels.size}; got {clients}")
