"""Partitions, ways to split labelled samples over clients; data sets by name, with the options of their partition.

A partition is called as ``partition(labels, n_clients, rng, *, options)``: ``labels`` are those of the n samples, shape
(n,) of int; ``n_clients`` is N; ``rng`` is the source of randomness. It returns N sorted arrays of sample indices. They
share no sample and leave none out, unless the partition says otherwise (`iid_draws` and `primary_label` draw for each
client by itself; `two_label` leaves out labels without an owner, `natural` and `sizes` what no client is to have). What
cannot be split so (an option out of range, too few samples) raises `fedselect.errors.DataError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import ConfigError, DataError
from fedselect.options import Registry, is_whole
from solvers.options import did_you_mean

if TYPE_CHECKING:
    from fedselect.data.federation import Federation
    from fedselect.data.samples import Samples

#: Splitters ``(labels, n_clients, rng, *, options) -> list of index arrays`` by name.
PARTITIONS: Registry = Registry("partition")


def _check_clients(labels: NDArray[np.int64], n_clients: int, shared: bool = False, concentration: float = 1.0) -> None:
    """Raise `DataError` for no clients at all, or for more than samples where these are not ``shared``."""
    if not 0 < concentration < np.inf:
        raise DataError(f"concentration must be positive; got {concentration}")
    if not is_whole(n_clients) or n_clients < 1:
        raise DataError(f"there must be at least 1 client; got {n_clients!r}")
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


@PARTITIONS.register("natural")
def natural(
    labels: NDArray[np.int64],
    n_clients: int,
    rng: np.random.Generator,
    *,
    ids: list[int | str] | None = None,
    ids_file: str | None = None,
) -> list[NDArray[np.int64]]:
    """Give every client the samples of one id: a writer, a device, a hospital; clients are in the order of their ids.

    Where there are more ids than clients, so many are drawn, and the samples of the others are left out.

    Parameters
    ----------
    ids : list of int or str
        Whose each sample is, in the order of the data set.
    ids_file : str
        The same as column ``client`` of a table, CSV or Parquet, with a row for each sample.
    """
    owners = _ids(ids, ids_file)
    if owners.size != labels.size:
        raise DataError(f"natural ids must be one for each of the {labels.size} samples; got {owners.size}")
    names, places = np.unique(owners, return_inverse=True)
    _check_clients(labels, n_clients)
    if n_clients > names.size:
        raise DataError(f"there are {names.size} natural clients; n_clients = {n_clients} were asked for")
    drawn = np.arange(names.size)
    if n_clients < names.size:
        drawn = np.sort(rng.choice(names.size, n_clients, replace=False))
    return [np.flatnonzero(places == place) for place in drawn]


def _ids(ids: Sequence[int | str] | None, ids_file: str | None) -> NDArray[Any]:
    """Return natural ids, from where they are given."""
    if (ids is None) == (ids_file is None):
        raise DataError("natural ids are given as ids, a list, or in ids_file, a table with a column 'client'")
    if ids_file is None:
        return _of_one_kind(ids)
    from fedselect.tables import read_table

    table = read_table(ids_file, "table of natural ids")
    if "client" not in table.columns:
        raise DataError(f"{ids_file}: a table of natural ids has a column 'client'; found {', '.join(map(str, table))}")
    if table["client"].isna().any():
        raise DataError(f"{ids_file}: row {int(table['client'].isna().argmax()) + 1} of column 'client' is empty")
    column = np.asarray(table["client"])
    if column.dtype.kind == "f" and np.isfinite(column).all() and (column == np.floor(column)).all():
        return column.astype(np.int64)
    return _of_one_kind(column.tolist())


def _of_one_kind(ids: Any) -> NDArray[Any]:
    """Return whole numbers, or texts, as an array."""
    owners = np.array(ids, dtype=object)
    kinds = {str if isinstance(each, str) else int if is_whole(each) else None for each in owners.tolist()}
    if len(kinds) > 1 or None in kinds:
        raise DataError("natural ids must be whole numbers or texts, all of one kind")
    return owners.astype(kinds.pop()) if kinds else owners


def of_training(options: Mapping[str, Any], n: int, train: NDArray[np.int64]) -> dict[str, Any]:
    """Return options of a partition for the training samples of a data set of n: natural ids are those of these."""
    if not {"ids", "ids_file"} & set(options):
        return dict(options)
    owners = _ids(options.get("ids"), options.get("ids_file"))
    if owners.size != n:
        raise DataError(f"natural ids must be one for each of the {n} samples; got {owners.size}")
    return {"ids": owners[train].tolist()}


@PARTITIONS.register("sizes")
def sizes(
    labels: NDArray[np.int64], n_clients: int, rng: np.random.Generator, *, sizes: list[int]
) -> list[NDArray[np.int64]]:
    """Shuffle, and deal out n_k samples to client k, as listed; what is beyond their sum is left out.

    Parameters
    ----------
    sizes : list of int
        Samples of each client, n_1 to n_N.
    """
    if len(sizes) != n_clients or min(sizes, default=0) < 1 or sum(sizes) > labels.size:
        raise DataError(
            f"sizes must be {n_clients} positive numbers, one a client, of a sum of at most {labels.size}; got "
            f"{len(sizes)} from {min(sizes, default=0)} on, of sum {sum(sizes)}"
        )
    return _dealt(labels, np.array(sizes), rng)


@PARTITIONS.register("power-law")
def power_law(
    labels: NDArray[np.int64], n_clients: int, rng: np.random.Generator, *, exponent: float = 1.0, least: int = 1
) -> list[NDArray[np.int64]]:
    """Deal out at random in sizes of a power law: l + (n - N l) r^-γ / (1 + 2^-γ + ... + N^-γ) for rank r.

    Ranks are dealt to clients at random, whatever the labels.

    Parameters
    ----------
    exponent : float
        γ, from 0 (all alike) on; at 1 the largest client has N times the share of the smallest.
    least : int
        l: samples that every client has at least.
    """
    _check_clients(labels, n_clients)
    if not 0 <= exponent < np.inf:
        raise DataError(f"exponent must be a number from 0; got {exponent}")
    if least < 1 or least * n_clients > labels.size:
        raise DataError(
            f"least must lie between 1 and {labels.size // n_clients}, as {n_clients} clients share {labels.size} "
            f"samples; got {least}"
        )
    shares = np.arange(1.0, n_clients + 1) ** -exponent
    ends = np.rint(np.cumsum(shares / shares.sum()) * (labels.size - least * n_clients)).astype(np.int64)
    return _dealt(labels, rng.permutation(least + np.diff(ends, prepend=0)), rng)


def _dealt(labels: NDArray[np.int64], sizes: NDArray[np.int64], rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Shuffle samples, and deal out so many to each client."""
    parts = np.split(rng.permutation(labels.size), np.cumsum(sizes))
    return [np.sort(part) for part in parts[: sizes.size]]


class NoisyParts(list[NDArray[np.int64]]):
    """Indices of each client; `deviations`, (N,), has the standard deviation of the Gaussian noise on its features."""

    def __init__(self, parts: Sequence[NDArray[np.int64]], deviations: NDArray[np.float64]) -> None:
        super().__init__(parts)
        self.deviations = deviations


@PARTITIONS.register("feature-noise")
def feature_noise(
    labels: NDArray[np.int64],
    n_clients: int,
    rng: np.random.Generator,
    *,
    noise: float = 0.1,
    convention: Literal["paper", "code"] = "paper",
) -> NoisyParts:
    """Deal out in equal parts, and add noise N(0, σ k / N) to the features of client k = 1 to N (NIID-Bench).

    The noise is drawn once for each sample, of training and validation; the server's test set has none. (NIID-Bench's
    code draws it anew whenever a sample is read.)

    Parameters
    ----------
    noise : float
        σ ≥ 0, in the units of the features.
    convention : {"paper", "code"}
        σ k / N as a variance, as the paper says (Li et al., ICDE 2022), or σ (k - 1) / (N - 1) as a standard deviation.
    """
    if not 0 <= noise < np.inf:
        raise DataError(f"noise must be a number from 0; got {noise}")
    _check_clients(labels, n_clients)
    if convention not in ("paper", "code"):
        raise DataError(f"convention must be 'paper' or 'code'; got {convention!r}")
    k = np.arange(1, n_clients + 1)
    deviations = np.sqrt(noise * k / n_clients) if convention == "paper" else noise * (k - 1) / max(n_clients - 1, 1)
    return NoisyParts(iid(labels, n_clients, rng), deviations)


def noisy(parts: Sequence[NDArray[np.int64]], rng: np.random.Generator) -> Callable[[int, Samples], Samples]:
    """Return what adds the noise of a partition to the samples of a client; of most partitions it adds none."""

    def add(client: int, samples: Samples) -> Samples:
        if not isinstance(parts, NoisyParts) or not len(samples):
            return samples
        drawn = rng.normal(0.0, parts.deviations[client], samples.features.shape)
        return replace(samples, features=(samples.features + drawn).astype(np.float32))

    return add


#: Partitions that do not look at labels, and so split numbers to be predicted, too.
WITHOUT_LABELS = ("iid", "iid-draws", "natural", "sizes", "power-law", "feature-noise")


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
    labels, without replacement; clients draw by themselves, so that two may hold the same sample.

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
    every client gets its number of blocks at random. With one block a client has mostly one label, where there are more
    clients than labels.

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
    labels: NDArray[np.int64],
    n_clients: int,
    rng: np.random.Generator,
    *,
    concentration: float = 0.5,
    balanced: bool = True,
) -> list[NDArray[np.int64]]:
    """Split each label over the clients in shares of a symmetric Dirichlet, Dir(α 1_N), as NIID-Bench and Flower do.

    Labels are split one after another; by default clients of n / N samples or more get nothing of the next one. A
    client left empty is given one sample of the largest client's (NIID-Bench and Flower draw again until each client
    has ten).

    Parameters
    ----------
    concentration : float
        α > 0: small for clients of few labels, large for clients like the whole. The commonest label of a client has
        on average about 0.7 of its samples at 0.1, 0.4 at 0.5 (ten balanced labels, 50 clients).
    balanced : bool
        Whether clients that have their n / N samples get nothing of further labels (Flower's ``self_balancing``).
    """
    _check_clients(labels, n_clients, concentration=concentration)
    parts: list[list[int]] = [[] for _ in range(n_clients)]
    for label in np.unique(labels):
        shares = rng.dirichlet(np.full(n_clients, float(concentration)))
        if balanced:
            shares = shares * [len(mine) * n_clients < labels.size for mine in parts]
        _deal(np.flatnonzero(labels == label), shares, parts, rng)
    return _filled(parts)


@PARTITIONS.register("dirichlet-prior", "hsu")
def dirichlet_prior(
    labels: NDArray[np.int64], n_clients: int, rng: np.random.Generator, *, concentration: float = 0.5
) -> list[NDArray[np.int64]]:
    """Draw each client's mix of labels from Dir(α p), p the global label shares (Hsu et al. 2019).

    The entries of α p sum to α, so that over ten balanced labels α = 1 is about as uneven as ``dirichlet`` at 0.1.
    Every label is split in proportion to the clients' shares of it; a client left empty is given one sample of the
    largest client's.

    Parameters
    ----------
    concentration : float
        α > 0: small for clients of few labels, large for clients like the whole. FedGS's CIFAR10 has about 1.75.
    """
    _check_clients(labels, n_clients, concentration=concentration)
    classes, counts = np.unique(labels, return_counts=True)
    mixes = rng.dirichlet(float(concentration) * counts / labels.size, size=n_clients)
    return _cut(labels, classes, mixes, rng)


@PARTITIONS.register("dirichlet-per-class", "fedau")
def dirichlet_per_class(
    labels: NDArray[np.int64], n_clients: int, rng: np.random.Generator, *, concentration: float = 0.1
) -> list[NDArray[np.int64]]:
    """Draw each client's mix of labels from a symmetric Dirichlet over the C labels, Dir(α 1_C) (FedAU).

    Every label is split in proportion to the clients' shares of it. Labels are about as uneven as under ``dirichlet``
    with the same α, sizes less so. The authors cut each class in file order, this shuffles it first.

    Parameters, results and errors as for `dirichlet_prior`, α = 0.1 by default as in FedAU.
    """
    _check_clients(labels, n_clients, concentration=concentration)
    classes = np.unique(labels)
    mixes = rng.dirichlet(np.full(classes.size, float(concentration)), size=n_clients)
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
    parts: list[list[int]] = [[] for _ in mixes]
    for column, label in enumerate(classes):
        _deal(np.flatnonzero(labels == label), mixes[:, column], parts, rng)
    return _filled(parts)


def _deal(
    indices: NDArray[np.int64], shares: NDArray[np.float64], parts: list[list[int]], rng: np.random.Generator
) -> None:
    """Shuffle samples, and add them to the clients' parts in proportion to their shares."""
    indices = rng.permutation(indices)
    # A tiny concentration can underflow all shares; such a label is then spread evenly.
    shares = shares / shares.sum() if shares.sum() > 0 else np.full(len(parts), 1 / len(parts))
    cuts = np.rint(np.cumsum(shares)[:-1] * indices.size).astype(np.int64)
    for mine, dealt in zip(parts, np.split(indices, cuts), strict=True):
        mine.extend(dealt.tolist())


def _filled(parts: list[list[int]]) -> list[NDArray[np.int64]]:
    """Return the parts sorted, each client left empty with one sample of the largest client's."""
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
    if not isinstance(fraction, int | float | np.integer | np.floating) or not 0 <= fraction < 1:
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
    """Raise `ConfigError` when the data set, its partition, or an option of either is unknown or of the wrong type.

    The value of ``client_test_fraction`` is left to `load_data`.
    """
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
        When an option or the split is not accepted, files are missing or damaged, or an optional part of the
        installation is missing.
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
