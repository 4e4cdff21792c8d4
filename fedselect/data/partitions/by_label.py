"""Partitions that give every client few labels, or one label above all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedselect.data.partitions.registry import PARTITIONS, check_clients
from fedselect.errors import DataError

__all__ = ["primary_label", "sorted_blocks", "two_label"]


@PARTITIONS.register("two-label")
def two_label(
    labels: NDArray[np.int64], n_clients: int, rng: np.random.Generator, *, labels_per_client: int = 2
) -> list[NDArray[np.int64]]:
    """Give every client a fixed number of labels, and split each label equally among its owners.

    Labels are dealt as in FedGS (FashionMNIST): a client receives, one after another, a random one among the labels
    with the fewest owners that it does not own yet, so that each label has nearly the same number of owners.

    Parameters
    ----------
    labels : (n,) ndarray of int
        Label of each sample.
    n_clients : int
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
    check_clients(labels, n_clients)
    owners: list[list[int]] = [[] for _ in classes]
    for client in range(n_clients):
        for _ in range(labels_per_client):
            counts = np.array([len(o) if client not in o else np.iinfo(np.int64).max for o in owners])
            owners[int(rng.choice(np.flatnonzero(counts == counts.min())))].append(client)
    parts: list[list[NDArray[np.int64]]] = [[] for _ in range(n_clients)]
    for label, holding in zip(classes, owners, strict=True):
        indices = rng.permutation(np.flatnonzero(labels == label))
        if indices.size < len(holding):
            raise DataError(
                f"label {label} has {indices.size} samples for {len(holding)} clients that should own it; "
                "use a smaller n_clients or labels_per_client"
            )
        for client, part in zip(holding, np.array_split(indices, max(len(holding), 1)), strict=False):
            parts[client].append(part)
    return [np.sort(np.concatenate(part)) for part in parts]


@PARTITIONS.register("primary-label", "e3cs")
def primary_label(
    labels: NDArray[np.int64],
    n_clients: int,
    rng: np.random.Generator,
    *,
    samples: int = 500,
    share: float = 0.8,
) -> list[NDArray[np.int64]]:
    """Give every client one label in the main, and a few samples of the others (E3CS, non-iid).

    Each client has a primary label at random, takes a share of its samples from it and the rest from all other
    labels, without replacement; clients draw by themselves, so that two may hold the same sample. (E3CS implies that
    overlap: 400 of the primary label each would use CIFAR10's 5 000 up with twelve clients.)

    Parameters
    ----------
    labels : (n,) ndarray of int
        Label of each sample.
    n_clients : int
        Number of clients N.
    rng : numpy.random.Generator
        Source of randomness.
    samples : int
        Samples of each client; E3CS has 500.
    share : float
        Share of the primary label, in [0, 1]; E3CS has 0.8.

    Returns
    -------
    list of ndarray of int
        Sorted sample indices of each client.

    Raises
    ------
    DataError
        When an option is out of range, or a label has too few samples.
    """
    if samples < 1 or not 0 <= share <= 1:
        raise DataError(f"samples must be at least 1 and share lie in [0, 1]; got {samples} and {share}")
    check_clients(labels, n_clients, shared=True)
    classes = np.unique(labels)
    main = round(share * samples)
    parts = []
    for primary in rng.choice(classes, n_clients):
        own, others = np.flatnonzero(labels == primary), np.flatnonzero(labels != primary)
        if own.size < main or others.size < samples - main:
            raise DataError(
                f"a client of label {primary} needs {main} samples of it and {samples - main} of the others; "
                f"there are {own.size} and {others.size}"
            )
        drawn = [rng.choice(own, main, replace=False), rng.choice(others, samples - main, replace=False)]
        parts.append(np.sort(np.concatenate(drawn)))
    return parts


@PARTITIONS.register("sorted-blocks", "fedss")
def sorted_blocks(
    labels: NDArray[np.int64],
    n_clients: int,
    rng: np.random.Generator,
    *,
    ratio: float = 0.8,
    blocks_per_client: int = 1,
) -> list[NDArray[np.int64]]:
    """Deal out a part at random and the rest in blocks sorted by label (FedSS, Section V, after SCAFFOLD).

    The share 1 - ratio is dealt out at random in equal parts; the rest is sorted by label, cut into equal blocks, and
    every client gets its number of blocks at random. With one block a client has one label in the main.

    Parameters
    ----------
    labels : (n,) ndarray of int
        Label of each sample.
    n_clients : int
        Number of clients N.
    rng : numpy.random.Generator
        Source of randomness.
    ratio : float
        Non-IID ratio in [0, 1]; FedSS has 0.8, 0.9 and 0.95.
    blocks_per_client : int
        Blocks of each client; FedSS does not say how many, and with more than one its groups are hard to find.

    Returns
    -------
    list of ndarray of int
        Sorted sample indices of each client; together they cover every sample once.

    Raises
    ------
    DataError
        When an option is out of range or there are too few samples for the blocks.
    """
    if not 0 <= ratio <= 1 or blocks_per_client < 1:
        raise DataError(
            f"ratio must lie in [0, 1] and blocks_per_client be at least 1; got {ratio} and {blocks_per_client}"
        )
    check_clients(labels, n_clients)
    order = rng.permutation(labels.size)
    dealt = round((1 - ratio) * labels.size)
    rest = order[dealt:]
    blocks = np.array_split(rest[np.argsort(labels[rest], kind="stable")], n_clients * blocks_per_client)
    places = rng.permutation(len(blocks)).reshape(n_clients, blocks_per_client)
    parts = [
        np.sort(np.concatenate([mine, *(blocks[b] for b in places[k])]))
        for k, mine in enumerate(np.array_split(order[:dealt], n_clients)[::-1])  # the larger ends do not meet
    ]
    if min(part.size for part in parts) == 0:
        raise DataError(f"{labels.size} samples do not reach for {n_clients} clients with blocks at ratio {ratio}")
    return parts
