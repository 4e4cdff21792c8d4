"""A federation: every client's own samples, and the server's test set that no selector ever sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import DataError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Federation", "Samples", "Targets"]


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
        return type(self)(self.features[indices], self.labels[indices])


@dataclass(frozen=True, eq=False)
class Targets(Samples):
    """Samples with a number, or several, to be predicted in place of a class.

    Attributes
    ----------
    labels : (n,) or (n, k) ndarray of float32
        What is to be predicted of each sample.

    Raises
    ------
    DataError
        When a feature or a target is not a finite number, or there are not as many of both.
    """

    labels: NDArray[np.float32]  # type: ignore[assignment]  # one name for what a model is to answer

    def __post_init__(self) -> None:
        features, labels = (np.ascontiguousarray(each, dtype=np.float32) for each in (self.features, self.labels))
        if labels.ndim not in (1, 2) or labels.shape[:1] != features.shape[:1]:
            raise DataError(f"{features.shape[0]} samples need as many rows of targets; got shape {labels.shape}")
        for what, array in (("features", features), ("targets", labels)):
            if array.size and not (np.isfinite(array.min()) and np.isfinite(array.max())):
                raise DataError(
                    f"{what} must be finite numbers; sample {np.argwhere(~np.isfinite(array))[0][0]} is not"
                )
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "labels", labels)


@dataclass(frozen=True, eq=False)
class Federation:
    """Clients with their training samples, and a test set held by nobody among them.

    From what one has: `from_tensors`, `from_datasets`, `from_split`.

    Attributes
    ----------
    name : str
        Name of the data set.
    clients : tuple of Samples
        Training samples of each of the N clients; none is empty.
    test : Samples
        Used for evaluation alone: selectors, graphs and training never touch it.
    classes : int or None
        Number of classes; None where the labels are real numbers to be predicted (all samples are `Targets` then).
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
    classes: int | None
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
    def outputs(self) -> int:
        """Numbers that a model answers for a sample: one a class, or one a target."""
        if self.classes is not None:
            return self.classes
        return self.test.labels.shape[1] if self.test.labels.ndim > 1 else 1

    @property
    def label_counts(self) -> NDArray[np.int64]:
        """Samples of each class at each client, shape (N, classes); raises `DataError` where there are no classes."""
        if self.classes is None:
            raise DataError(f"the labels of {self.name!r} are real numbers, and something asked for classes to count")
        return np.stack([np.bincount(samples.labels, minlength=self.classes) for samples in self.clients])

    @property
    def label_distributions(self) -> NDArray[np.float64]:
        """Share of each class at each client, shape (N, classes); rows sum to 1."""
        return self.label_counts / self.sizes[:, None]

    @classmethod
    def from_tensors(
        cls,
        clients: Sequence[tuple[Any, Any]],
        test: tuple[Any, Any],
        *,
        classes: int | None = None,
        validation: Sequence[tuple[Any, Any]] = (),
        name: str = "own",
    ) -> Federation:
        """A federation from features and labels of each client; see `fedselect.data.own.from_tensors`."""
        from fedselect.data.own import from_tensors

        return from_tensors(clients, test, classes=classes, validation=validation, name=name)

    @classmethod
    def from_datasets(
        cls,
        clients: Sequence[Any],
        test: Any,
        *,
        classes: int | None = None,
        validation: Sequence[Any] = (),
        name: str = "own",
    ) -> Federation:
        """A federation from a PyTorch data set of each client; see `fedselect.data.own.from_datasets`."""
        from fedselect.data.own import from_datasets

        return from_datasets(clients, test, classes=classes, validation=validation, name=name)

    @classmethod
    def from_split(
        cls,
        dataset: Any,
        partition: str = "two-label",
        clients: int = 100,
        *,
        test: Any = None,
        test_fraction: float = 0.2,
        validation_fraction: float = 0.0,
        classes: int | None = None,
        seed: int = 0,
        name: str = "own",
        **options: Any,
    ) -> Federation:
        """A federation from one data set, split over clients; see `fedselect.data.own.from_split`."""
        from fedselect.data.own import from_split

        held = {"test": test, "test_fraction": test_fraction, "validation_fraction": validation_fraction}
        return from_split(dataset, partition, clients, **held, classes=classes, seed=seed, name=name, **options)

    def summary(self) -> pd.DataFrame:
        """One row a client: samples, samples held out, and the labels (their classes, or mean and spread)."""
        from fedselect.data.overview import client_overview

        return client_overview(self)

    def plot(self) -> Figure:
        """Who has what: samples of each client by label (or the spread of its targets), as a Matplotlib figure."""
        from fedselect.data.overview import federation_figure

        return federation_figure(self)
