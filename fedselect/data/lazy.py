"""Samples that are read when they are used: a map-style data set with its own way to make batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedselect.data.samples import Samples
from fedselect.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

#: Samples of a batch where a model is evaluated, or labels are counted.
LAZY_BATCH = 64


class LazySamples(Samples):
    """Samples of a map-style data set, read in batches when they are used.

    Parameters
    ----------
    dataset : data set
        Has ``len(d)`` and ``d[i]``.
    collate : callable, optional
        Makes a batch ``(inputs, labels)`` of a list of samples; PyTorch's ``default_collate`` if left out.
    classes : int, optional
        Number of classes; None where labels are numbers to be predicted.
    whose : str
        For messages: ``"client 3"``.
    """

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Any] | None, classes: int | None, whose: str):
        self.dataset, self.collate, self.classes, self.whose = dataset, collate, classes, whose
        self.device: Any = "cpu"
        self._places: NDArray[np.int64] = np.arange(len(dataset))

    def __len__(self) -> int:
        return self._places.size

    def __repr__(self) -> str:
        return f"<{len(self)} samples, read when they are used>"

    @property
    def features(self) -> NDArray[np.float32]:
        """Raise `DataError`: nothing may ask for all of them at once."""
        raise DataError(
            f"the samples of {self.whose} are read when they are used (lazy=True), and something asked for all their "
            "features at once; build the federation without lazy for it"
        )

    @cached_property
    def labels(self) -> NDArray[Any]:
        """All labels, read with their samples, of which nothing else is kept."""
        return np.concatenate([np.empty(0, dtype=np.int64), *(y.numpy(force=True) for _, y in self.parts())])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the first sample's features; () where they are no tensor."""
        inputs, _ = self.batch(np.arange(1))
        return tuple(inputs.shape[1:]) if hasattr(inputs, "shape") else ()

    def take(self, indices: NDArray[np.int64]) -> LazySamples:
        """Return the samples at ``indices``, in that order."""
        part = LazySamples(self.dataset, self.collate, self.classes, self.whose)
        part._places, part.device = self._places[indices], self.device
        return part

    def to(self, device: Any) -> LazySamples:
        """Return the same samples with batches on a device."""
        other = copy(self)
        other.device = device
        return other

    def parts(self) -> Any:
        """Yield all batches, in order."""
        for start in range(0, len(self), LAZY_BATCH):
            yield self.batch(np.arange(start, min(start + LAZY_BATCH, len(self))))

    def batch(self, places: NDArray[np.int64]) -> tuple[Any, Tensor]:
        """Read samples and collate them: inputs as the model takes them, and labels (b,), on the device.

        Raises
        ------
        DataError
            When a sample cannot be read, the batch cannot be made, or a label is none; the message says whose.
        """
        inputs, labels = self.read(places)
        if self.classes is None:
            labels = labels.float()
        elif labels.is_floating_point() or labels.dim() != 1 or not (0 <= labels.min() <= labels.max() < self.classes):
            raise DataError(
                f"{self.whose}: labels of {self.classes} classes are whole numbers from 0 to {self.classes - 1}, one a "
                f"sample; a batch has {str(labels.tolist())[:60]}"
            )
        else:
            labels = labels.long()
        return _on(inputs, self.device), labels.to(self.device)

    def read(self, places: NDArray[np.int64]) -> tuple[Any, Tensor]:
        """Read samples and collate them; labels of any kind, one for each."""
        import torch
        from torch.utils.data import default_collate

        samples = []
        for place in self._places[places].tolist():
            try:
                samples.append(self.dataset[place])
            except Exception as error:  # a data set's own code: its traceback stays behind the sentence
                raise DataError(
                    f"{self.whose}: sample {place} cannot be read: {type(error).__name__}: {error}"
                ) from error
        made = "collate_fn makes a batch (inputs, labels) of a list of samples"
        try:
            inputs, given = (self.collate or default_collate)(samples)
            labels = torch.as_tensor(given)
        except Exception as error:
            if self.collate is None and "equal size" in str(error):
                made = f"samples of unequal shape: give collate_fn, which pads them; {made}"
            raise DataError(f"{self.whose}: {len(samples)} samples make no batch: {error} ({made})") from error
        if labels.shape[:1] != (len(samples),):
            raise DataError(f"{self.whose}: {len(samples)} samples have labels of {tuple(labels.shape)} ({made})")
        return inputs, labels


def _on(inputs: Any, device: Any) -> Any:
    """Inputs on a device, in single precision; of lists, tuples and mappings each part."""
    if hasattr(inputs, "is_floating_point"):
        return inputs.to(device).float() if inputs.is_floating_point() else inputs.to(device)
    if isinstance(inputs, Mapping):
        return {key: _on(value, device) for key, value in inputs.items()}
    if isinstance(inputs, list | tuple):
        return [_on(value, device) for value in inputs]
    return inputs


def read_lazily(
    datasets: Mapping[str, Any], collate: Callable[[list[Any]], Any] | None, classes: int | None
) -> dict[str, LazySamples]:
    """Wrap data sets and data loaders, by whose they are.

    Raises
    ------
    DataError
        When one is no map-style data set, or labels are classes and their number is not given.
    """
    found: dict[str, LazySamples] = {}
    for whose, given in datasets.items():
        own, dataset = collate, given
        if hasattr(given, "dataset") and hasattr(given, "collate_fn"):  # a DataLoader; its order is the loop's matter
            own, dataset = collate or given.collate_fn, given.dataset
        if isinstance(dataset, tuple) and len(dataset) == 2:  # (features, labels)
            dataset = _Pairs(*dataset)
        if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")) or isinstance(dataset, str):
            raise DataError(
                f"{whose} must be a data set with len(d) and d[i], or a DataLoader of one; "
                f"got a {type(dataset).__name__}, which cannot be read sample by sample in the order of a seed"
            )
        found[whose] = LazySamples(dataset, own, classes, whose)
    if classes is None and found:
        first = next(iter(found.values()))
        if len(first) and not first.read(np.arange(1))[1].is_floating_point():
            raise DataError(
                "say how many classes there are, classes=10: with lazy=True, counting would read all samples"
            )
    return found


class _Pairs(Sequence[tuple[Any, Any]]):
    """A pair of arrays as a data set."""

    def __init__(self, features: Any, labels: Any) -> None:
        self.features, self.labels = features, labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, place: Any) -> tuple[Any, Any]:
        return self.features[place], self.labels[place]
