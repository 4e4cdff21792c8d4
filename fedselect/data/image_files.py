"""Image sets as torchvision and CINIC-10 store them, read as bytes; what is missing or damaged is a sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedselect.data.federation import Samples
from fedselect.errors import DataError, MissingExtraError

__all__ = [
    "CIFAR10_FILES",
    "CIFAR_MEAN",
    "CIFAR_STD",
    "EMNIST_FILES",
    "MNIST_FILES",
    "Pictures",
    "read_cifar",
    "read_folder",
    "read_idx",
    "read_mnist",
    "read_svhn",
]

MNIST_FILES = tuple(f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))
EMNIST_FILES = tuple(
    f"emnist-letters-{part}-{kind}-ubyte" for part in ("train", "test") for kind in ("images-idx3", "labels-idx1")
)
CIFAR10_FILES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch", "batches.meta")
#: What CIFAR-10 and CIFAR-100 are normalised with, in FedGS and FedAU.
CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
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


def read_mnist(root: str, download: bool) -> tuple[Pictures, Pictures]:
    """MNIST's training and test images."""
    return read_idx("MNIST", "mnist", MNIST_FILES, root, download)


def read_idx(
    kind: str, name: str, files: tuple[str, ...], root: str, download: bool, first_label: int = 0
) -> tuple[Pictures, Pictures]:
    """Training and test images of MNIST, FashionMNIST or EMNIST, whose files are those of MNIST."""
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


def read_cifar(
    kind: str, name: str, folder: str, files: tuple[str, ...], root: str, download: bool
) -> tuple[Pictures, Pictures]:
    """Training and test images of CIFAR-10 or CIFAR-100."""

    def read(part: str) -> Any:
        return getattr(_torchvision(name), kind)(str(root), train=part == "train", download=download)

    train, test = (
        Pictures(
            found.data.transpose(0, 3, 1, 2),
            np.asarray(found.targets, dtype=np.int64),
            CIFAR_MEAN,
            CIFAR_STD,
        )
        for found in _load(name, Path(root) / folder, files, ("train", "test"), read, download)
    )
    return train, test


def read_svhn(root: str, download: bool) -> tuple[Pictures, Pictures]:
    """SVHN's training and test images."""
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


def read_folder(folder: Path) -> Pictures:
    """The images of one part of CINIC-10, which are files in a folder for each class."""
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
