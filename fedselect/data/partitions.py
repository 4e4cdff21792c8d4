"""Partitions, ways to split labelled samples over clients; data sets by name, with the options of their partition.

A partition is called as ``partition(labels, n_clients, rng, *, options)``: ``labels`` are those of the n samples, shape
(n,) of int; ``n_clients`` is N; ``rng`` is the source of randomness. It returns N sorted arrays of sample indices. They
share no sample and leave none out, unless the partition says otherwise (`iid_draws` and `primary_label` draw for each
client by itself; `two_label` leaves out labels without an owner). What cannot be split so (an option out of range, too
few samples) raises `fedselect.errors.DataError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import ConfigError, DataError
from fedselect.options import Registry
from solvers.options import did_you_mean

if TYPE_CHECKING:
    from fedselect.data.federation import Federation

#: Splitters ``(labels, n_clients, rng, *, options) -> list of index arrays`` by name.
PARTITIONS: Registry = Registry("partition")


def _check_clients(labels: NDArray[np.int64], n_clients: int, shared: bool = False, concentration: float = 1.0) -> None:
    """Raise `DataError` for no clients at all, or for more than samples where these are not ``shared``."""
    if not concentration > 0:
        raise DataError(f"concentration must be positive; got {concentration}")
    if n_clients < 1:
        raise DataError(f"there must be at least 1 client; got {n_clients}")
    if not shared and n_clients > labels.size:
        raise DataError(f"n_clients must lie between 1 and the number of samples, {labels.size}; got {n_clients}")


@PARTITIONS.register("iid")
def iid(labels: NDArray[np.int64], n_clients: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Shuffle, and deal out in equal parts."""
    _check_clients(labels, n_clients)
    return [np.sort(part) for part in np.array_split(rng.permutation(labels.size), n_clients)]


@PARTITIONS.register("iid-draws")
def iid_draws(
    labels: NDArray[np.int64], n_clients: int, rng: np.random.Generator, *, samples: int = 500
) -> list[NDArray[np.int64]]:
    """Let every client draw its samples by itself (E3CS, iid): two clients may hold the same one.

    Parameters
    ----------
    samples : int
        Samples of each client, drawn without replacement.
    """
    _check_clients(labels, n_clients, shared=True)
    if not 1 <= samples <= labels.size:
        raise DataError(f"samples must lie between 1 and the number there is, {labels.size}; got {samples}")
    return [np.sort(rng.choice(labels.size, samples, replace=False)) for _ in range(n_clients)]


@PARTITIONS.register("two-label")
def two_label(
    labels: NDArray[np.int64], n_clients: int, rng: np.random.Generator, *, labels_per_client: int = 2
) -> list[NDArray[np.int64]]:
    """Give every client a fixed number of labels, and split each label equally among its owners.

    Labels are dealt as in FedGS (FashionMNIST): a client receives, one after another, a random one among the labels
    with the fewest owners that it does not own yet, so that each label has nearly the same number of owners.

    Parameters
    ----------
    labels_per_client : int
        Labels of each client.
    """
    classes = np.unique(labels)
    if not 1 <= labels_per_client <= classes.size:
        raise DataError(f"labels_per_client must lie between 1 and {classes.size}; got {labels_per_client}")
    _check_clients(labels, n_clients)
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
    samples : int
        Samples of each client; E3CS has 500.
    share : float
        Share of the primary label, in [0, 1]; E3CS has 0.8.
    """
    if samples < 1 or not 0 <= share <= 1:
        raise DataError(f"samples must be at least 1 and share lie in [0, 1]; got {samples} and {share}")
    _check_clients(labels, n_clients, shared=True)
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
    ratio : float
        Non-IID ratio in [0, 1]; FedSS has 0.8, 0.9 and 0.95.
    blocks_per_client : int
        Blocks of each client; FedSS does not say how many, and with more than one its groups are hard to find.
    """
    if not 0 <= ratio <= 1 or blocks_per_client < 1:
        raise DataError(
            f"ratio must lie in [0, 1] and blocks_per_client be at least 1; got {ratio} and {blocks_per_client}"
        )
    _check_clients(labels, n_clients)
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


@PARTITIONS.register("dirichlet")
def dirichlet(
    labels: NDArray[np.int64], n_clients: int, rng: np.random.Generator, *, concentration: float = 0.5
) -> list[NDArray[np.int64]]:
    """Draw each client's mix of labels from a Dirichlet distribution (Hsu et al. 2019).

    Client k's mix is Dir(α p), p the global label shares. Every label is split in proportion to the clients' shares of
    it; a client left empty is given one sample of the largest client's, so that none is without data.

    Parameters
    ----------
    concentration : float
        α > 0: small for clients of few labels, large for clients like the whole. FedGS's CIFAR10 has about 1.75.
    """
    _check_clients(labels, n_clients, concentration=concentration)
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
    _check_clients(labels, n_clients, concentration=concentration)
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
    concentration : float
        α > 0; 1.75 is what the plot configurations say (skew 0.75).
    spread : float
        Standard deviation of the log-sizes, σ ≥ 0; the mean of the logs is ln(n / N) - σ²/2.
    """
    if not 0 <= spread < 10:
        raise DataError(f"spread must lie between 0 and 10; got {spread}")
    _check_clients(labels, n_clients, concentration=concentration)
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


def hold_out(
    parts: Sequence[NDArray[np.int64]], fraction: float, rng: np.random.Generator
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """Set a random share of each client's indices aside, rounded down, leaving at least one for training.

    Parameters
    ----------
    parts : sequence of ndarray of int
        Sample indices of each client.
    fraction : float
        Share in [0, 1).
    rng : numpy.random.Generator
        Source of randomness; untouched where the share is 0.

    Returns
    -------
    kept, held : list of ndarray of int
        Sorted; ``held`` is an empty list where the share is 0.

    Raises
    ------
    DataError
        When the share is out of range.
    """
    if not 0 <= fraction < 1:
        raise DataError(f"validation_fraction must lie in [0, 1); got {fraction}")
    if fraction == 0:
        return list(parts), []
    kept, held = [], []
    for part in parts:
        order = rng.permutation(part)
        count = min(int(fraction * part.size + 1e-9), part.size - 1)
        held.append(np.sort(order[:count]))
        kept.append(np.sort(order[count:]))
    return kept, held


#: Builders ``(*, clients, seed, options) -> Federation`` by name. A builder with an option ``partition`` also takes
#: the options of that partition; the others come with clients of their own.
DATASETS: Registry = Registry("data set")


#: Option of every data set.
_CLIENT_TESTS = "client_test_fraction"


def check_data(name: str, options: Mapping[str, Any]) -> None:
    """Raise `ConfigError` when the data set, its partition, or an option of either is unknown or of the wrong type."""
    options = {key: value for key, value in options.items() if key != _CLIENT_TESTS}
    own, rest, partition = _split(name, options)
    DATASETS.check(name, own)
    known = PARTITIONS.options(partition) if partition is not None else {}
    with_partition = "" if partition is None else f" with partition {partition!r}"
    for key in rest:
        if key not in known:
            accepted = ", ".join(sorted({*DATASETS.options(name), *known, _CLIENT_TESTS}))
            raise ConfigError(
                f"data: there is no option {key!r} for data set {name!r}{with_partition}"
                f"{did_you_mean(key, [*DATASETS.options(name), *known, _CLIENT_TESTS])} (accepted: {accepted})"
            )
    if partition is not None:
        PARTITIONS.check(partition, rest)


def load_data(name: str, **options: Any) -> Federation:
    """Load, generate and split a data set.

    Parameters
    ----------
    name : str
        Name in `DATASETS`.
    **options
        Options of the data set and of its partition; and ``client_test_fraction``, the share of its training samples
        that each client holds out for a test set of its own (`Federation.with_client_tests`).

    Returns
    -------
    Federation

    Raises
    ------
    ConfigError, DataError, MissingExtraError
        When an option is not accepted, the files are not there, or an optional part of the installation is missing.
    """
    check_data(name, options)
    share = options.pop(_CLIENT_TESTS, 0)
    federation = DATASETS[name](**options)
    return federation.with_client_tests(share, options.get("seed", 0)) if share else federation


def _split(name: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], str | None]:
    """Split options into the data set's own and the others, and name the partition that these are for."""
    known = DATASETS.options(name)
    own = {key: value for key, value in options.items() if key in known}
    rest = {key: value for key, value in options.items() if key not in known}
    partition = options.get("partition", known["partition"]) if "partition" in known else None
    return own, rest, partition
