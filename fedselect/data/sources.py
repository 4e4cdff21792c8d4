"""Federations as others keep them: LEAF's folders, partitions of flwr-datasets, rows with a client, a file a client.

Clients stay those of the source. Nothing that is read is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import getattr_static
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedselect.data.federation import Federation, Samples
from fedselect.data.partitions import DATASETS, hold_out
from fedselect.data.samples import Pair, check_seed, count_classes
from fedselect.errors import ConfigError, DataError
from fedselect.options import check_count
from fedselect.randomness import generator
from solvers.reading import Unreadable, read_arrays, read_json

#: Characters of LEAF's Shakespeare (models/utils/language_utils.py); a character's class is its place.
CHARACTERS = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"

#: Side of LEAF's pictures of letters and digits, which it stores as rows of pixels.
_SIDE = 28
#: Place of the text in a sample of Sent140: id, date, query, user, text.
_TEXT = 4


# -- LEAF ----------------------------------------------------------------------------------------------------------


@DATASETS.register("leaf")
def leaf(
    *,
    data_path: str = "data",
    n_clients: int | None = None,
    text_features: int = 1024,
    validation_fraction: float = 0.0,
    seed: int = 0,
) -> Federation:
    """Read a data set that LEAF has made: its users are the clients, and its split is kept.

    The folder holds ``train`` and ``test`` with ``.json`` files of ``users``, ``num_samples`` and ``user_data``. Where
    every client is in both, its tests are its own (`Federation.client_tests`), too. The server's test set is the tests
    of all clients, or of all users in ``test`` where none is in ``train``. Samples are recognised by what they are:
    rows of numbers (FEMNIST, whose 784 pixels become pictures of one channel; Synthetic), texts before a character
    (Shakespeare: the places of 80 characters in LEAF's alphabet, as numbers that a model with an embedding turns back
    to whole ones), tweets (Sent140: counts of hashed words). (Source: Caldas et al., LEAF, 2018; its repository,
    ``data/``.)

    Parameters
    ----------
    data_path : str
        The folder, or one above its ``data``.
    n_clients : int, optional
        That many of the users, drawn at random; all by default.
    text_features : int
        Length of the vectors of hashed words.
    validation_fraction : float
        Share of each client's own samples that it holds out of training, rounded down.
    seed : int
        Seed of the draw and of the validation samples.

    Returns
    -------
    Federation

    Raises
    ------
    DataError, ConfigError
        When there are no such files, one is damaged or not LEAF's, a user has no sample, or an option is out of range.
    """
    root = Path(data_path)
    check_seed(seed)
    folder = next((each for each in (root, root / "data") if (each / "train").is_dir()), None)
    if folder is None:
        raise DataError(f"{root} holds no folder train with LEAF's .json files (nor does its folder data)")
    train, tests = _users(folder / "train"), _users(folder / "test")
    names = _drawn(sorted(train), n_clients, seed, folder)
    read = _reader(train[names[0]][0], text_features)
    pairs = {name: read(*train[name], f"user {name!r}") for name in names}
    is_by_user = not train.keys() & tests.keys()
    held = {
        name: read(*tests[name], f"user {name!r} (test)") for name in (tests if is_by_user else names) if name in tests
    }
    if not held:
        raise DataError(f"{folder / 'test'} has no sample of the clients: LEAF's preprocess.sh makes it")
    shape = pairs[names[0]][0].shape[1:]
    for name, (x, _) in held.items():
        if x.shape[1:] != shape:
            raise DataError(f"user {name!r:.60} (test): samples have shape {x.shape[1:]}, and {shape} in training")
    classes = count_classes([*pairs.values(), *held.values()], None)
    samples = {name: Samples(*pair) for name, pair in pairs.items()}
    own = tuple(Samples(*held[name]) for name in names) if all(name in held for name in names) else ()
    test = Samples(*(np.concatenate(parts) for parts in zip(*held.values(), strict=True)))
    kept, aside = hold_out(
        [np.arange(len(each)) for each in samples.values()], validation_fraction, generator(seed, "data", 1)
    )
    return Federation(
        f"leaf ({root.name})",
        tuple(each.take(part) for each, part in zip(samples.values(), kept, strict=True)),
        test,
        classes,
        validation=tuple(each.take(part) for each, part in zip(samples.values(), aside, strict=False)),
        client_tests=own,
    )


def _drawn(clients: list[Any], n_clients: int | None, seed: int, folder: Path) -> list[Any]:
    """Draw some of the clients, in their order."""
    if n_clients is None:
        return clients
    if check_count("data: n_clients", n_clients) > len(clients):
        raise DataError(f"{folder} has {len(clients)} clients; {n_clients} were asked for")
    chosen = generator(seed, "data").choice(len(clients), n_clients, replace=False)
    return [clients[place] for place in np.sort(chosen)]


def _users(folder: Path) -> dict[str, tuple[list[Any], list[Any]]]:
    """Read the users of LEAF's files: inputs and labels of each, as they stand there."""
    found: dict[str, tuple[list[Any], list[Any]]] = {}
    files = sorted(folder.glob("*.json"))
    if not files:
        raise DataError(f"{folder} holds no .json file")
    for path in files:
        try:
            table = read_json(path)
        except (OSError, Unreadable) as error:
            raise DataError(f"cannot read {path}: {error}") from error
        if not isinstance(table, dict) or not isinstance(table.get("user_data"), dict):
            raise DataError(f"{path} is no file of LEAF: it needs users, num_samples and user_data")
        users = table.get("users", list(table["user_data"]))
        users = users if isinstance(users, list) else [users]
        counts = table.get("num_samples", [None] * len(users))
        if not isinstance(counts, list) or len(counts) != len(users):
            raise DataError(f"{path}: num_samples must be a list of as many numbers as users, {len(users)}")
        for user, count in zip(users, counts, strict=True):
            data = table["user_data"].get(user) if isinstance(user, str) else None
            x, y = (data.get("x"), data.get("y")) if isinstance(data, dict) else (None, None)
            if not isinstance(x, list) or not isinstance(y, list) or len(x) != len(y) or not x:
                raise DataError(f"{path}: user {user!r:.60} needs lists x and y of as many entries, and one at least")
            if count not in (None, len(x)):
                raise DataError(f"{path}: user {user!r:.60} has {len(x)} samples, and num_samples says {count!r:.40}")
            if user in found:
                raise DataError(f"{path}: user {user!r:.60} is in another file, too")
            found[user] = x, y
    if not found:
        raise DataError(f"{folder}: no file has a user")
    return found


def _reader(samples: Sequence[Any], text_features: int) -> Callable[[list[Any], list[Any], str], Pair]:
    """Return what reads samples of the kind of these."""
    first = samples[0]
    if isinstance(first, str):
        return _characters
    if isinstance(first, list) and len(first) > _TEXT and isinstance(first[_TEXT], str):
        check_count("data: text_features", text_features)
        return lambda x, y, whose: _tweets(x, y, whose, text_features)
    return _numbers


def _numbers(x: list[Any], y: list[Any], whose: str) -> Pair:
    try:
        features, labels = np.asarray(x, dtype=np.float32), np.asarray(y)
    except (TypeError, ValueError) as error:
        raise DataError(f"{whose}: samples must be rows of numbers of one length ({error})") from None
    if features.ndim != 2 or labels.dtype.kind not in "iu" or labels.ndim != 1 or labels.min() < 0:
        raise DataError(f"{whose}: samples must be rows of numbers, and labels whole numbers from 0; got {y[:3]!r:.60}")
    if features.shape[1] == _SIDE * _SIDE:
        features = features.reshape(-1, 1, _SIDE, _SIDE)
    return features, labels.astype(np.int64)


def _characters(x: list[Any], y: list[Any], whose: str) -> Pair:
    place = {character: number for number, character in enumerate(CHARACTERS)}
    length = len(x[0])
    for text in x:
        if not isinstance(text, str) or len(text) != length:
            raise DataError(f"{whose}: texts must have one length, {length}; got {text!r:.60}")
    try:
        features = np.array([[place[each] for each in text] for text in x], dtype=np.float32)
        return features, np.array([place[label] for label in y], dtype=np.int64)
    except (KeyError, TypeError) as error:
        raise DataError(f"{whose}: LEAF's alphabet has no character {error.args[0]!r:.40}") from None


def _tweets(x: list[Any], y: list[Any], whose: str, text_features: int) -> Pair:
    from sklearn.feature_extraction.text import HashingVectorizer

    if not all(isinstance(sample, list) and len(sample) > _TEXT and isinstance(sample[_TEXT], str) for sample in x):
        raise DataError(f"{whose}: a sample of Sent140 is a list of id, date, query, user and text")
    if unknown := [label for label in y if str(label) not in ("0", "1", "4")]:
        raise DataError(f"{whose}: a label of Sent140 is 0 or 4 (or 1); got {unknown[0]!r:.40}")
    words = HashingVectorizer(n_features=text_features, alternate_sign=False, norm=None)
    features = words.transform([sample[_TEXT] for sample in x]).toarray().astype(np.float32)
    return features, np.array([str(label) != "0" for label in y], dtype=np.int64)


# -- tables and partitions -----------------------------------------------------------------------------------------


def partitioned(partitioner: Any, features: str | Sequence[str], label: str, **rest: Any) -> Federation:
    """Build a federation of the partitions of flwr-datasets; see `Federation.from_partitioner`."""
    # Without looking them up: a property of the partitioner may raise whatever its data set does.
    if any(getattr_static(partitioner, name, None) is None for name in ("num_partitions", "load_partition")):
        raise DataError(
            f"partitioner must have num_partitions and load_partition, as those of flwr-datasets; got "
            f"{type(partitioner).__name__}"
        )
    try:
        parts = [partitioner.load_partition(number) for number in range(int(partitioner.num_partitions))]
    except Exception as error:  # another library's, in its own words
        raise DataError(f"the partitioner cannot be used: {type(error).__name__}: {error}") from error
    tables = {f"partition {number}": part for number, part in enumerate(parts)}
    return _of_tables(tables, features, label, **rest)


def from_rows(table: Any, client: str, label: str, features: str | Sequence[str] | None, **rest: Any) -> Federation:
    """Build a federation of rows that say whose they are; see `Federation.from_rows`."""
    columns = _columns(table)
    for wanted in (client, label):
        if wanted not in columns:
            raise DataError(f"the table has no column {wanted!r} (its columns: {', '.join(map(str, columns))})")
    if features is None:
        features = [each for each in columns if each not in (client, label)]
    owners = np.asarray(table[client][:] if hasattr(table, "column_names") else table[client])
    if owners.size == 0:
        raise DataError("the table has no row")
    try:
        names, places = np.unique(owners, return_inverse=True)
    except TypeError as error:
        raise DataError(f"column {client!r} mixes kinds of values: {error}") from None
    tables = {}
    for number, owner in enumerate(names.tolist()):
        own = np.flatnonzero(places == number)
        tables[f"client {owner}"] = table.select(own) if hasattr(table, "column_names") else table.iloc[own]
    return _of_tables(tables, features, label, **rest)


def _columns(table: Any) -> list[str]:
    """Names of the columns of a data set of Hugging Face's or a frame of pandas'."""
    if hasattr(table, "column_names"):
        return list(table.column_names)
    if hasattr(table, "columns") and hasattr(table, "iloc"):
        return list(table.columns)
    raise DataError(f"rows must be a frame of pandas or a data set of Hugging Face's; got {type(table).__name__}")


def _of_tables(
    tables: Mapping[str, Any],
    features: str | Sequence[str],
    label: str,
    *,
    test: Any,
    test_fraction: float,
    seed: int,
    name: str,
) -> Federation:
    """Read the columns of each client; labels of words are numbered in their order over all clients."""
    if not tables:
        raise DataError("there is no partition")
    read = {whose: (_inputs(table, features, whose), _column(table, label, whose)) for whose, table in tables.items()}
    tests = None if test is None else (_inputs(test, features, "the test set"), _column(test, label, "the test set"))
    every = [*read.values()] + ([] if tests is None else [tests])
    if any(labels.dtype.kind in "OUS" for _, labels in every):
        for whose, (_, labels) in zip([*read, "the test set"], every, strict=False):
            if missing := [place for place, word in enumerate(labels.tolist()) if _is_missing(word)]:
                raise DataError(f"{whose}: row {missing[0]} has no label in column {label!r}")
        words = sorted({str(word) for _, labels in every for word in labels.tolist()})
        number = {word: place for place, word in enumerate(words)}
        every = [(x, np.array([number[str(word)] for word in y.tolist()], dtype=np.int64)) for x, y in every]
    pairs = every[: len(read)]
    return _finished(pairs, None if tests is None else every[-1], test_fraction, seed, name)


def _is_missing(word: Any) -> bool:
    """Whether a cell of a column of words is empty, as pandas (None, NaN, NA) and Hugging Face (None) have it."""
    return not isinstance(word, str) and (word is None or str(word) in ("nan", "<NA>", "NaT"))


def _column(table: Any, column: str, whose: str) -> NDArray[Any]:
    if column not in _columns(table):
        raise DataError(f"{whose} has no column {column!r} (its columns: {', '.join(map(str, _columns(table)))})")
    return np.asarray(table[column][:] if hasattr(table, "column_names") else table[column])


def _inputs(table: Any, features: str | Sequence[str], whose: str) -> NDArray[np.float32]:
    """Read inputs: one column of pictures, lists or numbers, or several columns of numbers."""
    if not isinstance(features, str):
        if not features:
            raise DataError(f"{whose} has no column of features")
        columns = [_column(table, column, whose) for column in features]
        for column, values in zip(features, columns, strict=True):
            if values.dtype.kind not in "biuf":
                raise DataError(f"{whose}: column {column!r} holds no numbers; name the features")
        return np.stack(columns, axis=1).astype(np.float32)
    if features not in _columns(table):
        raise DataError(f"{whose} has no column {features!r} (its columns: {', '.join(map(str, _columns(table)))})")
    cells = list(table[features])
    if not cells:
        raise DataError(f"{whose} has no row")
    try:
        rows = np.stack([np.asarray(cell) for cell in cells])
    except ValueError as error:
        raise DataError(f"{whose}: inputs of column {features!r} have not one shape: {error}") from None
    if rows.dtype.kind not in "biuf":
        raise DataError(f"{whose}: column {features!r} holds no numbers or pictures; got {cells[0]!r:.40}")
    if rows.dtype == np.uint8 and rows.ndim in (3, 4):  # pictures: bytes, the channels last
        rows = rows[:, None] if rows.ndim == 3 else np.moveaxis(rows, -1, 1)
        return rows.astype(np.float32) / 255.0
    return rows.astype(np.float32).reshape(len(cells), -1) if rows.ndim == 1 else rows.astype(np.float32)


# -- files ---------------------------------------------------------------------------------------------------------


@DATASETS.register("npz-folder")
def npz_folder(
    *, data_path: str = "data", n_clients: int | None = None, test_fraction: float = 0.2, seed: int = 0
) -> Federation:
    """Read a folder with an ``.npz`` file of ``features`` and ``labels`` a client, in the order of their names.

    Parameters
    ----------
    data_path : str
        The folder. A file ``test.npz`` is the server's test set.
    n_clients : int, optional
        That many of the clients, drawn at random; all by default.
    test_fraction : float
        Share of every client's samples that is the test set where there is no such file, rounded down.
    seed : int
        Seed of both.

    Returns
    -------
    Federation

    Raises
    ------
    DataError, ConfigError
        When the folder has no such file, one is damaged or lacks an array, or an option is out of range.
    """
    folder = Path(data_path)
    check_seed(seed)
    files = sorted(path for path in folder.glob("*.npz") if path.name != "test.npz")
    if not files:
        raise DataError(f"{folder} holds no .npz file of a client")
    files = _drawn(files, n_clients, seed, folder)
    own = folder / "test.npz"
    return _finished(
        [_file(path) for path in files], _file(own) if own.exists() else None, test_fraction, seed, folder.name
    )


def _file(path: Path) -> Pair:
    try:
        arrays = read_arrays(path)
    except (OSError, Unreadable) as error:
        raise DataError(f"cannot read {path}: {error}") from error
    if lacking := [name for name in ("features", "labels") if name not in arrays]:
        raise DataError(f"{path} has no array {lacking[0]!r} (it has: {', '.join(arrays) or 'none'})")
    return arrays["features"], arrays["labels"]


def _finished(pairs: Iterable[Pair], test: Pair | None, test_fraction: float, seed: int, name: str) -> Federation:
    """Make the federation; without a test set a share of every client's samples is it."""
    clients = list(pairs)
    check_seed(seed)
    if test is not None:
        return Federation.from_tensors(clients, test, name=name)
    if not 0 < test_fraction < 1:
        raise ConfigError(f"test_fraction must lie between 0 and 1; got {test_fraction}")
    for place, (x, y) in enumerate(clients):
        if np.ndim(y) < 1 or np.shape(x)[:1] != np.shape(y)[:1]:
            shapes = f"features of shape {np.shape(x)} and labels of {np.shape(y)}"
            raise DataError(f"client {place} has {shapes}; both have a row for each sample")
        if np.shape(x)[1:] != (shape := np.shape(clients[0][0])[1:]):
            raise DataError(
                f"all features have one shape; client 0's is {shape}, and client {place}'s {np.shape(x)[1:]}"
            )
    kept, held = hold_out([np.arange(len(y)) for _, y in clients], test_fraction, generator(seed, "data", 2))
    parts = [(np.asarray(x)[part], np.asarray(y)[part]) for (x, y), part in zip(clients, held, strict=True)]
    if not any(len(y) for _, y in parts):
        raise DataError("no client has samples enough for the test set; give one, or a larger test_fraction")
    x, y = (np.concatenate(each) for each in zip(*parts, strict=True))
    train = [(np.asarray(x)[part], np.asarray(y)[part]) for (x, y), part in zip(clients, kept, strict=True)]
    return Federation.from_tensors(train, (x, y), name=name)
