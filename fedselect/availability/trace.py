"""Traces: recorded availability (or returns) in CSV and Parquet files, in and out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from fedselect.availability.protocol import AVAILABILITY, DROPOUT
from fedselect.data import Federation
from fedselect.errors import ConfigError, DataError
from fedselect.options import check_choice
from fedselect.tables import read_table, write_table
from solvers.reading import Unreadable, read_matrix

if TYPE_CHECKING:
    import pandas as pd

#: Rounds times clients that a trace may always have, and how many for each entry that it lists.
_LEAST, _PER_ROW = 100_000_000, 1000


class _Available(Protocol):
    def available(self, round: int) -> NDArray[np.bool_]: ...


class Trace:
    """Recorded availability (or returns), from a file or an array.

    Parameters
    ----------
    there : (T, N) array-like of bool
        Who is there in each recorded round.
    after : {"repeat", "hold", "nobody"}
        What follows the last recorded round: the trace from its start, its last round again and again, or no client.

    Raises
    ------
    DataError
        When the trace has no round or no client, holds something else than 0 and 1, or no client is ever there.
    ConfigError
        When ``after`` is unknown.
    """

    def __init__(self, there: NDArray[np.bool_], *, after: str = "repeat") -> None:
        if isinstance(there, str | Path):
            raise DataError(f"a trace is made of an array; read_trace({str(there)!r}) reads one from a file")
        try:
            there = np.asarray(there)
        except ValueError as error:
            raise DataError(f"a trace has a row per round and a column per client: {error}") from None
        if there.ndim != 2 or there.size == 0:
            raise DataError(f"a trace needs at least one round and one client; got shape {there.shape}")
        if there.dtype != bool:
            if not np.isin(there, (0, 1)).all():
                raise DataError("a trace holds 0 and 1, or false and true, and nothing else")
            there = there.astype(bool)
        if not there.any():
            raise DataError("no client is ever there in this trace, so there would never be one to select")
        self.there, self.after = there, check_choice("after", after, "repeat", "hold", "nobody")

    def available(self, round: int) -> NDArray[np.bool_]:
        """Mask of the clients that are there in ``round``."""
        if round >= len(self.there):
            if self.after == "nobody":
                return np.zeros(self.there.shape[1], dtype=bool)
            round = round % len(self.there) if self.after == "repeat" else len(self.there) - 1
        return self.there[round].copy()

    def rates(self, round: int) -> NDArray[np.float64]:
        """Share of the recorded rounds in which each client is there, shape (N,).

        A trace has no probabilities; oracles take these shares for them.
        """
        return self.there.mean(axis=0)

    #: A trace of returns answers `returned` as one of availability answers `available`.
    returned = available


def record(model: _Available, rounds: int) -> NDArray[np.bool_]:
    """Availability of the first ``rounds`` rounds as a (rounds, N) array, ready for `write_trace`."""
    return np.stack([model.available(t) for t in range(rounds)])


def write_trace(path: str | Path, there: NDArray[np.bool_], layout: str = "long") -> None:
    """Write a (T, N) array to a file that `read_trace` reads back.

    Parameters
    ----------
    path : path-like
        Ends in ``.csv``, ``.csv.gz`` or ``.parquet``.
    there : (T, N) array-like of bool
        Who is there in each round.
    layout : {"long", "wide"}
        ``"long"``: one row for each client and round it is there in, columns ``round``, ``client`` and ``available``;
        rows of zeros keep rounds without anybody, and the last client. ``"wide"``: one row a round, a column
        ``round``, and one column of 0 and 1 for each client, named by its number.

    Raises
    ------
    ConfigError, MissingExtraError
        When the file's ending or the layout is unknown, or Parquet is asked for and pyarrow is missing.
    """
    import pandas as pd

    there = np.asarray(there, dtype=bool)
    rounds, n_clients = there.shape
    if layout == "wide":
        table = pd.DataFrame(there.astype(np.int8), columns=[str(k) for k in range(n_clients)])
        table.insert(0, "round", np.arange(rounds))
    elif layout == "long":
        marked = there.copy()
        marked[~there.any(axis=1), 0] = True
        marked[-1, -1] = True
        t, k = np.nonzero(marked)
        table = pd.DataFrame({"round": t, "client": k, "available": there[t, k].astype(np.int8)})
    else:
        raise ConfigError(f"a trace's layout is 'long' or 'wide'; got {layout!r}")
    write_table(path, table, "trace")


def read_trace(path: str | Path, n_clients: int | None = None) -> NDArray[np.bool_]:
    """Read a trace from a CSV, Parquet or ``.npy`` file.

    Parameters
    ----------
    path : path-like
        Ends in ``.csv``, ``.csv.gz``, ``.npy`` or ``.parquet``. A table with a column ``client`` is long: columns
        ``round``, ``client`` and, if zeros are listed too, ``available``; whatever is not listed is away. Any other is
        wide: a row per round and a column of 0 and 1, or false and true, per client. Columns that are named 0 to N - 1
        are these clients; others are clients as they come. With a column ``round``, other numbers as names are refused,
        and rounds that are not listed have no client. Without one, rows are rounds as they come, and an index is left
        out; a CSV file need have no header then. A first line ``0,1``, ``1,0`` or ``0`` is refused, which may be a
        header or a round. Rounds and clients count from 0.
    n_clients : int, optional
        Number of clients N that the trace must be of; whatever it is of by default, the largest listed plus 1.

    Returns
    -------
    (T, N) ndarray of bool
        T is the largest listed round plus 1, or the number of rows.

    Raises
    ------
    DataError, ConfigError, MissingExtraError
        When the file cannot be read or does not hold a trace of ``n_clients`` clients, its ending is unknown, or it is
        Parquet and pyarrow is missing.
    """
    try:
        if str(path).lower().endswith(".npy"):
            return _of_array(path, n_clients)
        return _states_of(path, read_table(path, "trace", bare=True), n_clients)
    except (MemoryError, OverflowError) as error:
        raise DataError(f"cannot read the trace {path}: it is larger than this machine can hold") from error


def _states_of(path: str | Path, table: pd.DataFrame, n_clients: int | None) -> NDArray[np.bool_]:
    """Turn a table in either layout into a (T, N) array."""
    if "round" not in table.columns:
        return _wide(path, table, n_clients)
    rounds = _numbers(path, table, "round")
    if "client" in table.columns:
        rows = _numbers(path, table, "client")
        if unknown := [str(c) for c in table.columns if c not in ("round", "client", "available")]:
            raise DataError(f"{path}: a long trace has columns round, client and available; found {unknown[0]!r} too")
        values = _states(path, table[["available"]])[:, 0] if "available" in table.columns else True
        found = int(rows.max()) + 1
        _check_size(path, int(rounds.max()) + 1, found, len(rows))
        flat = rounds * found + rows
        if np.unique(flat).size != flat.size:
            twice = flat[np.argmax(np.bincount(np.unique(flat, return_inverse=True)[1]) > 1)]
            raise DataError(f"{path}: client {twice % found} is listed twice in round {twice // found}")
        n = _fits(path, found, n_clients)
        there = np.zeros((int(rounds.max()) + 1, n), dtype=bool)
        there[rounds, rows] = values
        return there
    columns = [str(c) for c in table.columns if c != "round"]
    order = _order(columns)
    if not columns or (order is None and all(name.isdigit() for name in columns)):
        raise DataError(f"{path}: a wide trace has one column a client, numbered 0 to N - 1; found {columns[:5]}")
    if np.unique(rounds).size != rounds.size:
        raise DataError(f"{path}: a wide trace lists every round once; {_LONG}, and this one's are {_named(table)}")
    states = _states(path, table.drop(columns="round"), _WIDE_HINT)
    _check_size(path, int(rounds.max()) + 1, len(columns), states.size)
    there = np.zeros((int(rounds.max()) + 1, _fits(path, len(columns), n_clients)), dtype=bool)
    there[rounds] = states if order is None else states[:, order]
    return there


def _order(names: list[str]) -> NDArray[np.int64] | None:
    """Return the places of the clients 0 to N - 1 among columns of these names; None where the names are others."""
    if sorted(names) != sorted(str(k) for k in range(len(names))):
        return None
    return np.argsort([int(name) for name in names])


def _of_array(path: str | Path, n_clients: int | None) -> NDArray[np.bool_]:
    """Read a (T, N) array."""
    try:
        states = read_matrix(path)
    except (OSError, Unreadable) as error:
        raise DataError(f"cannot read the trace {path}: {error}") from error
    if states.ndim != 2 or states.size == 0:
        raise DataError(f"{path}: a trace has a row per round and a column per client; got shape {states.shape}")
    _fits(path, states.shape[1], n_clients)
    if states.dtype.kind not in "biu" or not np.isin(states, (0, 1)).all():
        raise DataError(f"{path}: a trace holds 0 and 1, or false and true, and nothing else")
    return states.astype(bool)


def _wide(path: str | Path, table: pd.DataFrame, n_clients: int | None) -> NDArray[np.bool_]:
    """Turn a table without a column of rounds into a (T, N) array: a row per round, a column per client, as they come.

    A first column without a name that counts from 0 is an index, as pandas writes it. Where columns are numbered, their
    numbers are the clients'.
    """
    if "client" in table.columns:
        raise DataError(f"{path}: a long trace has a column 'round'; found {', '.join(map(str, table.columns))}")
    first = str(table.columns[0])
    counts = table.iloc[:, 0].to_numpy()
    is_index = first in ("", "index") or first.startswith("Unnamed: 0")
    if is_index and counts.dtype.kind in "iu" and np.array_equal(counts, np.arange(len(counts))):
        table = table.iloc[:, 1:]
    states = _states(path, table, _WIDE_HINT)
    if (order := _order([str(column) for column in table.columns])) is not None:
        states = states[:, order]
    _fits(path, states.shape[1], n_clients)
    return states


@AVAILABILITY.register("trace")
def trace(federation: Federation, seed: int, *, path: str, after: str = "repeat") -> Trace:
    """Read availability from a CSV, Parquet or ``.npy`` file (see `read_trace` for its layouts); no seed changes it.

    Parameters
    ----------
    federation : Federation
        The file must list as many clients (a row of 0 for the last one, in a long trace, is enough).
    path : str
        The file; a relative path starts at the configuration file, or else at the working directory.
    after : {"repeat", "hold", "nobody"}
        What follows the last recorded round; see `Trace`.

    Raises
    ------
    DataError, ConfigError, MissingExtraError
        When the file or an option cannot be used.
    """
    return Trace(read_trace(path, len(federation)), after=after)


@DROPOUT.register("trace")
def returns_trace(n_clients: int, seed: int, *, path: str, after: str = "repeat") -> Trace:
    """Read returns from a CSV, Parquet or ``.npy`` file, as `read_trace` does; options as for availability's."""
    return Trace(read_trace(path, n_clients), after=after)


def _check_size(path: str | Path, rounds: int, n_clients: int, listed: int) -> None:
    """Refuse a trace whose largest round and client ask for far more memory than what it lists."""
    if rounds * n_clients > max(_LEAST, _PER_ROW * listed):
        raise DataError(
            f"{path}: {listed} entries for {rounds} rounds of {n_clients} clients; at most {_PER_ROW} cells for each "
            f"entry, or {_LEAST} in all, are read"
        )


def _numbers(path: str | Path, table: pd.DataFrame, column: str) -> NDArray[np.int64]:
    values = table[column].to_numpy()
    if values.dtype.kind not in "iu" or (values < 0).any():
        raise DataError(f"{path}: column {column!r} counts from 0 in whole numbers")
    return values.astype(np.int64)


def _states(path: str | Path, table: pd.DataFrame, hint: str = "") -> NDArray[np.bool_]:
    values = table.to_numpy()
    if values.dtype.kind in "biu" and np.isin(values, (0, 1)).all():
        return values.astype(bool)
    for place, column in enumerate(table.columns):
        found = table.iloc[:, place].to_numpy()
        wrong = ~np.isin(found, (0, 1)) if found.dtype.kind in "biu" else np.ones(len(found), dtype=bool)
        if wrong.any():
            raise DataError(
                f"{path}: a trace holds 0 and 1, or false and true, and nothing else; column {str(column)!r} holds "
                f"{str(found[wrong.argmax()])!r:.80}{hint}"
            )
    return values.astype(bool)


#: How a trace is recognised as long, for messages about one that was read as wide.
_LONG = "a long trace's columns are named round, client and available"
_WIDE_HINT = f" (a column of times is left out, or named round; {_LONG})"


def _named(table: pd.DataFrame) -> str:
    """Return the names of the first columns."""
    return ", ".join(map(str, table.columns[:4])) + (", ..." if table.shape[1] > 4 else "")


def _fits(path: str | Path, found: int, n_clients: int | None) -> int:
    if n_clients is not None and found != n_clients:
        missing = (
            f"; a row of 0 for client {n_clients - 1} would say that the others never come"
            if found < n_clients
            else "; clients count from 0"
        )
        raise DataError(f"{path}: this trace has {found} clients, the federation {n_clients}{missing}")
    return found
