"""Labelled samples: of classes, or of numbers to be predicted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import DataError

__all__ = ["Samples", "Targets"]


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
        features, labels = _features(self.features), _features(self.labels, "targets")
        if features.ndim < 2:
            raise DataError(f"features need a row for each sample, shape (n, ...); got shape {features.shape}")
        if labels.ndim not in (1, 2) or labels.shape[:1] != features.shape[:1]:
            raise DataError(f"{features.shape[0]} samples need as many rows of targets; got shape {labels.shape}")
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "labels", labels)


def _features(given: Any, what: str = "features") -> NDArray[np.float32]:
    """Finite float32, or a sentence that says where they are not."""
    try:
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is told so
            features = np.ascontiguousarray(given, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} must be an array of numbers, shape (n, ...): {error}") from None
    # The extremes say it without a mask as large as the data: both carry NaN on.
    if features.size and not (np.isfinite(features.min()) and np.isfinite(features.max())):
        place = np.argwhere(~np.isfinite(features))[0]
        raise DataError(f"{what} must be finite numbers; sample {place[0]} has {features[tuple(place)]}")
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
