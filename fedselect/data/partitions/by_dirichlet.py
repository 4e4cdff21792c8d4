"""Partitions whose mixes of labels are drawn from a Dirichlet distribution."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedselect.data.partitions.registry import PARTITIONS, check_clients
from fedselect.errors import DataError

__all__ = ["dirichlet", "dirichlet_per_class", "dirichlet_unequal"]


@PARTITIONS.register("dirichlet")
def dirichlet(
    labels: NDArray[np.int64], n_clients: int, rng: np.random.Generator, *, concentration: float = 0.5
) -> list[NDArray[np.int64]]:
    """Draw each client's mix of labels from a Dirichlet distribution (Hsu et al. 2019).

    Client k's mix is Dir(α p), p the global label shares. Every label is split in proportion to the clients' shares of
    it; a client left empty is given one sample of the largest client's, so that nobody is without data.

    Parameters
    ----------
    labels : (n,) ndarray of int
        Label of each sample.
    n_clients : int
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
    check_clients(labels, n_clients)
    classes, counts = np.unique(labels, return_counts=True)
    mixes = rng.dirichlet(concentration * counts / labels.size, size=n_clients)
    return _cut(labels, classes, mixes, rng)


@PARTITIONS.register("dirichlet-per-class", "fedau")
def dirichlet_per_class(
    labels: NDArray[np.int64], n_clients: int, rng: np.random.Generator, *, concentration: float = 0.1
) -> list[NDArray[np.int64]]:
    """Draw each client's mix of labels from a symmetric Dirichlet distribution (FedAU).

    Client n's mix is Dir(α 1), α for every class; under ``dirichlet`` α is shared by the classes, so that FedAU's 0.1
    over ten balanced classes is a concentration of 1 there. Every label is split in proportion to the clients' shares
    of it, so that clients differ widely in size. The authors cut each class in file order, this shuffles it first.

    Parameters, results and errors as for `dirichlet`, α = 0.1 by default as in FedAU.
    """
    if not concentration > 0:
        raise DataError(f"concentration must be positive; got {concentration}")
    check_clients(labels, n_clients)
    classes = np.unique(labels)
    mixes = rng.dirichlet(np.full(classes.size, concentration), size=n_clients)
    return _cut(labels, classes, mixes, rng)


@PARTITIONS.register("dirichlet-unequal", "fedgs-cifar10")
def dirichlet_unequal(
    labels: NDArray[np.int64],
    n_clients: int,
    rng: np.random.Generator,
    *,
    concentration: float = 1.75,
    spread: float = 1.0,
) -> list[NDArray[np.int64]]:
    r"""Give clients log-normal sizes, and mixes of labels from a Dirichlet distribution (FedGS, CIFAR10).

    As the authors' code does: sizes are log-normal around the mean size and then brought to the right total, 1 % of
    it at a time from the largest or to the smallest client; mixes are Dir(α p), p the global label shares, and single
    ones are drawn again while that brings the size-weighted mean mix closer to p, until the squared distance is 0.001
    (or after 50 draws per client). Every label is cut in proportion to size times mix, so that sizes and mixes are
    only nearly the drawn ones.

    Parameters
    ----------
    labels : (n,) ndarray of int
        Label of each sample.
    n_clients : int
        Number of clients N.
    rng : numpy.random.Generator
        Source of randomness.
    concentration : float
        α > 0; 1.75 is what the plot configurations say (skew 0.75).
    spread : float
        Standard deviation of the log-sizes, σ ≥ 0; the mean of the logs is ln(n / N) - σ²/2.

    Returns
    -------
    list of ndarray of int
        Sorted sample indices of each client; together they cover every sample once.

    Raises
    ------
    DataError
        When an option is out of range or there are more clients than samples.
    """
    if not concentration > 0:
        raise DataError(f"concentration must be positive; got {concentration}")
    if not 0 <= spread < 10:
        raise DataError(f"spread must lie between 0 and 10; got {spread}")
    check_clients(labels, n_clients)
    classes, counts = np.unique(labels, return_counts=True)
    shares = counts / labels.size
    weights = _unequal_sizes(labels.size, n_clients, spread, rng) / labels.size
    mixes = rng.dirichlet(concentration * shares, size=n_clients)
    mean = weights @ mixes
    for _ in range(50):
        for k in rng.permutation(n_clients):
            error = ((mean - shares) ** 2).sum()
            if error <= 1e-3:
                break
            fresh = rng.dirichlet(concentration * shares)
            moved = mean + weights[k] * (fresh - mixes[k])
            if ((moved - shares) ** 2).sum() < error:
                mean, mixes[k] = moved, fresh
    return _cut(labels, classes, mixes * weights[:, None], rng)


def _unequal_sizes(total: int, n_clients: int, spread: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Log-normal sizes of at least 1 that sum to ``total``, mended as in FedGS's code."""
    mean = np.log(total / n_clients) - spread**2 / 2
    sizes = np.maximum(1, rng.lognormal(mean, spread, n_clients).astype(np.int64))
    step = max(1, total // 100)
    for _ in range(1000):  # draw the largest again while the excess is gross
        if sizes.sum() - total < 0.1 * total:
            break
        sizes[sizes.argmax()] = max(1, int(rng.lognormal(mean, spread)))
    while (excess := int(sizes.sum()) - total) > 0:
        largest = sizes.argmax()
        sizes[largest] -= min(excess, step, sizes[largest] - 1)
    while (deficit := total - int(sizes.sum())) > 0:
        sizes[sizes.argmin()] += min(deficit, step)
    return sizes.astype(np.float64)


def _cut(
    labels: NDArray[np.int64], classes: NDArray[np.int64], mixes: NDArray[np.float64], rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Split every label in proportion to the clients' entries for it, ``mixes`` of shape (N, classes)."""
    n_clients = len(mixes)
    parts: list[list[int]] = [[] for _ in range(n_clients)]
    for column, label in enumerate(classes):
        indices = rng.permutation(np.flatnonzero(labels == label))
        shares = mixes[:, column]
        # A tiny concentration can underflow a whole column; such a label is then spread evenly.
        shares = shares / shares.sum() if shares.sum() > 0 else np.full(n_clients, 1 / n_clients)
        cuts = np.rint(np.cumsum(shares)[:-1] * indices.size).astype(np.int64)
        for client, part in enumerate(np.split(indices, cuts)):
            parts[client].extend(part.tolist())
    for mine in parts:
        if not mine:
            mine.append(max(parts, key=len).pop())
    return [np.sort(np.array(mine, dtype=np.int64)) for mine in parts]
