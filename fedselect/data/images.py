"""torchvision's image sets and CINIC-10, split over clients: float32 (C, H, W), normalised as the papers do."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedselect.data.federation import Federation, Samples
from fedselect.data.image_files import (
    CIFAR10_FILES,
    EMNIST_FILES,
    MNIST_FILES,
    Pictures,
    read_cifar,
    read_folder,
    read_idx,
    read_mnist,
    read_svhn,
)
from fedselect.data.partitions import PARTITIONS, hold_out
from fedselect.data.registry import DATASETS
from fedselect.errors import ConfigError, DataError
from fedselect.randomness import generator

__all__ = [
    "cifar10",
    "cifar100",
    "cinic10",
    "emnist_letters",
    "fashion_mnist",
    "mnist",
    "svhn",
    "swapped_mnist",
]

#: Documentation of every image set, after its own.
_PARAMETERS = """
    Parameters
    ----------
    n_clients : int
        Number of clients.
    partition : str
        Name in `fedselect.data.PARTITIONS`; ``options`` are its options.
    root : str
        Folder of the data sets; the files are looked for where torchvision puts them, in ``{folder}`` below it,
        MNIST's and its relatives' unpacked or as ``.gz``.
    download : bool
        Whether to fetch missing files from the internet (not of CINIC-10).
    validation_fraction : float
        Share of each client's samples that is set aside into `Federation.validation`, in [0, 1); FedGS: 0.2, E3CS:
        0.1.
    seed : int
        Seed of the split.

    Returns
    -------
    Federation
        Features of shape (n, C, H, W), float32; the test set is the official one.

    Raises
    ------
    DataError, ConfigError, MissingExtraError
        When files are missing or damaged, an option or the split cannot be used, or torchvision is not installed.
    """


#: Reads training and test pictures, given the root folder and whether to download.
Reader = Callable[[str, bool], tuple[Pictures, Pictures]]


def _image_set(
    name: str, *aliases: str, folder: str, classes: int, partition: str, n_clients: int = 100, downloads: bool = True
) -> Callable[[Reader], Callable[..., Federation]]:
    """Make a reader of images the function that splits them over clients, and register it as a data set.

    ``folder`` is where the files lie below the root, the first part being what a run depends on; ``partition`` and
    ``n_clients`` are the defaults; ``downloads`` says whether missing files can be fetched.
    """

    def decorate(read: Reader, default: int = n_clients, usual: str = partition) -> Callable[..., Federation]:
        def split(
            *,
            n_clients: int = default,
            partition: str = usual,
            root: str = "data",
            download: bool = False,
            validation_fraction: float = 0.0,
            seed: int = 0,
            **options: object,
        ) -> Federation:
            if download and not downloads:
                raise ConfigError(f"{name} cannot be downloaded here: put its files in {Path(root) / folder}")
            train, test = read(root, download)
            return federation_of(name, train, test, classes, n_clients, partition, validation_fraction, seed, options)

        split.__name__, split.__qualname__ = read.__name__, read.__qualname__
        split.__doc__ = f"{(read.__doc__ or '').rstrip()}\n{_PARAMETERS.format(folder=folder)}"
        if not downloads:  # then it is no option
            signature = inspect.signature(split)
            kept = [each for key, each in signature.parameters.items() if key != "download"]
            split.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return DATASETS.register(name, *aliases, folder=folder.partition("/")[0])(split)

    return decorate


@_image_set("mnist", folder="MNIST/raw", classes=10, partition="two-label")
def mnist(root: str, download: bool) -> tuple[Pictures, Pictures]:
    """Split MNIST (60 000 images of 1 x 28 x 28, 10 digits) over clients; mean 0.1307, std 0.3081."""
    return read_mnist(root, download)


@_image_set("fashion-mnist", folder="FashionMNIST/raw", classes=10, partition="two-label")
def fashion_mnist(root: str, download: bool) -> tuple[Pictures, Pictures]:
    """Split FashionMNIST (60 000 images of 1 x 28 x 28, 10 classes) over clients, normalised as FedGS and FedAU do.

    Both use MNIST's mean 0.1307 and std 0.3081. FedGS has 100 clients with two labels each, of whose 600 images 20 %
    are for validation.
    """
    return read_idx("FashionMNIST", "fashion-mnist", MNIST_FILES, root, download)


@_image_set("emnist-letters", "EMNIST-L", folder="EMNIST/raw", classes=26, partition="primary-label")
def emnist_letters(root: str, download: bool) -> tuple[Pictures, Pictures]:
    """Split EMNIST letters (124 800 images of 1 x 28 x 28, 26 classes) over clients (E3CS).

    Labels 1 to 26 of the files become 0 to 25. The images are transposed in the files, and stay so, as in torchvision.
    E3CS does not say how it normalises; MNIST's mean 0.1307 and std 0.3081 are used.
    """
    return read_idx("EMNIST", "emnist-letters", EMNIST_FILES, root, download, first_label=1)


@_image_set("cifar10", folder="cifar-10-batches-py", classes=10, partition="dirichlet-unequal")
def cifar10(root: str, download: bool) -> tuple[Pictures, Pictures]:
    """Split CIFAR-10 (50 000 images of 3 x 32 x 32, 10 classes) over clients.

    Mean (0.4914, 0.4822, 0.4465) and std (0.2023, 0.1994, 0.2010), as in FedGS and FedAU; no augmentation. The
    default partition is FedGS's.
    """
    return read_cifar("CIFAR10", "cifar10", "cifar-10-batches-py", CIFAR10_FILES, root, download)


@_image_set("cifar100", folder="cifar-100-python", classes=100, partition="dirichlet-per-class", n_clients=250)
def cifar100(root: str, download: bool) -> tuple[Pictures, Pictures]:
    """Split CIFAR-100 (50 000 images of 3 x 32 x 32, 100 fine classes) over clients (FedAU).

    Normalised as CIFAR-10; FedAU's augmentation is ``augmentation = "fedau-cifar100"`` of the training.
    """
    return read_cifar("CIFAR100", "cifar100", "cifar-100-python", ("train", "test", "meta"), root, download)


@_image_set("svhn", folder="SVHN", classes=10, partition="dirichlet-per-class", n_clients=250)
def svhn(root: str, download: bool) -> tuple[Pictures, Pictures]:
    """Split SVHN (73 257 images of 3 x 32 x 32, 10 digits, without the extra ones) over clients (FedAU).

    Mean (0.4377, 0.4438, 0.4728) and std (0.1980, 0.2010, 0.1970); digit 0, which the files call 10, is class 0.
    """
    return read_svhn(root, download)


@_image_set("cinic10", folder="cinic-10", classes=10, partition="dirichlet-per-class", n_clients=250, downloads=False)
def cinic10(root: str, download: bool) -> tuple[Pictures, Pictures]:
    """Split CINIC-10 (90 000 images of 3 x 32 x 32, 10 classes) over clients (FedAU).

    The images are PNG files in ``cinic-10/train/CLASS`` and ``cinic-10/test/CLASS`` below ``root``, as its archive
    has them; there is no download. Its part ``valid`` is not used. Mean (0.4789, 0.4723, 0.4305) and std (0.2421,
    0.2383, 0.2587).
    """
    train, test = (read_folder(Path(root) / "cinic-10" / part) for part in ("train", "test"))
    return train, test


def federation_of(
    name: str,
    train: Pictures,
    test: Pictures,
    classes: int,
    n_clients: int,
    partition: str,
    validation_fraction: float,
    seed: int,
    options: dict[str, object],
) -> Federation:
    """Split training pictures over clients by a partition, and hold a share of each client's out."""
    rng = generator(seed, "data")
    parts = PARTITIONS.build(partition, train.labels, n_clients, rng, **options)
    kept, held = hold_out(parts, validation_fraction, rng)
    return Federation(
        name=name,
        datasets=tuple(train.take(part) for part in kept),
        test=test.everything(),
        classes=classes,
        validation=tuple(train.take(part) for part in held),
    )


@DATASETS.register("swapped-mnist", "ca-fed-mnist", folder="MNIST")
def swapped_mnist(
    *,
    n_clients: int = 24,
    swapped: str = "second",
    root: str = "data",
    download: bool = False,
    validation_fraction: float = 0.0,
    seed: int = 0,
) -> Federation:
    """Deal MNIST out to clients in two groups, with two pairs of labels swapped (CA-Fed, Section V-A).

    Training and test images are dealt out equally and at random, and keep apart as in MNIST; clients fall into two
    groups at random. In a group that swaps, two disjoint pairs of labels, drawn once, take each other's place, in its
    clients' training and test images alike. The test set is that of all clients together.

    Parameters
    ----------
    n_clients : int
        Number of clients, at least 2.
    swapped : {"second", "both"}
        Which groups swap: the paper says the second; in the authors' code each has two pairs of its own. Only the
        latter explains Table I: a linear model is then capped near 0.65, and near 0.74 under the former.
    root, download, validation_fraction, seed
        As for `fedselect.data.mnist`; the paper holds 20 % out for validation, the code nothing.

    Returns
    -------
    Federation
        Features of shape (n, 1, 28, 28); ``groups`` are the two groups.

    Raises
    ------
    DataError, ConfigError, MissingExtraError
        As for `mnist`, and when ``swapped`` or ``n_clients`` cannot be used.
    """
    if swapped not in ("second", "both"):
        raise ConfigError(f"swapped must be 'second' or 'both'; got {swapped!r}")
    train, test = read_mnist(root, download)
    if not 2 <= n_clients <= min(train.labels.size, test.labels.size):
        raise DataError(f"swapped-mnist needs at least 2 clients and an image each to test; got {n_clients} clients")
    rng = generator(seed, "data")
    groups = np.zeros(n_clients, dtype=np.int64)
    groups[np.array_split(rng.permutation(n_clients), 2)[1]] = 1
    names = np.tile(np.arange(10), (2, 1))
    for group in (0, 1) if swapped == "both" else (1,):
        a, b, c, d = rng.choice(10, 4, replace=False)
        names[group, [a, b, c, d]] = [b, a, d, c]
    parts = [np.sort(part) for part in np.array_split(rng.permutation(train.labels.size), n_clients)]
    tests = [np.sort(part) for part in np.array_split(rng.permutation(test.labels.size), n_clients)]
    kept, held = hold_out(parts, validation_fraction, rng)

    def renamed(samples: Samples, group: np.int64) -> Samples:
        return Samples(samples.features, names[group][samples.labels])

    test_labels = np.concatenate([names[g][test.labels[part]] for g, part in zip(groups, tests, strict=True)])
    return Federation(
        name="swapped-mnist",
        datasets=tuple(renamed(train.take(part), g) for g, part in zip(groups, kept, strict=True)),
        test=Samples(test.take(np.concatenate(tests)).features, test_labels),
        classes=10,
        validation=tuple(renamed(train.take(part), g) for g, part in zip(groups, held, strict=bool(held))),
        groups=groups,
    )
