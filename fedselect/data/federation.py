"""A federation: every client's own samples, and the server's test set that no selector ever sees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedselect.data.samples import Samples, Targets
from fedselect.errors import DataError
from solvers.problem import html_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Federation", "Samples", "Targets"]


@dataclass(frozen=True, eq=False)
class Federation:
    """Clients with their training samples, and a test set held by nobody among them.

    From what one has: `from_tensors`, `from_datasets`, `from_split`.

    Attributes
    ----------
    name : str
        Name of the data set.
    datasets : tuple of Samples
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

    Raises
    ------
    DataError
        When a client or the test set is no `Samples` or has none, their features differ in shape, a label is not below
        ``classes``, or a field has not one entry a client.
    """

    name: str
    datasets: tuple[Samples, ...]
    test: Samples
    classes: int | None
    validation: tuple[Samples, ...] = ()
    groups: NDArray[np.int64] | None = None
    parameters: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "datasets", tuple(self.datasets))
        object.__setattr__(self, "validation", tuple(self.validation))
        if not self.datasets:
            raise DataError("a federation needs at least one client; got none")
        kind, classes = Targets if self.classes is None else Samples, self.classes
        if classes is not None and (isinstance(classes, bool) or not hasattr(classes, "__index__") or classes < 1):
            raise DataError(f"classes must be a positive whole number, or None; got {classes!r}")
        for name in ("validation", "groups", "parameters"):
            value = getattr(self, name)
            if value is not None and len(value) not in (0 if name == "validation" else -1, len(self.datasets)):
                raise DataError(f"{len(self.datasets)} clients need as many entries of {name}; got {len(value)}")
        shape = None
        for whose, samples in self._parts():
            if not isinstance(samples, Samples) or isinstance(samples, Targets) != (kind is Targets):
                got = type(samples).__name__
                raise DataError(f"{whose} must be given as {kind.__name__}(features, labels); got {got}")
            if len(samples) == 0:
                if whose.startswith("validation"):
                    continue
                raise DataError(f"{whose} has no sample; every client and the test set need at least one")
            shape = samples.shape if shape is None else shape
            if samples.shape != shape:
                raise DataError(f"all features have one shape; client 0's is {shape}, and {whose}'s {samples.shape}")
            if classes is not None and (most := samples.labels.max()) >= classes:
                raise DataError(
                    f"labels of {classes} classes lie between 0 and {classes - 1}; {whose} has label {most}"
                )
            if classes is None and samples.labels.shape[1:] != self.test.labels.shape[1:]:
                shapes = f"{self.test.labels.shape[1:]}, and {whose}'s {samples.labels.shape[1:]}"
                raise DataError(f"all targets have one shape; the test set's is {shapes}")

    def _parts(self) -> Iterator[tuple[str, Any]]:
        """Everybody's samples, and whose they are in words."""
        yield from ((f"client {client}", samples) for client, samples in enumerate(self.datasets))
        yield "the test set", self.test
        yield from ((f"validation of client {client}", samples) for client, samples in enumerate(self.validation))

    def __len__(self) -> int:
        return len(self.datasets)

    def __repr__(self) -> str:
        return f"<federation {self.name!r}: " + ", ".join(f"{value} {name}" for name, value in self._facts()) + ">"

    def _repr_html_(self) -> str:
        return html_table(f"Federation {self.name}", self._facts())

    def _facts(self) -> list[tuple[str, str]]:
        sizes, shape = self.sizes, "×".join(map(str, self.datasets[0].shape))
        facts = [
            ("clients", str(len(self))),
            (f"samples of {shape}", f"{sizes.sum()}"),
            ("a client", f"{sizes.min()} to {sizes.max()}"),
            ("targets", str(self.outputs)) if self.classes is None else ("classes", str(self.classes)),
            ("for testing", str(len(self.test))),
        ]
        held = sum(len(samples) for samples in self.validation)
        return facts + ([("for validation", str(held))] if held else [])

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Training samples of each client, n_k, shape (N,)."""
        return np.array([len(samples) for samples in self.datasets], dtype=np.int64)

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
        return np.stack([np.bincount(samples.labels, minlength=self.classes) for samples in self.datasets])

    @property
    def label_distributions(self) -> NDArray[np.float64]:
        """Share of each class at each client, shape (N, classes); rows sum to 1."""
        return self.label_counts / self.sizes[:, None]

    @classmethod
    def from_tensors(
        cls,
        datasets: Sequence[tuple[Any, Any]],
        test: tuple[Any, Any],
        *,
        classes: int | None = None,
        validation: Sequence[tuple[Any, Any]] = (),
        name: str = "own",
    ) -> Federation:
        """Build a federation from features and labels of each client.

        Parameters
        ----------
        datasets : sequence of (features, labels)
            Tensors (on any device), arrays or lists: (n_k, ...) numbers, and (n_k,) classes or (n_k,) or (n_k, t)
            targets.
        test : (features, labels)
            What the server evaluates with; no client's.
        classes : int, optional
            Number of classes; one more than the largest label if left out.
        validation : sequence of (features, labels)
            What each client holds out of training; nothing if left out.
        name : str
            Names the data in records and reports.

        Returns
        -------
        Federation

        Raises
        ------
        DataError
            When something is not as described; the message says whose data.
        """
        from fedselect.data.from_arrays import from_clients, read_pair

        return from_clients(read_pair, "(features, labels) pairs", datasets, test, classes, validation, name)

    @classmethod
    def from_datasets(
        cls,
        datasets: Sequence[Any],
        test: Any,
        *,
        classes: int | None = None,
        validation: Sequence[Any] = (),
        name: str = "own",
    ) -> Federation:
        """Build a federation from a data set of each client.

        Parameters
        ----------
        datasets : sequence of data sets
            Anything with ``len(d)`` and ``d[i] -> (features, label)``: PyTorch's ``TensorDataset`` and ``Subset``,
            torchvision's sets with ``transform=ToTensor()``, a custom class. All samples are read once and kept.
        test : data set
            What the server evaluates with.
        classes, validation, name
            As for `from_tensors`.

        Returns
        -------
        Federation

        Raises
        ------
        DataError
            When something is not as described; the message says whose data.
        """
        from fedselect.data.from_arrays import from_clients, read_dataset

        return from_clients(read_dataset, "data sets", datasets, test, classes, validation, name)

    @classmethod
    def from_split(
        cls,
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
        """Build a federation from one data set, split over clients; see `fedselect.data.from_arrays.from_split`."""
        from fedselect.data.from_arrays import from_split

        held = {"test": test, "test_fraction": test_fraction, "validation_fraction": validation_fraction}
        return from_split(dataset, partition, n_clients, **held, classes=classes, seed=seed, name=name, **options)

    def summary(self) -> pd.DataFrame:
        """One row a client: samples, samples held out, and the labels (their classes, or mean and spread)."""
        from fedselect.data.overview import client_overview

        return client_overview(self)

    def plot(self) -> Figure:
        """Who has what: samples of each client by label (or the spread of its targets), as a Matplotlib figure."""
        from fedselect.data.overview import federation_figure

        return federation_figure(self)
