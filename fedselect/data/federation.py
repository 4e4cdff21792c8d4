"""Federation: every client's own samples, and the server's test set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedselect.data.lazy import LazySamples, read_lazily
from fedselect.data.partitions import PARTITIONS, WITHOUT_LABELS, hold_out, noisy, of_training
from fedselect.data.samples import (
    Pair,
    Samples,
    Targets,
    check_classes,
    check_seed,
    count_classes,
    make_samples,
    read_dataset,
    read_pair,
)
from fedselect.errors import ConfigError, DataError
from fedselect.randomness import generator
from solvers.problem import html_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

#: Classes beyond which a legend of them does not help.
_LEGEND = 20


@dataclass(frozen=True, eq=False)
class Federation:
    """Clients with their training samples, and the test set of the server.

    From what one has: `from_tensors`, `from_datasets`, `from_split`, `from_partitioner`, `from_rows`.

    Attributes
    ----------
    name : str
        Name of the data set.
    datasets : tuple of Samples
        Training samples of each of the N clients, at least one each.
    test : Samples
        Used for evaluation; the toolkit's selectors and graphs do not look at it.
    classes : int or None
        Number of classes; None where the labels are real numbers to be predicted (all samples are `Targets` then).
    validation : tuple of Samples
        Samples of each client that were held out of training, if any.
    client_tests : tuple of Samples
        Samples of each client that it holds out to test the model with, for its scores alone (`with_client_tests`);
        empty where none were.
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
    client_tests: tuple[Samples, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "datasets", tuple(self.datasets))
        for name in ("validation", "client_tests"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.datasets:
            raise DataError("a federation needs at least one client; got none")
        kind, classes = Targets if self.classes is None else Samples, self.classes
        if classes is not None:
            check_classes(classes)
        for name in ("validation", "client_tests", "groups", "parameters"):
            value, none = getattr(self, name), 0 if name in ("validation", "client_tests") else -1
            if value is not None and len(value) not in (none, len(self.datasets)):
                raise DataError(f"{len(self.datasets)} clients need as many entries of {name}; got {len(value)}")
        shape = None
        for whose, samples in self._parts():
            mixed = not isinstance(samples, LazySamples) and isinstance(samples, Targets) != (kind is Targets)
            if not isinstance(samples, Samples) or mixed:
                got = type(samples).__name__
                raise DataError(f"{whose} must be given as {kind.__name__}(features, labels); got {got}")
            if len(samples) == 0 and not whose.startswith(("validation", "tests")):
                raise DataError(f"{whose} has no sample; every client and the test set need at least one")
            if len(samples) == 0 or isinstance(samples, LazySamples):
                continue
            shape = samples.shape if shape is None else shape
            if samples.shape != shape:
                raise DataError(f"all features have one shape; client 0's is {shape}, and {whose}'s {samples.shape}")
            if classes is not None and (most := samples.labels.max()) >= classes:
                raise DataError(
                    f"labels of {classes} classes lie between 0 and {classes - 1}; {whose} has label {most}"
                )
            if (
                classes is None
                and isinstance(self.test, Samples)
                and (samples.labels.shape[1:] != self.test.labels.shape[1:])
            ):
                shapes = f"{self.test.labels.shape[1:]}, and {whose}'s {samples.labels.shape[1:]}"
                raise DataError(f"all targets have one shape; the test set's is {shapes}")

    def _parts(self) -> Iterator[tuple[str, Any]]:
        """All samples, and whose they are in words."""
        yield from ((f"client {client}", samples) for client, samples in enumerate(self.datasets))
        yield "the test set", self.test
        yield from ((f"validation of client {client}", samples) for client, samples in enumerate(self.validation))
        yield from ((f"tests of client {client}", samples) for client, samples in enumerate(self.client_tests))

    def __len__(self) -> int:
        return len(self.datasets)

    def __repr__(self) -> str:
        return f"<federation {self.name!r}: " + ", ".join(f"{value} {name}" for name, value in self._facts()) + ">"

    def _repr_html_(self) -> str:
        return html_table(f"Federation {self.name}", self._facts())

    def _facts(self) -> list[tuple[str, str]]:
        sizes, shape = self.sizes, ""
        if not self.is_lazy:
            shape = " of " + "×".join(map(str, self.datasets[0].shape))
        facts = [
            ("clients", str(len(self))),
            (f"samples{shape}", f"{sizes.sum()}"),
            ("a client", f"{sizes.min()} to {sizes.max()}"),
            ("targets", str(self.outputs)) if self.classes is None else ("classes", str(self.classes)),
            ("for testing", str(len(self.test))),
        ]
        held = sum(len(samples) for samples in self.validation)
        facts += [("for validation", str(held))] if held else []
        tests = sum(len(samples) for samples in self.client_tests)
        return facts + ([("for tests of clients", str(tests))] if tests else [])

    @property
    def is_lazy(self) -> bool:
        """Whether samples are read when they are used."""
        return any(isinstance(samples, LazySamples) for samples in (*self.datasets, self.test))

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
            What the server evaluates with.
        classes : int, optional
            Number of classes. If left out, one more than the largest label, or none where labels are floating-point.
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
            When something is not as described.
        """
        return cls._of_clients(read_pair, "(features, labels) pairs", datasets, test, classes, validation, name)

    @classmethod
    def from_datasets(
        cls,
        datasets: Sequence[Any],
        test: Any,
        *,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        lazy: bool = False,
        classes: int | None = None,
        validation: Sequence[Any] = (),
        name: str = "own",
    ) -> Federation:
        """Build a federation from a data set of each client.

        Parameters
        ----------
        datasets : sequence of data sets
            Anything with ``len(d)`` and ``d[i] -> (features, label)``: PyTorch's ``TensorDataset`` and ``Subset``,
            torchvision's sets with ``transform=ToTensor()``, a custom class. All samples are read once and kept, unless
            ``lazy``; lazy data sets may be ``DataLoader``s, of which their data set and ``collate_fn`` are used: which
            samples make a batch is the loop's matter, by its seed.
        test : data set
            What the server evaluates with.
        collate_fn : callable, optional
            Makes a batch ``(inputs, labels)`` of a list of samples, which need not have one shape; with ``lazy``. The
            inputs are what the model takes: a tensor, or a list or mapping of tensors. PyTorch's ``default_collate`` if
            left out.
        lazy : bool
            Whether samples are read when a client trains, batch by batch, and not kept. Clients then train one by one.
            A selector or graph that asks for labels reads all samples once.
        classes : int, optional
            As for `from_tensors`; ``lazy`` does not count them, so it has to be given unless labels are numbers to be
            predicted.
        validation, name
            As for `from_tensors`.

        Returns
        -------
        Federation

        Raises
        ------
        DataError
            When something is not as described; with ``lazy``, of a sample when it is read.
        """
        if not lazy:
            if collate_fn is not None:
                raise DataError(
                    "collate_fn makes the batches of samples that are read when they are used: add lazy=True"
                )
            return cls._of_clients(read_dataset, "data sets", datasets, test, classes, validation, name)
        given = cls._given("data sets", datasets, test, validation)
        *own, held_out = read_lazily(given, collate_fn, classes).values()
        n = len(datasets)
        return cls(name, tuple(own[:n]), held_out, classes, validation=tuple(own[n:]))

    @classmethod
    def from_partitioner(
        cls,
        partitioner: Any,
        *,
        features: str | Sequence[str] = "image",
        label: str = "label",
        test: Any = None,
        test_fraction: float = 0.2,
        seed: int = 0,
        name: str = "own",
    ) -> Federation:
        """Build a federation of the partitions of flwr-datasets: partition k is client k.

        Parameters
        ----------
        partitioner : flwr_datasets.partitioner.Partitioner
            Its ``dataset`` has been set. Or whatever has ``num_partitions`` and ``load_partition(k)``, a data set of
            Hugging Face's.
        features : str or sequence of str
            Column of inputs: pictures (which become (C, H, W) in [0, 1]), lists of numbers or numbers; or several
            columns of numbers.
        label : str
            Column of labels: classes from 0, numbers to be predicted, or words, numbered in Python's order.
        test : data set, optional
            The server's test set, with the same columns.
        test_fraction : float
            Share of every client's samples that is the test set where none is given, rounded down; one sample of each
            stays for training.
        seed : int
            Seed of that.
        name : str
            As for `from_tensors`.

        Returns
        -------
        Federation

        Raises
        ------
        DataError, ConfigError
            When the partitioner cannot be used, a column is not there, or inputs have not one shape.
        """
        from fedselect.data.sources import partitioned

        more = {"test": test, "test_fraction": test_fraction, "seed": seed, "name": name}
        return partitioned(partitioner, features, label, **more)

    @classmethod
    def from_rows(
        cls,
        table: Any,
        *,
        client: str,
        label: str,
        features: str | Sequence[str] | None = None,
        test: Any = None,
        test_fraction: float = 0.2,
        seed: int = 0,
        name: str = "own",
    ) -> Federation:
        """Build a federation of a table with a row a sample, which says whose it is.

        Parameters
        ----------
        table : pandas.DataFrame or datasets.Dataset
            A frame, or a data set of Hugging Face's (``datasets.load_from_disk(folder)``).
        client : str
            Column that says whose a row is; clients are numbered in the order of its values.
        label, features, test, test_fraction, seed, name
            As for `from_partitioner`; all other columns are features if they are left out.

        Returns
        -------
        Federation

        Raises
        ------
        DataError, ConfigError
            When the table has no row, a column is not there, or its values cannot be used as what it is named for.
        """
        from fedselect.data.sources import from_rows

        more = {"test": test, "test_fraction": test_fraction, "seed": seed, "name": name}
        return from_rows(table, client, label, features, **more)

    @staticmethod
    def _given(kind: str, datasets: Sequence[Any], test: Any, validation: Sequence[Any]) -> dict[str, Any]:
        """Return what was given, by whose it is; the test set comes last."""
        if not isinstance(datasets, list | tuple):
            shape = getattr(datasets, "shape", None)
            got = type(datasets).__name__ + (f" of shape {tuple(shape)}" if shape is not None else "")
            raise DataError(
                f"datasets must be a list of {kind}, one a client; got {got} "
                "(to split one data set over clients: Federation.from_split)"
            )
        given = {f"client {place}": each for place, each in enumerate(datasets)}
        given |= {f"validation of client {place}": each for place, each in enumerate(validation)}
        return given | {"the test set": test}

    @classmethod
    def _of_clients(
        cls,
        read: Callable[[Any, str], Pair],
        kind: str,
        datasets: Sequence[Any],
        test: Any,
        classes: int | None,
        validation: Sequence[Any],
        name: str,
    ) -> Federation:
        given = cls._given(kind, datasets, test, validation)
        pairs = {whose: read(each, whose) for whose, each in given.items()}
        if not datasets:
            raise DataError("a federation needs at least one client; got none")
        classes = count_classes(list(pairs.values()), classes)
        *own, held_out = (make_samples(pair, classes, whose) for whose, pair in pairs.items())
        n = len(datasets)
        return cls(name, tuple(own[:n]), held_out, classes, validation=tuple(own[n:]))

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
        """Build a federation from one data set, split over clients.

        Parameters
        ----------
        dataset : data set or (features, labels)
            As for `Federation.from_datasets` or `Federation.from_tensors`.
        partition : str
            Name in `fedselect.data.PARTITIONS`; ``options`` are its options. Data without classes can be split by
            ``"iid"``, ``"iid-draws"``, ``"natural"``, ``"sizes"``, ``"power-law"`` and ``"feature-noise"``.
        n_clients : int
            Number of clients.
        test : data set or (features, labels), optional
            The test set; a share ``test_fraction`` of ``dataset`` if left out, stratified where labels are classes.
        test_fraction : float
            Share of the samples held out for testing, between 0 and 1, where ``test`` is not given.
        validation_fraction : float
            Share in [0, 1) of each client's own samples that it holds out of training, rounded down.
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
        if isinstance(options.get("ids"), np.ndarray):
            options["ids"] = options["ids"].tolist()
        PARTITIONS.check(partition, options)
        check_seed(seed)
        whole = read_dataset(dataset, "the data set")
        outside = None if test is None else read_dataset(test, "the test set")
        classes = count_classes([whole] if outside is None else [whole, outside], classes)
        samples = make_samples(whole, classes, "the data set")
        rng = generator(seed, "data")
        train = np.arange(len(samples))
        if outside is None:
            train, held_out = _test_split(samples, test_fraction, classes is not None, rng)
        labels = samples.labels[train]
        if classes is None:
            if partition not in WITHOUT_LABELS:
                raise ConfigError(
                    f"partition {partition!r} splits by class, and these labels are real numbers: take 'iid'"
                )
            labels = np.zeros(train.size, dtype=np.int64)
        options = of_training(options, len(samples), train)
        parts = PARTITIONS.build(partition, labels, n_clients, rng, **options)
        kept, held = hold_out(parts, validation_fraction, rng)
        add = noisy(parts, rng)
        return cls(
            name=name,
            datasets=tuple(add(k, samples.take(train[part])) for k, part in enumerate(kept)),
            test=samples.take(held_out) if outside is None else make_samples(outside, classes, "the test set"),
            classes=classes,
            validation=tuple(add(k, samples.take(train[part])) for k, part in enumerate(held)),
        )

    def with_client_tests(self, fraction: float = 0.2, seed: int = 0) -> Federation:
        """Return this federation with a test set for each client, taken from its training samples.

        Parameters
        ----------
        fraction : float
            Share of each client's training samples that it holds out, in [0, 1), rounded down; one sample at least
            stays for training. A client with too few has no test set, and no score.
        seed : int
            Seed of the draw.

        Returns
        -------
        Federation

        Raises
        ------
        DataError
            When the share is out of range.
        """
        own = [np.arange(len(samples)) for samples in self.datasets]
        try:
            kept, held = hold_out(own, fraction, generator(seed, "client-tests"))
        except (DataError, TypeError):
            raise DataError(f"client_test_fraction must lie in [0, 1); got {fraction!r}") from None
        parts = tuple(samples.take(part) for samples, part in zip(self.datasets, kept, strict=True))
        tests = tuple(samples.take(part) for samples, part in zip(self.datasets, held, strict=False))
        return replace(self, datasets=parts, client_tests=tests)

    def summary(self) -> pd.DataFrame:
        """Tabulate the clients, one per row.

        Returns
        -------
        DataFrame
            ``samples`` and ``validation`` (samples held out); of classes ``labels`` (how many different), ``commonest``
            and ``share`` (of the samples); of targets ``mean`` and ``std``, over all of a client's.
        """
        import pandas as pd

        held = [len(samples) for samples in self.validation] or [0] * len(self)
        columns = {"client": np.arange(len(self)), "samples": self.sizes, "validation": held}
        if self.classes is None:
            columns["mean"] = [float(samples.labels.mean()) for samples in self.datasets]
            columns["std"] = [float(samples.labels.std()) for samples in self.datasets]
        else:
            counts = self.label_counts
            columns["labels"] = np.count_nonzero(counts, axis=1)
            columns["commonest"] = counts.argmax(axis=1)
            columns["share"] = counts.max(axis=1) / self.sizes
        return pd.DataFrame(columns).set_index("client")

    def plot(self, clients: NDArray[np.int64] | None = None) -> Figure:
        """Draw the samples of each client by label, as stacked bars; of real numbers, their count and spread.

        Parameters
        ----------
        clients : (k,) ndarray of int, optional
            Show these alone, in this order; all if left out.

        Returns
        -------
        matplotlib.figure.Figure
            Made without pyplot.
        """
        from matplotlib.figure import Figure

        from graphs.drawing import palette
        from solvers.benchmark.figures import COLOURS

        figure = Figure(figsize=(11, 5.4), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True)
        shown = np.arange(len(self)) if clients is None else clients
        x = np.arange(len(shown))
        if self.classes is None:
            above.bar(x, self.sizes[shown], width=1.0, color=COLOURS[0])
            table = self.summary().loc[shown]
            below.errorbar(x, table["mean"], yerr=table["std"], fmt=".", color=COLOURS[1])
            below.set_ylabel("targets, mean ± std")
        else:
            counts, bottom = self.label_counts[shown], np.zeros((2, len(shown)))
            shades = palette(self.classes)  # those of a drawing of the graph
            shares, edges = self.label_distributions[shown], np.arange(len(shown) + 1) - 0.5
            for label, colour in enumerate(shades):
                for axis, values, floor in ((above, counts, bottom[0]), (below, shares, bottom[1])):
                    # One patch a label: a bar a client and label would take seconds for hundreds of clients.
                    top = floor + values[:, label]
                    axis.stairs(top, edges, baseline=floor.copy(), fill=True, color=colour, label=str(label))
                bottom += np.stack([counts[:, label], shares[:, label]])
            below.set_ylabel("share of each label")
            below.set_ylim(0, 1)
            if self.classes <= _LEGEND:
                handles, names = above.get_legend_handles_labels()
                figure.legend(handles[::-1], names[::-1], title="label", loc="outside right", fontsize=8)
        above.set_ylabel("samples")
        above.set_title(f"{self.name}: {len(self)} clients, {self.sizes.sum()} samples", fontsize=10)
        below.set_xlabel("client" if clients is None else "clients shown")
        above.margins(x=0)
        return figure


def _test_split(
    samples: Samples, share: float, stratify: bool, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sorted indices for training and for testing."""
    from sklearn.model_selection import train_test_split

    try:
        if not 0 < share < 1:  # of None and of whole numbers scikit-learn makes something else
            raise ValueError("it must lie between 0 and 1")
        train, test = train_test_split(
            np.arange(len(samples)),
            test_size=share,
            stratify=samples.labels if stratify else None,
            random_state=int(rng.integers(2**31)),
        )
    except (TypeError, ValueError) as error:
        raise DataError(f"test_fraction {share} does not split {len(samples)} samples: {error}") from error
    return np.sort(train), np.sort(test)
