"""torchvision's image sets and CINIC-10, split over clients: float32 (C, H, W), normalised as the papers do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedselect.data.federation import Federation, Samples
from fedselect.data.partitions import PARTITIONS
from fedselect.data.registry import DATASETS
from fedselect.errors import DataError, MissingExtraError
from fedselect.randomness import generator

__all__ = [
    "Pictures",
    "cifar10",
    "cifar100",
    "cinic10",
    "emnist_letters",
    "fashion_mnist",
    "hold_out",
    "mnist",
    "read_mnist",
    "svhn",
]

_MNIST_FILES = tuple(f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))
_EMNIST_FILES = tuple(
    f"emnist-letters-{part}-{kind}-ubyte" for part in ("train", "test") for kind in ("images-idx3", "labels-idx1")
)
_CIFAR10_FILES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch", "batches.meta")
_CINIC_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


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
        """Features and labels of these images, in that order."""
        chosen = self.images[indices]
        features = np.empty(chosen.shape, dtype=np.float32)
        for channel, (mean, std) in enumerate(zip(self.mean, self.std, strict=True)):
            values = ((np.arange(256) / 255 - mean) / std).astype(np.float32)
            np.take(values, chosen[:, channel], out=features[:, channel])
        return Samples(features, self.labels[indices])

    def everything(self) -> Samples:
        """All of them."""
        return self.take(np.arange(self.labels.size))


@DATASETS.register("mnist")
def mnist(
    *,
    clients: int = 100,
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
    clients : int
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
    return _federation("mnist", train, test, 10, clients, partition, validation_fraction, seed, options)


@DATASETS.register("fashion-mnist")
def fashion_mnist(
    *,
    clients: int = 100,
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
    train, test = _read_idx("FashionMNIST", "fashion-mnist", _MNIST_FILES, root, download)
    return _federation("fashion-mnist", train, test, 10, clients, partition, validation_fraction, seed, options)


@DATASETS.register("emnist-letters", "EMNIST-L")
def emnist_letters(
    *,
    clients: int = 100,
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
    train, test = _read_idx("EMNIST", "emnist-letters", _EMNIST_FILES, root, download, first_label=1)
    return _federation("emnist-letters", train, test, 26, clients, partition, validation_fraction, seed, options)


@DATASETS.register("cifar10")
def cifar10(
    *,
    clients: int = 100,
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
    train, test = _read_cifar("CIFAR10", "cifar10", "cifar-10-batches-py", _CIFAR10_FILES, root, download)
    return _federation("cifar10", train, test, 10, clients, partition, validation_fraction, seed, options)


@DATASETS.register("cifar100")
def cifar100(
    *,
    clients: int = 250,
    partition: str = "dirichlet-per-class",
    root: str = "data",
    download: bool = False,
    validation_fraction: float = 0.0,
    seed: int = 0,
    **options: object,
) -> Federation:
    """Split CIFAR-100 (50 000 images of 3 x 32 x 32, 100 fine classes) over clients (FedAU).

    Normalised as CIFAR-10; FedAU's augmentation is left out. Parameters, results and errors as for `mnist`; the files
    are in ``cifar-100-python``.
    """
    train, test = _read_cifar("CIFAR100", "cifar100", "cifar-100-python", ("train", "test", "meta"), root, download)
    return _federation("cifar100", train, test, 100, clients, partition, validation_fraction, seed, options)


@DATASETS.register("svhn")
def svhn(
    *,
    clients: int = 250,
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
    folder = Path(root) / "SVHN"
    files = ("train_32x32.mat", "test_32x32.mat")

    def read(part: str) -> Any:
        return _torchvision("svhn").SVHN(str(folder), split=part, download=download)

    train, test = (
        Pictures(
            np.ascontiguousarray(found.data),
            np.asarray(found.labels, dtype=np.int64),
            (0.4377, 0.4438, 0.4728),
            (0.1980, 0.2010, 0.1970),
        )
        for found in _load("svhn", folder, files, ("train", "test"), read, download)
    )
    return _federation("svhn", train, test, 10, clients, partition, validation_fraction, seed, options)


@DATASETS.register("cinic10")
def cinic10(
    *,
    clients: int = 250,
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
    train, test = (_read_folder(Path(root) / "cinic-10" / part) for part in ("train", "test"))
    return _federation("cinic10", train, test, 10, clients, partition, validation_fraction, seed, options)


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


def read_mnist(root: str, download: bool) -> tuple[Pictures, Pictures]:
    """MNIST's training and test images."""
    return _read_idx("MNIST", "mnist", _MNIST_FILES, root, download)


def _federation(
    name: str,
    train: Pictures,
    test: Pictures,
    classes: int,
    clients: int,
    partition: str,
    validation_fraction: float,
    seed: int,
    options: dict[str, object],
) -> Federation:
    rng = generator(seed, "data")
    parts = PARTITIONS.build(partition, train.labels, clients, rng, **options)
    kept, held = hold_out(parts, validation_fraction, rng)
    return Federation(
        name=name,
        clients=tuple(train.take(part) for part in kept),
        test=test.everything(),
        classes=classes,
        validation=tuple(train.take(part) for part in held),
    )


def _read_idx(
    kind: str, name: str, files: tuple[str, ...], root: str, download: bool, first_label: int = 0
) -> tuple[Pictures, Pictures]:
    folder = Path(root) / kind / "raw"
    for file in files:
        packed = folder / f"{file}.gz"
        if packed.exists() and not (folder / file).exists():
            _unpack(name, packed, folder)

    def read(part: str) -> Any:
        more = {"split": "letters"} if kind == "EMNIST" else {}
        return getattr(_torchvision(name), kind)(str(root), train=part == "train", download=download, **more)

    train, test = (
        Pictures(found.data.numpy()[:, None], found.targets.numpy() - first_label, (0.1307,), (0.3081,))
        for found in _load(name, folder, files, ("train", "test"), read, download)
    )
    return train, test


def _read_cifar(
    kind: str, name: str, folder: str, files: tuple[str, ...], root: str, download: bool
) -> tuple[Pictures, Pictures]:
    def read(part: str) -> Any:
        return getattr(_torchvision(name), kind)(str(root), train=part == "train", download=download)

    train, test = (
        Pictures(
            found.data.transpose(0, 3, 1, 2),
            np.asarray(found.targets, dtype=np.int64),
            (0.4914, 0.4822, 0.4465),
            (0.2023, 0.1994, 0.2010),
        )
        for found in _load(name, Path(root) / folder, files, ("train", "test"), read, download)
    )
    return train, test


def _load(
    name: str, folder: Path, files: tuple[str, ...], parts: Sequence[str], read: Callable[[str], Any], download: bool
) -> list[Any]:
    """Read the parts of a set with torchvision; say in a sentence what is missing and where it should be."""
    _torchvision(name)  # its absence is another sentence
    missing = [file for file in files if not (folder / file).exists()]
    where = f"put the files {', '.join(files)} into {folder}"
    if missing and not download:
        some = f" ({', '.join(missing)} missing)" if len(missing) < len(files) else ""
        raise DataError(f"{name} is not there: {where}{some}, or set download = true where there is internet")
    try:
        return [read(part) for part in parts]
    except (RuntimeError, OSError, ValueError, TypeError, AssertionError, EOFError, IndexError) as error:
        if missing:
            raise DataError(f"{name} could not be downloaded ({_first_line(error)}): {where}") from error
        raise DataError(
            f"{name} in {folder} cannot be read; a file is damaged or not the official one ({_first_line(error)})"
        ) from error


def _read_folder(folder: Path) -> Pictures:
    torchvision = _torchvision("cinic10")
    missing = [label for label in _CINIC_CLASSES if not (folder / label).is_dir()]
    if missing:
        raise DataError(
            f"cinic10 is not there: unpack CINIC-10 so that {folder} holds the folders {', '.join(_CINIC_CLASSES)} "
            f"of PNG images ({', '.join(missing)} missing)"
        )
    try:
        found = torchvision.ImageFolder(str(folder))
        if tuple(found.classes) != _CINIC_CLASSES:
            raise DataError(f"{folder} holds other folders than CINIC-10's ten classes: {', '.join(found.classes)}")
        images = np.empty((len(found), 3, 32, 32), dtype=np.uint8)
        for place, (path, _) in enumerate(found.samples):
            pixels = np.asarray(found.loader(path))
            if pixels.shape != (32, 32, 3):
                raise DataError(f"{path} is {pixels.shape[1]} x {pixels.shape[0]} pixels; CINIC-10's are 32 x 32")
            images[place] = pixels.transpose(2, 0, 1)
    except OSError as error:
        raise DataError(f"cinic10 in {folder} cannot be read: {_first_line(error)}") from error
    labels = np.asarray(found.targets, dtype=np.int64)
    return Pictures(images, labels, (0.4789, 0.4723, 0.4305), (0.2421, 0.2383, 0.2587))


def _unpack(name: str, packed: Path, folder: Path) -> None:
    """Unpack a downloaded .gz beside itself, by torchvision's own means."""
    _torchvision(name)
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
            f"the data set {name!r} needs torchvision, which is not installed: pip install 'fedselect[fl]'"
        ) from error
    return torchvision.datasets


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
