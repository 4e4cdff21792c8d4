"""A federation: every client's own samples, and the server's test set that no selector ever sees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import DataError
from solvers.outline import html_table

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

    Raises
    ------
    DataError
        When a feature is not a finite number, a label no whole number from 0, or there are not as many of both.
    """

    features: NDArray[np.float32]
    labels: NDArray[np.int64]

    def __post_init__(self) -> None:
        features, labels = _features(self.features), _labels(self.labels)
        if features.ndim < 2:
            raise DataError(f"features need a row for each sample, shape (n, ...); got shape {features.shape}")
        if labels.shape != features.shape[:1]:
            raise DataError(f"{features.shape[0]} samples need as many labels; got shape {labels.shape}")
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "labels", labels)

    def __len__(self) -> int:
        return self.labels.shape[0]

    def __repr__(self) -> str:
        return f"<{len(self)} samples of shape {self.shape}>"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample's features."""
        return self.features.shape[1:]

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

    Raises
    ------
    DataError
        When a client or the test set is no `Samples` or has none, their features differ in shape, a label is not below
        ``classes``, or a field has not one entry a client.
    """

    name: str
    clients: tuple[Samples, ...]
    test: Samples
    classes: int
    validation: tuple[Samples, ...] = ()
    groups: NDArray[np.int64] | None = None
    parameters: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "clients", tuple(self.clients))
        object.__setattr__(self, "validation", tuple(self.validation))
        if not self.clients:
            raise DataError("a federation needs at least one client; got none")
        if isinstance(self.classes, bool) or not hasattr(self.classes, "__index__") or self.classes < 1:
            raise DataError(f"classes must be a positive whole number; got {self.classes!r}")
        for name in ("validation", "groups", "parameters"):
            value = getattr(self, name)
            if value is not None and len(value) not in (0 if name == "validation" else -1, len(self.clients)):
                raise DataError(f"{len(self.clients)} clients need as many entries of {name}; got {len(value)}")
        shape = None
        for whose, samples in self._parts():
            if not isinstance(samples, Samples):
                got = type(samples).__name__
                raise DataError(f"{whose} must be given as Samples(features, labels); got {got}")
            if len(samples) == 0:
                if whose.startswith("validation"):
                    continue
                raise DataError(f"{whose} has no sample; every client and the test set need at least one")
            shape = samples.shape if shape is None else shape
            if samples.shape != shape:
                raise DataError(f"all features have one shape; client 0's is {shape}, and {whose}'s {samples.shape}")
            if (most := samples.labels.max()) >= self.classes:
                raise DataError(
                    f"labels of {self.classes} classes lie between 0 and {self.classes - 1}; {whose} has label {most}"
                )

    def _parts(self) -> Iterator[tuple[str, Any]]:
        """Everybody's samples, and whose they are in words."""
        yield from ((f"client {client}", samples) for client, samples in enumerate(self.clients))
        yield "the test set", self.test
        yield from ((f"validation of client {client}", samples) for client, samples in enumerate(self.validation))

    def __len__(self) -> int:
        return len(self.clients)

    def __repr__(self) -> str:
        return f"<federation {self.name!r}: " + ", ".join(f"{value} {name}" for name, value in self._facts()) + ">"

    def _repr_html_(self) -> str:
        return html_table(f"Federation {self.name}", self._facts())

    def _facts(self) -> list[tuple[str, str]]:
        sizes, shape = self.sizes, "×".join(map(str, self.clients[0].shape))
        facts = [
            ("clients", str(len(self))),
            (f"samples of {shape}", f"{sizes.sum()}"),
            ("a client", f"{sizes.min()} to {sizes.max()}"),
            ("classes", str(self.classes)),
            ("for testing", str(len(self.test))),
        ]
        held = sum(len(samples) for samples in self.validation)
        return facts + ([("for validation", str(held))] if held else [])

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


def _features(given: Any) -> NDArray[np.float32]:
    """Finite float32, or a sentence that says where they are not."""
    try:
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is told so
            features = np.ascontiguousarray(given, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"features must be an array of numbers, shape (n, ...): {error}") from None
    # The extremes say it without a mask as large as the data: both carry NaN on.
    if features.size and not (np.isfinite(features.min()) and np.isfinite(features.max())):
        place = np.argwhere(~np.isfinite(features))[0]
        raise DataError(f"features must be finite numbers; sample {place[0]} has {features[tuple(place)]}")
    return features


def _labels(given: Any) -> NDArray[np.int64]:
    """Whole numbers from 0, or a sentence that says where they are not."""
    try:
        raw = np.asarray(given)
        with np.errstate(invalid="ignore"):
            labels = raw.astype(np.int64)
        whole = labels.size == 0 or (raw.dtype.kind in "biuf" and bool((labels == raw).all()))
    except (TypeError, ValueError):
        raise DataError(f"labels must be whole numbers from 0; got {given!r:.60}") from None
    if not whole:
        other = raw[labels != raw].flat[0] if raw.dtype.kind in "biuf" else raw.flat[0]
        raise DataError(f"labels must be whole numbers from 0; got {other}")
    if labels.size and labels.min() < 0:
        raise DataError(f"labels must be whole numbers from 0; got {labels.min()}")
    return labels
