"""Labelled samples, of classes or of numbers to be predicted, and how they are read from arrays and data sets.

Labels of whole numbers (PyTorch's ``long``) are classes from 0; floating-point labels are numbers to be predicted,
unless ``classes`` says how many classes they name.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import DataError
from fedselect.options import is_whole

#: Features and labels as they came.
Pair = tuple[NDArray[Any], NDArray[Any]]


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
        """Return the samples at ``indices``, in that order."""
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
        features, labels = _features(self.features), _numbers(self.labels, "targets")
        if labels.ndim not in (1, 2) or labels.shape[:1] != features.shape[:1]:
            raise DataError(f"{features.shape[0]} samples need as many rows of targets; got shape {labels.shape}")
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "labels", labels)


def _features(given: Any) -> NDArray[np.float32]:
    """Finite float32 with a row for each sample, or a sentence."""
    features = _numbers(given, "features")
    if features.ndim < 2:
        raise DataError(f"features need a row for each sample, shape (n, ...); got shape {features.shape}")
    return features


def _numbers(given: Any, what: str) -> NDArray[np.float32]:
    """Finite float32, or a sentence that says where they are not."""
    try:
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is told so
            features = np.ascontiguousarray(given, dtype=np.float32)
    except (TypeError, ValueError, OverflowError) as error:
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
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"labels must be whole numbers from 0; got {given!r:.60}") from None
    if not whole:
        other = raw[labels != raw].flat[0] if raw.dtype.kind in "biuf" else raw.flat[0]
        raise DataError(f"labels must be whole numbers from 0; got {other}")
    if labels.size and labels.min() < 0:
        raise DataError(f"labels must be whole numbers from 0; got {labels.min()}")
    return labels


#: Classes there are at most: a label above is no class but an id or an amount, and would fill memory with empty ones.
MOST_CLASSES = 2**20


def check_classes(classes: Any) -> int:
    """Return a number of classes; raise `DataError` for one that there cannot be."""
    if not is_whole(classes) or classes < 1:
        raise DataError(f"classes must be a positive whole number, or None; got {classes!r}")
    if classes > MOST_CLASSES:
        raise DataError(
            f"there are at most {MOST_CLASSES} classes, and a label {classes - 1} would make {classes}: number them "
            "from 0 without gaps (numbers to predict are given as floating-point labels)"
        )
    return int(classes)


def check_seed(seed: Any) -> int:
    """Return a seed; raise `DataError` for one that is no integer from 0 on."""
    if not is_whole(seed) or seed < 0:
        raise DataError(f"seed must be a non-negative integer; got {seed!r}")
    return int(seed)


def count_classes(pairs: list[Pair], classes: int | None) -> int | None:
    """Return the number of classes that was given, or that the labels show; None where they are real numbers."""
    if classes is not None:
        return check_classes(classes)
    kinds = {"class" if labels.dtype.kind in "iub" else "number" for _, labels in pairs if labels.size}
    if len(kinds) > 1:
        raise DataError(
            "labels must be whole numbers (classes) or floating-point (numbers to predict) for all alike; "
            "got both: convert them, say how many classes there are, or mind the order, (features, labels)"
        )
    if kinds == {"number"}:
        return None
    # Labels below 0 are refused with the sample's place where samples are made of them.
    return check_classes(1 + max([0, *(int(labels.max()) for _, labels in pairs if labels.size)]))


def make_samples(pair: Pair, classes: int | None, whose: str) -> Samples:
    """Make samples (targets where there are no classes) of arrays; a message says whose they are."""
    features, labels = pair
    if classes is not None and labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    try:
        return Samples(features, labels) if classes is not None else Targets(features, labels)
    except (DataError, ValueError) as error:
        raise DataError(f"{whose}: {error}") from None


def read_pair(given: Any, whose: str) -> Pair:
    """Read features and labels as arrays."""
    if not (isinstance(given, list | tuple) and len(given) == 2):
        hint = "; Federation.from_datasets takes data sets" if hasattr(given, "__getitem__") else ""
        raise DataError(f"{whose} must be a pair (features, labels); got {_kind(given)}{hint}")
    return _array(given[0], "features", whose), _array(given[1], "labels", whose)


def read_dataset(dataset: Any, whose: str) -> Pair:
    """Read all samples of a map-style data set, or of a pair."""
    if isinstance(dataset, tuple | list):
        return read_pair(dataset, whose)
    if isinstance(dataset, str | os.PathLike):
        made = "torchvision.datasets.ImageFolder(path, transform=ToTensor()) reads a folder of images for each class"
        raise DataError(f"{whose} must be a data set or a pair of arrays; got a path, {str(dataset)!r:.80} ({made})")
    if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")) or hasattr(dataset, "dtype"):
        raise DataError(
            f"{whose} must be a data set with len(d) and d[i] -> (features, label), or a pair of arrays; "
            f"got {_kind(dataset)}{' (its .dataset is one)' if hasattr(dataset, 'dataset') else ''}"
        )
    if len(getattr(dataset, "tensors", ())) == 2:  # a TensorDataset: no need to ask it sample by sample
        return read_pair(tuple(dataset.tensors), whose)
    features, labels = [], []
    for place in range(len(dataset)):
        try:
            sample = dataset[place]
        except Exception as error:  # a data set's own code: its traceback stays behind the sentence
            raise DataError(f"{whose}: sample {place} cannot be read: {type(error).__name__}: {error}") from error
        if not (isinstance(sample, tuple | list) and len(sample) == 2):
            raise DataError(f"{whose}: sample {place} must be a pair (features, label); got {_kind(sample)}")
        features.append(_array(sample[0], f"the features of sample {place}", whose))
        labels.append(_array(sample[1], f"the label of sample {place}", whose))
        if features[-1].shape != features[0].shape or labels[-1].shape != labels[0].shape:
            raise DataError(
                f"{whose}: all samples have one shape; the first's is {features[0].shape}, and "
                f"sample {place}'s {features[-1].shape} (Federation.from_datasets(..., lazy=True, collate_fn=...) "
                "takes others: give a collate_fn that pads a batch)"
            )
    if not features:
        return np.empty((0, 1), dtype=np.float32), np.empty(0, dtype=np.int64)
    return np.stack(features), np.stack(labels)


def _array(given: Any, what: str, whose: str) -> NDArray[Any]:
    """A tensor, array or list of numbers as an array."""
    if hasattr(given, "detach"):
        given = given.detach().cpu().numpy()
    if type(given).__module__.startswith("PIL."):
        raise DataError(f"{whose}: {what} is a picture; give the data set transform=torchvision.transforms.ToTensor()")
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise DataError(f"{whose}: {what} must be numbers in one array: {error}") from None
    if array.dtype.kind not in "biuf":
        raise DataError(f"{whose}: {what} must be numbers; got {_kind(given)}")
    return array


def _kind(value: Any) -> str:
    shape = getattr(value, "shape", None)
    name = type(value).__name__
    if shape is not None:
        return f"{name} of shape {tuple(shape)}"
    return f"{name} of {len(value)}" if isinstance(value, list | tuple) else name
