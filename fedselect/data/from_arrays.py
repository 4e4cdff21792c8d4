"""Federations from arrays or tensors of each client, data sets of each client, or one data set to split.

Labels of whole numbers (PyTorch's ``long``) are classes from 0; floating-point labels are numbers to be predicted,
unless ``classes`` says how many classes they name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedselect.data.federation import Federation, Samples, Targets
from fedselect.data.partitions import PARTITIONS, hold_out
from fedselect.errors import ConfigError, DataError
from fedselect.randomness import generator

__all__ = ["Pair", "from_clients", "from_split", "read_dataset", "read_pair"]

#: Features and labels as they came.
Pair = tuple[NDArray[Any], NDArray[Any]]


def from_clients(
    read: Callable[[Any, str], Pair],
    kind: str,
    datasets: Sequence[Any],
    test: Any,
    classes: int | None,
    validation: Sequence[Any],
    name: str,
) -> Federation:
    """Build a federation of each client's data, read by ``read``; see `Federation.from_tensors`."""
    if not isinstance(datasets, list | tuple):
        raise DataError(
            f"datasets must be a list of {kind}, one a client; got {_kind(datasets)} "
            "(to split one data set over clients: Federation.from_split)"
        )
    pairs = [read(each, f"client {place}") for place, each in enumerate(datasets)]
    held = [read(each, f"validation of client {place}") for place, each in enumerate(validation)]
    return _build(pairs, read(test, "the test set"), held, classes, name)


def from_split(
    dataset: Any,
    partition: str = "two-label",
    n_clients: int = 100,
    *,
    test: Any = None,
    test_fraction: float = 0.2,
    validation_fraction: float = 0.0,
    classes: int | None = None,
    seed: int = 0,
    name: str = "own",
    **options: Any,
) -> Federation:
    """Build a federation from one data set, split over clients.

    Parameters
    ----------
    dataset : data set or (features, labels)
        As for `Federation.from_datasets` or `Federation.from_tensors`.
    partition : str
        Name in `fedselect.data.PARTITIONS`; ``options`` are its options. Only ``"iid"`` and ``"iid-draws"`` can split
        what has no classes.
    n_clients : int
        Number of clients.
    test : data set or (features, labels), optional
        The test set; a share ``test_fraction`` of ``dataset``, stratified by label, if left out.
    test_fraction : float
        Share of the samples held out for testing, between 0 and 1, where ``test`` is not given.
    validation_fraction : float
        Share of each client's own samples that it holds out of training, rounded down.
    classes, name
        As for `Federation.from_tensors`.
    seed : int
        Seed of the split.

    Returns
    -------
    Federation

    Raises
    ------
    DataError, ConfigError
        When something is not as described, or the split cannot be made as asked.
    """
    PARTITIONS.check(partition, options)
    if isinstance(seed, bool) or not hasattr(seed, "__index__") or seed < 0:
        raise DataError(f"seed must be a non-negative integer; got {seed!r}")
    whole = read_dataset(dataset, "the data set")
    outside = None if test is None else read_dataset(test, "the test set")
    classes = _classes([whole] if outside is None else [whole, outside], classes)
    samples = _samples(whole, classes, "the data set")
    rng = generator(seed, "data")
    train = np.arange(len(samples))
    if outside is None:
        train, held_out = _test_split(samples, test_fraction, classes is not None, rng)
    labels = samples.labels[train]
    if classes is None:
        if partition not in ("iid", "iid-draws"):
            raise ConfigError(f"partition {partition!r} splits by class, and these labels are real numbers: take 'iid'")
        labels = np.zeros(train.size, dtype=np.int64)
    parts = PARTITIONS.build(partition, labels, n_clients, rng, **options)
    kept, held = hold_out(parts, validation_fraction, rng)
    return Federation(
        name=name,
        datasets=tuple(samples.take(train[part]) for part in kept),
        test=samples.take(held_out) if outside is None else _samples(outside, classes, "the test set"),
        classes=classes,
        validation=tuple(samples.take(train[part]) for part in held),
    )


def _test_split(
    samples: Samples, share: float, stratify: bool, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sorted indices for training and for testing."""
    from sklearn.model_selection import train_test_split

    try:
        train, test = train_test_split(
            np.arange(len(samples)),
            test_size=share,
            stratify=samples.labels if stratify else None,
            random_state=int(rng.integers(2**31)),
        )
    except ValueError as error:
        raise DataError(f"test_fraction {share} does not split {len(samples)} samples: {error}") from error
    return np.sort(train), np.sort(test)


def _build(pairs: list[Pair], test: Pair, held: list[Pair], classes: int | None, name: str) -> Federation:
    if not pairs:
        raise DataError("a federation needs at least one client; got none")
    classes = _classes([*pairs, test, *held], classes)
    return Federation(
        name=name,
        datasets=tuple(_samples(pair, classes, f"client {place}") for place, pair in enumerate(pairs)),
        test=_samples(test, classes, "the test set"),
        classes=classes,
        validation=tuple(_samples(pair, classes, f"validation of client {k}") for k, pair in enumerate(held)),
    )


def _classes(pairs: list[Pair], classes: int | None) -> int | None:
    """The number of classes that was given, or that the labels show; None where they are real numbers."""
    if classes is not None:
        return classes
    kinds = {"class" if labels.dtype.kind in "iub" else "number" for _, labels in pairs if labels.size}
    if len(kinds) > 1:
        raise DataError(
            "labels must be whole numbers (classes) or floating-point (numbers to predict) for all alike; "
            "got both: convert them, say how many classes there are, or mind the order, (features, labels)"
        )
    if kinds == {"number"}:
        return None
    return 1 + max((int(labels.max()) for _, labels in pairs if labels.size), default=0)


def _samples(pair: Pair, classes: int | None, whose: str) -> Samples:
    features, labels = pair
    if classes is not None and labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    try:
        return Samples(features, labels) if classes is not None else Targets(features, labels)
    except (DataError, ValueError) as error:
        raise DataError(f"{whose}: {error}") from None


def read_pair(given: Any, whose: str) -> Pair:
    """Features and labels as arrays."""
    if not (isinstance(given, list | tuple) and len(given) == 2):
        raise DataError(f"{whose} must be a pair (features, labels); got {_kind(given)}")
    return _array(given[0], "features", whose), _array(given[1], "labels", whose)


def read_dataset(dataset: Any, whose: str) -> Pair:
    """All samples of a map-style data set, or of a pair."""
    if isinstance(dataset, tuple | list):
        return read_pair(dataset, whose)
    if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")) or hasattr(dataset, "dtype"):
        raise DataError(
            f"{whose} must be a data set with len(d) and d[i] -> (features, label), or a pair of arrays; "
            f"got {_kind(dataset)}"
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
                f"sample {place}'s {features[-1].shape}"
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
