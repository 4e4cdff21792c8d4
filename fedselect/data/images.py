"""torchvision's image sets and CINIC-10, split over clients: float32 (C, H, W), normalised as the papers do."""

from __future__ import annotations

from pathlib import Path

from fedselect.data.federation import Federation
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
from fedselect.data.partitions import PARTITIONS
from fedselect.data.registry import DATASETS
from fedselect.data.splitting import hold_out
from fedselect.randomness import generator

__all__ = [
    "cifar10",
    "cifar100",
    "cinic10",
    "emnist_letters",
    "fashion_mnist",
    "mnist",
    "svhn",
]


@DATASETS.register("mnist", folder="MNIST")
def mnist(
    *,
    n_clients: int = 100,
    partition: str = "two-label",
    root: str = "data",
    download: bool = False,
    validation_fraction: float = 0.0,
    seed: int = 0,
    **options: object,
) -> Federation:
    """Split MNIST (60 000 images of 1 x 28 x 28, 10 digits) over clients; mean 0.1307, std 0.3081.

    Parameters
    ----------
    n_clients : int
        Number of clients.
    partition : str
        Name in `fedselect.data.PARTITIONS`; ``options`` are its options.
    root : str
        Folder of the data sets; the files are looked for where torchvision puts them, in ``MNIST/raw`` below it,
        unpacked or as ``.gz``.
    download : bool
        Whether to fetch missing files from the internet.
    validation_fraction : float
        Share of each client's samples that is set aside into `Federation.validation`, in [0, 1); FedGS: 0.2, E3CS:
        0.1.
    seed : int
        Seed of the split.

    Returns
    -------
    Federation
        Features of shape (n, 1, 28, 28), float32; the test set is the official one.

    Raises
    ------
    DataError, ConfigError, MissingExtraError
        When files are missing or damaged, an option or the split cannot be used, or torchvision is not installed.
    """
    train, test = read_mnist(root, download)
    return federation_of("mnist", train, test, 10, n_clients, partition, validation_fraction, seed, options)


@DATASETS.register("fashion-mnist", folder="FashionMNIST")
def fashion_mnist(
    *,
    n_clients: int = 100,
    partition: str = "two-label",
    root: str = "data",
    download: bool = False,
    validation_fraction: float = 0.0,
    seed: int = 0,
    **options: object,
) -> Federation:
    """Split FashionMNIST (60 000 images of 1 x 28 x 28, 10 classes) over clients, normalised as FedGS and FedAU do.

    Both use MNIST's mean 0.1307 and std 0.3081. FedGS has 100 clients with two labels each, of whose 600 images 20 %
    are for validation. Parameters, results and errors as for `mnist`; the files are in ``FashionMNIST/raw``.
    """
    train, test = read_idx("FashionMNIST", "fashion-mnist", MNIST_FILES, root, download)
    return federation_of("fashion-mnist", train, test, 10, n_clients, partition, validation_fraction, seed, options)


@DATASETS.register("emnist-letters", "EMNIST-L", folder="EMNIST")
def emnist_letters(
    *,
    n_clients: int = 100,
    partition: str = "primary-label",
    root: str = "data",
    download: bool = False,
    validation_fraction: float = 0.0,
    seed: int = 0,
    **options: object,
) -> Federation:
    """Split EMNIST letters (124 800 images of 1 x 28 x 28, 26 classes) over clients (E3CS).

    Labels 1 to 26 of the files become 0 to 25. The images are transposed in the files, and stay so, as in torchvision.
    E3CS does not say how it normalises; MNIST's mean 0.1307 and std 0.3081 are used. Parameters, results and errors
    as for `mnist`; the files are in ``EMNIST/raw``.
    """
    train, test = read_idx("EMNIST", "emnist-letters", EMNIST_FILES, root, download, first_label=1)
    return federation_of("emnist-letters", train, test, 26, n_clients, partition, validation_fraction, seed, options)


@DATASETS.register("cifar10", folder="cifar-10-batches-py")
def cifar10(
    *,
    n_clients: int = 100,
    partition: str = "dirichlet-unequal",
    root: str = "data",
    download: bool = False,
    validation_fraction: float = 0.0,
    seed: int = 0,
    **options: object,
) -> Federation:
    """Split CIFAR-10 (50 000 images of 3 x 32 x 32, 10 classes) over clients.

    Mean (0.4914, 0.4822, 0.4465) and std (0.2023, 0.1994, 0.2010), as in FedGS and FedAU; no augmentation. The
    default partition is FedGS's. Parameters, results and errors as for `mnist`; the files are in
    ``cifar-10-batches-py``.
    """
    train, test = read_cifar("CIFAR10", "cifar10", "cifar-10-batches-py", CIFAR10_FILES, root, download)
    return federation_of("cifar10", train, test, 10, n_clients, partition, validation_fraction, seed, options)


@DATASETS.register("cifar100", folder="cifar-100-python")
def cifar100(
    *,
    n_clients: int = 250,
    partition: str = "dirichlet-per-class",
    root: str = "data",
    download: bool = False,
    validation_fraction: float = 0.0,
    seed: int = 0,
    **options: object,
) -> Federation:
    """Split CIFAR-100 (50 000 images of 3 x 32 x 32, 100 fine classes) over clients (FedAU).

    Normalised as CIFAR-10; FedAU's augmentation is ``augmentation = "fedau-cifar100"`` of the training. Parameters,
    results and errors as for `mnist`; the files are in ``cifar-100-python``.
    """
    train, test = read_cifar("CIFAR100", "cifar100", "cifar-100-python", ("train", "test", "meta"), root, download)
    return federation_of("cifar100", train, test, 100, n_clients, partition, validation_fraction, seed, options)


@DATASETS.register("svhn", folder="SVHN")
def svhn(
    *,
    n_clients: int = 250,
    partition: str = "dirichlet-per-class",
    root: str = "data",
    download: bool = False,
    validation_fraction: float = 0.0,
    seed: int = 0,
    **options: object,
) -> Federation:
    """Split SVHN (73 257 images of 3 x 32 x 32, 10 digits, without the extra ones) over clients (FedAU).

    Mean (0.4377, 0.4438, 0.4728) and std (0.1980, 0.2010, 0.1970); digit 0, which the files call 10, is class 0.
    Parameters, results and errors as for `mnist`; the files are in ``SVHN``.
    """
    train, test = read_svhn(root, download)
    return federation_of("svhn", train, test, 10, n_clients, partition, validation_fraction, seed, options)


@DATASETS.register("cinic10", folder="cinic-10")
def cinic10(
    *,
    n_clients: int = 250,
    partition: str = "dirichlet-per-class",
    root: str = "data",
    validation_fraction: float = 0.0,
    seed: int = 0,
    **options: object,
) -> Federation:
    """Split CINIC-10 (90 000 images of 3 x 32 x 32, 10 classes) over clients (FedAU).

    The images are PNG files in ``cinic-10/train/CLASS`` and ``cinic-10/test/CLASS`` below ``root``, as its archive
    has them; there is no download. Its part ``valid`` is not used. Mean (0.4789, 0.4723, 0.4305) and std (0.2421,
    0.2383, 0.2587). Other parameters, results and errors as for `mnist`.
    """
    train, test = (read_folder(Path(root) / "cinic-10" / part) for part in ("train", "test"))
    return federation_of("cinic10", train, test, 10, n_clients, partition, validation_fraction, seed, options)


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
