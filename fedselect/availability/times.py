"""Recorded availability in seconds: files of intervals, transitions, pings, power; nothing in them is executed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from fedselect.availability.intervals import Intervals, Pick, Recorded, merged, picked
from fedselect.availability.protocol import AVAILABILITY
from fedselect.data import Federation
from fedselect.errors import ConfigError, DataError
from fedselect.options import check_choice, check_number
from fedselect.pickles import is_pickle, keyed_by_text, read_pickle
from fedselect.tables import read_table
from solvers.reading import Unreadable, parse_json, read_bytes

#: Words for a client that is there, and for one that is away, in small letters.
_THERE = frozenset({"1", "1.0", "true", "on", "online", "active", "available", "charging", "there"})
_AWAY = frozenset({"0", "0.0", "false", "off", "offline", "inactive", "unavailable", "discharging", "away"})


def read_intervals(
    path: str | Path, *, origin: str | float | None = None, time_zone: str = "UTC", ids: Sequence[str] = ()
) -> Recorded:
    """Read intervals in which clients are there.

    Parameters
    ----------
    path : path-like
        ``.csv``, ``.csv.gz``, ``.parquet``, ``.json`` (a list of objects), ``.jsonl`` or ``.ndjson`` with ``client``,
        ``on`` and ``off``; or as ``.json`` an object of clients: FedScale's trace of behaviour (or its pickle), with
        lists ``active`` and ``inactive`` of seconds and a ``finish_time``, or FLASH's, with ``messages`` of times and
        states, where a phone is there while its screen is off or locked, it charges and it is on Wi-Fi. Times are
        seconds (since 1970, say), or dates with a time of day (ISO 8601). Clients are numbers from 0, or texts, which
        are numbered in Python's order of strings.
    origin : str or float, optional
        The moment, as a time of the file, at which a run starts; the first one in the file by default.
    time_zone : str
        Zone of dates that do not say theirs, as in the IANA data base: ``"Asia/Shanghai"``.
    ids : sequence of str, optional
        Ids of clients that are numbered 0, 1 and so on; all others come behind them. So two files number alike.

    Returns
    -------
    clients, on, off : (M,) ndarray

    Raises
    ------
    DataError
        When the file cannot be read, has no row or lacks a column, a time is none, or intervals are empty or overlap.
    ConfigError, MissingExtraError
        When there is no such time zone; when the file is Parquet and pyarrow is missing.
    """
    data = _load(path)
    if isinstance(data, dict):
        data = [row for client, each in data.items() for row in _phone(path, client, each, time_zone)]
    rows = _table(path, data, ("client", "on", "off"))
    on, off = (_seconds(path, rows[name], time_zone) for name in ("on", "off"))
    start = _origin(path, origin, on, time_zone)
    clients = _numbered(path, rows["client"], ids)
    if (wrong := np.flatnonzero(off <= on)).size:  # said in the file's own words: a date says more than seconds
        k = wrong[0]
        raise DataError(
            f"{path}: row {k + 1}: client {rows['client'][k]} has an interval from {rows['on'][k]} to "
            f"{rows['off'][k]}; it must end after it begins"
        )
    order = np.lexsort((on, clients))
    late = (clients[order[1:]] == clients[order[:-1]]) & (on[order[1:]] < off[order[:-1]])
    if late.any():
        first, second = order[int(late.argmax())], order[int(late.argmax()) + 1]
        both = " and ".join(f"{rows['on'][k]} to {rows['off'][k]} (row {k + 1})" for k in (first, second))
        raise DataError(f"{path}: client {rows['client'][first]} has intervals that overlap: {both}")
    try:
        checked = Intervals(clients, on - start, off - start, int(clients.max()) + 1)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    return checked.clients, checked.on, checked.off


def read_transitions(
    path: str | Path,
    *,
    origin: str | float | None = None,
    time_zone: str = "UTC",
    end: str | float | None = None,
    ids: Sequence[str] = (),
) -> Recorded:
    """Read moments at which clients come and go.

    Parameters
    ----------
    path : path-like
        As for `read_intervals`, with ``client``, ``time`` and ``state``: 1, true, on, online, active, available,
        charging, there for one that is there, 0, false, off, offline, inactive, unavailable, discharging, away for one
        that is not. The times of a client do not decrease; a state that repeats changes nothing.
    origin, time_zone, ids
        As for `read_intervals`.
    end : str or float, optional
        The moment until which the last state of a client lasts; the last one in the file by default.

    Raises
    ------
    DataError
        When the file cannot be read, a state is unknown, or the times of a client decrease. Other errors as for
        `read_intervals`.
    """
    rows = _table(path, _load(path), ("client", "time", "state"))
    clients, times = _numbered(path, rows["client"], ids), _seconds(path, rows["time"], time_zone)
    words = [str(state).strip().lower() for state in rows["state"]]
    if unknown := [word for word in words if word not in _THERE | _AWAY]:
        raise DataError(f"{path}: a state is one of {', '.join(sorted(_THERE | _AWAY))}; found {unknown[0]!r}")
    there = np.array([word in _THERE for word in words])
    order = np.argsort(clients, kind="stable")
    who, at, state = clients[order], times[order], there[order]
    same = who[1:] == who[:-1]
    if (back := np.flatnonzero(same & (at[1:] < at[:-1]))).size:
        before, after = (rows["time"][k] for k in order[back[0] : back[0] + 2])
        client = rows["client"][order[back[0]]]
        raise DataError(f"{path}: times of a client do not decrease; client {client} has {after} after {before}")
    last = float(at.max()) if end is None else _seconds(path, [end], time_zone, "end")[0]
    until = np.where(np.append(same, False), np.append(at[1:], last), last)
    kept = state & (until > at)
    start = _origin(path, origin, times, time_zone)
    return merged(who[kept], at[kept] - start, until[kept] - start)


def read_pings(
    path: str | Path,
    *,
    origin: str | float | None = None,
    time_zone: str = "UTC",
    timeout: float = 300.0,
    ids: Sequence[str] = (),
) -> Recorded:
    """Read pings: a client is there from each of its pings for ``timeout`` seconds.

    Parameters
    ----------
    path : path-like
        As for `read_intervals`, with ``client`` and ``time``; in any order.
    origin, time_zone, ids
        As for `read_intervals`.
    timeout : float
        Seconds after which a client that is silent is away.
    """
    check_number("timeout", timeout, open_low=True)
    rows = _table(path, _load(path), ("client", "time"))
    times = _seconds(path, rows["time"], time_zone)
    start = _origin(path, origin, times, time_zone)
    return merged(_numbered(path, rows["client"], ids), times - start, times - start + timeout)


def read_power(
    path: str | Path,
    *,
    origin: str | float | None = None,
    time_zone: str = "UTC",
    least: float = 0.0,
    ids: Sequence[str] = (),
) -> Recorded:
    """Read power over time: a client is there while its power is above a limit, as in FedZero's solar files.

    Parameters
    ----------
    path : path-like
        ``.csv``, ``.csv.gz``, ``.parquet``, ``.json`` (a list of objects), ``.jsonl`` or ``.ndjson``: the first column
        is the time, each other one a client's power from then until the next row. Clients are numbered in the order of
        the columns.
    origin, time_zone, ids
        As for `read_intervals`.
    least : float
        A client is there above this power.

    Raises
    ------
    DataError
        When the file cannot be read, is no such table, a power is no finite number, or times do not increase.
    ConfigError
        When there is no such time zone.
    """
    rows = _load(path)
    if not isinstance(rows, list) or not rows or not isinstance(rows[0], dict) or len(rows[0]) < 2:
        raise DataError(f"{path}: power is a table with a time and a column a client")
    if other := [k for k, row in enumerate(rows, 1) if not isinstance(row, dict) or row.keys() != rows[0].keys()]:
        raise DataError(f"{path}: every row of power has the columns of the first; row {other[0]} has others")
    clock, *names = rows[0]
    times = _seconds(path, [row[clock] for row in rows], time_zone)
    if times.size < 2 or (np.diff(times) <= 0).any():
        raise DataError(f"{path}: power needs two rows at least, whose times increase")
    try:
        power = np.array([[float(row[name]) for name in names] for row in rows])
    except (TypeError, ValueError) as error:
        raise DataError(f"{path}: power is a number in every column but the first: {error}") from None
    if not np.isfinite(power).all():
        raise DataError(f"{path}: power is finite; row {int(np.argmin(np.isfinite(power).all(axis=1))) + 1} is not")
    row, who = np.nonzero(power > least)
    if ids:
        who = _numbered(path, names, ids)[who]
    ends = np.append(times[1:], 2 * times[-1] - times[-2])  # the last row lasts as long as the one before
    start = _origin(path, origin, times, time_zone)
    return merged(who.astype(np.int64), times[row] - start, ends[row] - start)


def read_times(
    path: str | Path,
    kind: str = "intervals",
    *,
    origin: str | float | None = None,
    time_zone: str = "UTC",
    timeout: float = 300.0,
    least_power: float = 0.0,
    ids: Sequence[str] = (),
) -> Recorded:
    """Read a file by `read_intervals`, `read_transitions`, `read_pings` or `read_power`."""
    check_choice("kind", kind, "intervals", "transitions", "pings", "power")
    if kind == "power":
        return read_power(path, origin=origin, time_zone=time_zone, least=least_power, ids=ids)
    if kind == "pings":
        return read_pings(path, origin=origin, time_zone=time_zone, timeout=timeout, ids=ids)
    read = read_intervals if kind == "intervals" else read_transitions
    return read(path, origin=origin, time_zone=time_zone, ids=ids)


@AVAILABILITY.register("seconds")
def recorded(
    federation: Federation,
    seed: int = 0,
    *,
    path: str,
    kind: Literal["intervals", "transitions", "pings", "power"] = "intervals",
    origin: str | float | None = None,
    time_zone: str = "UTC",
    timeout: float = 300.0,
    least_power: float = 0.0,
    pick: Pick = "exact",
    after: Literal["nobody", "repeat"] = "nobody",
    round_seconds: float = 60.0,
) -> Intervals:
    """Read availability in seconds from a file of intervals, transitions, pings or power.

    Parameters
    ----------
    path : str
        The file; see `read_intervals`, `read_transitions`, `read_pings` and `read_power`.
    least_power : float
        Of kind ``"power"``: above it a client is there.
    pick : {"exact", "first", "random"}
        Which of its clients to take: as many as the federation has are expected, or the first, or some at random.
    after : {"nobody", "repeat"}
        What follows the last interval: no client, or the file from its origin.
    round_seconds : float
        Length of a round where there is no clock.
    """
    check_choice("after", after, "nobody", "repeat")
    found = read_times(path, kind, origin=origin, time_zone=time_zone, timeout=timeout, least_power=least_power)
    who, on, off = picked(found, len(federation), pick, seed)
    period = None
    if after == "repeat":
        inside = off > 0
        who, on, off = who[inside], np.maximum(on[inside], 0.0), off[inside]
        period = float(off.max(initial=0.0)) or None
    return Intervals(who, on, off, len(federation), round_seconds=round_seconds, period=period)


# -- files ----------------------------------------------------------------------------------------------------------


def _load(path: str | Path) -> Any:
    """Read a file's rows as a mapping of columns, a list of objects, or FedScale's object; a pickle runs nothing."""
    name = str(path).lower()
    try:
        if name.endswith(".json"):
            return parse_json(read_bytes(path))
        if name.endswith((".jsonl", ".ndjson")):
            return [parse_json(line) for line in read_bytes(path).split(b"\n") if line.strip()]
        if is_pickle(name):
            return keyed_by_text(read_pickle(path))
    except (OSError, Unreadable) as error:
        raise DataError(f"cannot read {path}: {error}") from error
    if not name.endswith((".csv", ".csv.gz", ".parquet")):
        raise DataError(
            f"{path}: recorded availability is read from .csv, .csv.gz, .parquet, .json, .jsonl, or a pickle of "
            "containers and numbers"
        )
    return read_table(path, "file of times", numbers=True).to_dict("records")


#: States in FLASH's messages, and what they say of a phone.
_FLASH = {
    "screen_off": ("is off", True), "screen_on": ("is off", False),
    "screen_lock": ("is locked", True), "screen_unlock": ("is locked", False),
    "battery_charged_on": ("charges", True), "battery_charged_off": ("charges", False),
    "wifi": ("is on Wi-Fi", True),
    **dict.fromkeys(("Unknown", "unknown", "2G", "3G", "4G", "5G"), ("is on Wi-Fi", False)),
}  # fmt: skip


def _phone(path: str | Path, client: str, facts: Any, time_zone: str) -> list[dict[str, Any]]:
    """Turn what FedScale or FLASH publishes of a client into intervals."""
    if isinstance(facts, dict) and isinstance(facts.get("messages"), str):
        return _flash(path, client, facts["messages"], time_zone)
    if not isinstance(facts, dict):
        raise DataError(f"{path}: client {client} must be an object with lists 'active' and 'inactive'")
    on, off = facts.get("active"), facts.get("inactive")
    if not isinstance(on, list) or not isinstance(off, list):
        raise DataError(
            f"{path}: client {client} needs lists 'active' and 'inactive' (FedScale), or 'messages' (FLASH)"
        )
    if len(off) < len(on):
        off = [*off, facts.get("finish_time")]
    if len(on) != len(off):
        raise DataError(f"{path}: client {client} is active {len(on)} times and inactive {len(off)} times")
    return [{"client": client, "on": begin, "off": end} for begin, end in zip(on, off, strict=True)]


def _flash(path: str | Path, client: str, messages: str, time_zone: str) -> list[dict[str, Any]]:
    """Turn FLASH's log of a phone, a line per change of its state, into intervals that end with the last line."""
    lines = [line.split("\t") for line in messages.replace("\0", "").splitlines() if line.strip()]
    if wrong := [line for line in lines if len(line) != 2]:
        raise DataError(f"{path}: a message of client {client} is a time, a tab and a state; found {wrong[0][0]!r:.60}")
    times = _seconds(path, [first.strip() for first, _ in lines], time_zone, f"a message of client {client}")
    state = dict.fromkeys(("is off", "is locked", "charges", "is on Wi-Fi"), False)
    found: list[dict[str, Any]] = []
    begin = None
    for k in np.argsort(times, kind="stable").tolist():
        # Battery levels and other messages say nothing about it.
        what, value = _FLASH.get(lines[k][1].strip(), ("", False))
        state |= {what: value} if what else {}
        there = (state["is off"] or state["is locked"]) and state["charges"] and state["is on Wi-Fi"]
        if there and begin is None:
            begin = times[k]
        elif begin is not None and not there:
            found.append({"client": client, "on": begin, "off": times[k]})
            begin = None
    if begin is not None:
        found.append({"client": client, "on": begin, "off": times.max()})
    return [row for row in found if row["on"] < row["off"]]


def _table(path: str | Path, rows: Any, columns: tuple[str, ...]) -> dict[str, list[Any]]:
    """Check that every row has the columns; return them."""
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{path}: expected rows with {', '.join(columns)}, and at least one")
    for number, row in enumerate(rows):
        if lacking := [name for name in columns if row.get(name) is None]:
            raise DataError(f"{path}: row {number + 1} has no {lacking[0]!r} (it needs {', '.join(columns)})")
    return {name: [row[name] for row in rows] for name in columns}


def _numbered(path: str | Path, values: list[Any], ids: Sequence[str]) -> NDArray[np.int64]:
    """Number clients: those of a file with whole numbers are what they are, texts in their order.

    Where ids are given, these are numbered as they come, and all others behind them.
    """
    if ids:
        texts = [str(value) for value in values]
        place = {client: number for number, client in enumerate([*ids, *sorted({*texts}.difference(ids))])}
        return np.array([place[client] for client in texts], dtype=np.int64)
    try:
        numbers = np.array([int(value) for value in values])
        if not (numbers == np.array([float(value) for value in values])).all():
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        return np.unique([str(value) for value in values], return_inverse=True)[1].astype(np.int64)
    if (numbers < 0).any() or numbers.max() >= 10_000_000:
        raise DataError(f"{path}: clients count from 0 to at most 9999999; found {numbers.min()} to {numbers.max()}")
    return numbers.astype(np.int64)


def _seconds(path: str | Path, values: list[Any], time_zone: str, what: str = "row") -> NDArray[np.float64]:
    """Turn times into seconds: numbers are, dates are counted from 1970; ``what`` is numbered where one is neither."""
    try:
        zone = UTC if time_zone == "UTC" else ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigError(f"there is no time zone {time_zone!r}; zones are called 'Europe/Paris', say") from error
    found = np.empty(len(values))
    for place, value in enumerate(values):
        try:
            found[place] = float(value)
        except (TypeError, ValueError):
            try:
                moment = datetime.fromisoformat(str(value).strip())
            except ValueError:
                raise DataError(
                    f"{path}: {what + (f' {place + 1}' if what == 'row' else '')}: a time is a number of seconds or a "
                    f"date (ISO 8601); found {value!r}"
                ) from None
            found[place] = (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()
    if not np.isfinite(found).all():
        raise DataError(f"{path}: times are finite; found {values[int(np.argmin(np.isfinite(found)))]!r}")
    return found


def _origin(path: str | Path, origin: str | float | None, times: NDArray[np.float64], time_zone: str) -> float:
    return float(times.min()) if origin is None else float(_seconds(path, [origin], time_zone, "origin")[0])
