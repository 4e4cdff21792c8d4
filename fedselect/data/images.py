"""torchvision's image sets and CINIC-10, split over clients: float32 (C, H, W), normalised.

Missing files are a sentence that says which and where; damaged ones, in which folder.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedselect.data.federation import Federation, Samples
from fedselect.data.partitions import DATASETS, PARTITIONS, hold_out, noisy
from fedselect.data.samples import check_seed
from fedselect.errors import ConfigError, DataError, MissingExtraError
from fedselect.options import check_choice
from fedselect.randomness import generator
from solvers.environment import how_to_install


@dataclass(frozen=True, eq=False)
class Pictures:
    """Images as bytes, a quarter of their size as features, and how to turn them into features.

    Attributes
    ----------
    images : (n, C, H, W) ndarray of uint8
        Pixels.
    labels : (n,) ndarray of int64
        Class of each image, from 0.
    mean, std : tuple of float
        Subtracted from, and divided by, the values scaled to [0, 1], for each channel.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.images) != len(self.labels):
            raise DataError(f"{len(self.images)} images need as many labels; got {len(self.labels)}")

    def take(self, indices: NDArray[np.int64]) -> Samples:
        """Return features and labels of these images, in that order."""
        chosen = self.images[indices]
        features = np.empty(chosen.shape, dtype=np.float32)
        for channel, (mean, std) in enumerate(zip(self.mean, self.std, strict=True)):
            values = ((np.arange(256) / 255 - mean) / std).astype(np.float32)
            np.take(values, chosen[:, channel], out=features[:, channel])
        return Samples(features, self.labels[indices])

    def everything(self) -> Samples:
        """Return features and labels of all images."""
        return self.take(np.arange(self.labels.size))


# -- files ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Source:
    """Files of an image set: torchvision's class, the folder below the root, its files, mean and std by channel."""

    name: str
    kind: str
    folder: str
    files: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]


#: Mean and standard deviation of CIFAR-10 and CIFAR-100 in FedGS and FedAU, and of MNIST and its relatives.
CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
_GREY = (0.1307,), (0.3081,)
_IDX = tuple(f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))
_LETTERS = tuple(f"emnist-letters-{file.replace('t10k', 'test')}" for file in _IDX)
_CIFAR10 = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch", "batches.meta")
_CINIC = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_SOURCES = {
    source.name: source
    for source in (
        _Source("mnist", "MNIST", "MNIST/raw", _IDX, *_GREY),
        _Source("fashion-mnist", "FashionMNIST", "FashionMNIST/raw", _IDX, *_GREY),
        _Source("emnist-letters", "EMNIST", "EMNIST/raw", _LETTERS, *_GREY),
        _Source("cifar10", "CIFAR10", "cifar-10-batches-py", _CIFAR10, CIFAR_MEAN, CIFAR_STD),
        _Source("cifar100", "CIFAR100", "cifar-100-python", ("train", "test", "meta"), CIFAR_MEAN, CIFAR_STD),
        _Source(
            *("svhn", "SVHN", "SVHN", ("train_32x32.mat", "test_32x32.mat")),
            *((0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970)),
        ),
        _Source("cinic10", "", "cinic-10", (), (0.4789, 0.4723, 0.4305), (0.2421, 0.2383, 0.2587)),
    )
}


def read_images(source: _Source, root: str, download: bool) -> tuple[Pictures, Pictures]:
    """Read the training and test images of a set; `DataError` says which files are missing, or where one is damaged."""
    name, folder = source.name, Path(root) / source.folder
    if not source.kind:
        return _read_folder(source, folder / "train"), _read_folder(source, folder / "test")
    _torchvision(name)  # its absence is another sentence
    for file in source.files if folder.name == "raw" else ():
        if (packed := folder / f"{file}.gz").exists() and not (folder / file).exists():
            _unpack(packed, folder)
    missing = [file for file in source.files if not (folder / file).exists()]
    where = f"put the files {', '.join(source.files)} into {folder}"
    if missing and not download:
        some = f" ({', '.join(missing)} missing)" if len(missing) < len(source.files) else ""
        raise DataError(f"{name} is not there: {where}{some}, or set download = true where there is internet")
    try:
        found = [_open(source, root, part, download) for part in ("train", "test")]
    except (RuntimeError, OSError, ValueError, TypeError, AssertionError, EOFError, IndexError) as error:
        if missing:
            raise DataError(f"{name} could not be downloaded ({_first_line(error)}): {where}") from error
        raise DataError(
            f"{name} in {folder} cannot be read; a file is damaged or not the official one ({_first_line(error)})"
        ) from error
    train, test = (_pictures(source, part) for part in found)
    return train, test


def _open(source: _Source, root: str, part: str, download: bool) -> Any:
    """Read one part of a set by torchvision."""
    kind = getattr(_torchvision(source.name), source.kind)
    if source.kind == "SVHN":
        return kind(str(Path(root) / source.folder), split=part, download=download)
    more = {"split": "letters"} if source.kind == "EMNIST" else {}
    return kind(str(root), train=part == "train", download=download, **more)


def _pictures(source: _Source, found: Any) -> Pictures:
    """Bring one part of a set, as torchvision has it, into the shape (n, C, H, W) and its labels to 0 and up."""
    images = np.asarray(found.data)
    labels = np.asarray(found.labels if source.kind == "SVHN" else found.targets, dtype=np.int64)
    if source.kind == "SVHN":
        images = np.ascontiguousarray(images)
    elif source.kind.startswith("CIFAR"):
        images = images.transpose(0, 3, 1, 2)
    else:
        images = images[:, None]
    return Pictures(images, labels - 1 if source.kind == "EMNIST" else labels, source.mean, source.std)


def _read_folder(source: _Source, folder: Path) -> Pictures:
    """Read one part of CINIC-10, whose images are files in a folder for each class."""
    torchvision = _torchvision("cinic10")
    missing = [label for label in _CINIC if not (folder / label).is_dir()]
    if missing:
        raise DataError(
            f"cinic10 is not there: unpack CINIC-10 so that {folder} holds the folders {', '.join(_CINIC)} "
            f"of PNG images ({', '.join(missing)} missing)"
        )
    try:
        found = torchvision.ImageFolder(str(folder))
        if tuple(found.classes) != _CINIC:
            raise DataError(f"{folder} holds other folders than CINIC-10's ten classes: {', '.join(found.classes)}")
        images = np.empty((len(found), 3, 32, 32), dtype=np.uint8)
        for place, (path, _) in enumerate(found.samples):
            pixels = np.asarray(found.loader(path))
            if pixels.shape != (32, 32, 3):
                raise DataError(f"{path} is {pixels.shape[1]} x {pixels.shape[0]} pixels; CINIC-10's are 32 x 32")
            images[place] = pixels.transpose(2, 0, 1)
    except OSError as error:
        raise DataError(f"cinic10 in {folder} cannot be read: {_first_line(error)}") from error
    return Pictures(images, np.asarray(found.targets, dtype=np.int64), source.mean, source.std)


def _unpack(packed: Path, folder: Path) -> None:
    """Unpack a downloaded .gz beside itself, by torchvision's own means."""
    from torchvision.datasets.utils import extract_archive

    try:
        extract_archive(str(packed), str(folder))
    except (OSError, EOFError) as error:
        packed.with_suffix("").unlink(missing_ok=True)  # a half-unpacked file would be taken for a whole one
        raise DataError(f"{packed} cannot be unpacked: {_first_line(error)}") from error


def _torchvision(name: str) -> Any:
    try:
        import torchvision.datasets
    except ImportError as error:
        raise MissingExtraError(
            f"the data set {name!r} needs torchvision, which is not installed: {how_to_install('fl')}"
        ) from error
    return torchvision.datasets


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


# -- data sets -----------------------------------------------------------------------------------------------------

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


def _image_set(
    name: str, text: str, *aliases: str, classes: int, partition: str, n_clients: int = 100
) -> Callable[..., Federation]:
    """Make a set of images a function that splits it over clients, and register it as a data set.

    ``text`` is its documentation, ``partition`` and ``n_clients`` are the defaults.
    """
    source, default, usual = _SOURCES[name], n_clients, partition

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
        if download and not source.kind:
            raise ConfigError(f"{name} cannot be downloaded here: put its files in {Path(root) / source.folder}")
        pictures = read_images(source, root, download)
        return federation_of(name, pictures, classes, n_clients, partition, validation_fraction, seed, options)

    split.__name__ = split.__qualname__ = name.replace("-", "_")
    split.__doc__ = f"{text.strip()}\n{_PARAMETERS.format(folder=source.folder)}"
    if not source.kind:  # then it is no option
        signature = inspect.signature(split)
        kept = [each for key, each in signature.parameters.items() if key != "download"]
        split.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    return DATASETS.register(name, *aliases, folder=source.folder.partition("/")[0])(split)


mnist = _image_set(
    "mnist",
    "Split MNIST (60 000 images of 1 x 28 x 28, 10 digits) over clients; mean 0.1307, std 0.3081.",
    classes=10,
    partition="two-label",
)
fashion_mnist = _image_set(
    "fashion-mnist",
    """
    Split FashionMNIST (60 000 images of 1 x 28 x 28, 10 classes) over clients, normalised as FedGS and FedAU do.

    Both use MNIST's mean 0.1307 and std 0.3081. FedGS has 100 clients with two labels each, of whose 600 images 20 %
    are for validation.
    """,
    classes=10,
    partition="two-label",
)
emnist_letters = _image_set(
    "emnist-letters",
    """
    Split EMNIST letters (124 800 images of 1 x 28 x 28, 26 classes) over clients (E3CS).

    Labels 1 to 26 of the files become 0 to 25. The images are transposed in the files, and stay so, as in torchvision.
    E3CS does not say how it normalises; MNIST's mean 0.1307 and std 0.3081 are used.
    """,
    "EMNIST-L",
    classes=26,
    partition="primary-label",
)
cifar10 = _image_set(
    "cifar10",
    """
    Split CIFAR-10 (50 000 images of 3 x 32 x 32, 10 classes) over clients.

    Mean (0.4914, 0.4822, 0.4465) and std (0.2023, 0.1994, 0.2010), as in FedGS and FedAU; no augmentation. The
    default partition is FedGS's.
    """,
    classes=10,
    partition="dirichlet-unequal",
)
cifar100 = _image_set(
    "cifar100",
    """
    Split CIFAR-100 (50 000 images of 3 x 32 x 32, 100 fine classes) over clients (FedAU).

    Normalised as CIFAR-10.
    """,
    classes=100,
    partition="dirichlet-per-class",
    n_clients=250,
)
svhn = _image_set(
    "svhn",
    """
    Split SVHN (73 257 images of 3 x 32 x 32, 10 digits, without the extra ones) over clients (FedAU).

    Mean (0.4377, 0.4438, 0.4728) and std (0.1980, 0.2010, 0.1970); digit 0, which the files call 10, is class 0.
    """,
    classes=10,
    partition="dirichlet-per-class",
    n_clients=250,
)
cinic10 = _image_set(
    "cinic10",
    """
    Split CINIC-10 (90 000 images of 3 x 32 x 32, 10 classes) over clients (FedAU).

    The images are PNG files in ``cinic-10/train/CLASS`` and ``cinic-10/test/CLASS`` below ``root``, as its archive
    has them; there is no download. Its part ``valid`` is not used. Mean (0.4789, 0.4723, 0.4305) and std (0.2421,
    0.2383, 0.2587).
    """,
    classes=10,
    partition="dirichlet-per-class",
    n_clients=250,
)


def federation_of(
    name: str,
    pictures: tuple[Pictures, Pictures],
    classes: int,
    n_clients: int,
    partition: str,
    validation_fraction: float,
    seed: int,
    options: dict[str, object],
) -> Federation:
    """Split the first pictures over clients by a partition, holding out a share of each; test on the second."""
    (train, test), rng = pictures, generator(check_seed(seed), "data")
    parts = PARTITIONS.build(partition, train.labels, n_clients, rng, **options)
    kept, held = hold_out(parts, validation_fraction, rng)
    add = noisy(parts, rng)
    return Federation(
        name=name,
        datasets=tuple(add(k, train.take(part)) for k, part in enumerate(kept)),
        test=test.everything(),
        classes=classes,
        validation=tuple(add(k, train.take(part)) for k, part in enumerate(held)),
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
        Which groups swap: the paper says the second; in the authors' code each has two pairs of its own.
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
    check_choice("swapped", swapped, "second", "both")
    train, test = read_images(_SOURCES["mnist"], root, download)
    if not 2 <= n_clients <= min(train.labels.size, test.labels.size):
        raise DataError(f"swapped-mnist needs at least 2 clients and an image each to test; got {n_clients} clients")
    rng = generator(check_seed(seed), "data")
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
