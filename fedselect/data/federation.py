"""A federation: every client's own samples, and the server's test set that no selector ever sees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import DataError

__all__ = ["Federation", "Samples"]


@dataclass(frozen=True, eq=False)
class Samples:
    """Labelled samples.

    Attributes
    ----------
    features : (n, ...) ndarray of float32
        Inputs of the model.
    labels : (n,) ndarray of int64
        Class of each sample, from 0.
    """

    features: NDArray[np.float32]
    labels: NDArray[np.int64]

    def __post_init__(self) -> None:
        features = np.ascontiguousarray(self.features, dtype=np.float32)
        labels = np.asarray(self.labels, dtype=np.int64)
        if labels.shape != features.shape[:1]:
            raise DataError(f"{features.shape[0]} samples need as many labels; got shape {labels.shape}")
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "labels", labels)

    def __len__(self) -> int:
        return self.labels.shape[0]

    def take(self, indices: NDArray[np.int64]) -> Samples:
        """The samples at ``indices``, in that order."""
        return Samples(self.features[indices], self.labels[indices])


@dataclass(frozen=True, eq=False)
class Federation:
    """Clients with their training samples, and a test set held by nobody among them.

    Attributes
    ----------
    name : str
        Name of the data set.
    clients : tuple of Samples
        Training samples of each of the N clients; none is empty.
    test : Samples
        Used for evaluation alone: selectors, graphs and training never touch it.
    classes : int
        Number of classes.
    validation : tuple of Samples
        Samples of each client that were held out of training; empty where none were.
    groups : (N,) ndarray of int, optional
        Cluster of each client, from 0, where the data are made of clusters (CA-Fed's).
    parameters : (N, d) ndarray of float, optional
        What generated each client's data, where that is known (FedGS's oracle features on Synthetic).
    """

    name: str
    clients: tuple[Samples, ...]
    test: Samples
    classes: int
    validation: tuple[Samples, ...] = ()
    groups: NDArray[np.int64] | None = None
    parameters: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        for name in ("validation", "groups", "parameters"):
            value = getattr(self, name)
            if value is not None and len(value) not in (0 if name == "validation" else -1, len(self.clients)):
                raise DataError(f"{len(self.clients)} clients need as many entries of {name}; got {len(value)}")
        for client, samples in enumerate(self.clients):
            if len(samples) == 0:
                raise DataError(f"client {client} has no sample; every client needs at least one")

    def __len__(self) -> int:
        return len(self.clients)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Training samples of each client, n_k, shape (N,)."""
        return np.array([len(samples) for samples in self.clients], dtype=np.int64)

    @property
    def label_counts(self) -> NDArray[np.int64]:
        """Samples of each class at each client, shape (N, classes)."""
        return np.stack([np.bincount(samples.labels, minlength=self.classes) for samples in self.clients])

    @property
    def label_distributions(self) -> NDArray[np.float64]:
        """Share of each class at each client, shape (N, classes); rows sum to 1."""
        return self.label_counts / self.sizes[:, None]
