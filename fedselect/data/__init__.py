"""Data sets, and the ways to split them over clients."""

from fedselect.data.bundled_images import digits
from fedselect.data.federation import Federation, Samples, Targets
from fedselect.data.generated import clustered, synthetic
from fedselect.data.images import cifar10, cifar100, cinic10, emnist_letters, fashion_mnist, mnist, svhn, swapped_mnist
from fedselect.data.partitions import DATASETS, PARTITIONS, check_data, load_data
from fedselect.data.sources import leaf, npz_folder

__all__ = [
    "DATASETS",
    "PARTITIONS",
    "Federation",
    "Samples",
    "Targets",
    "check_data",
    "cifar10",
    "cifar100",
    "cinic10",
    "clustered",
    "digits",
    "emnist_letters",
    "fashion_mnist",
    "leaf",
    "load_data",
    "mnist",
    "npz_folder",
    "svhn",
    "swapped_mnist",
    "synthetic",
]
