"""Availability in seconds: intervals in which each client is there, from files or from a model of phones."""

from __future__ import annotations

import math
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.availability.protocol import AVAILABILITY
from fedselect.data import Federation
from fedselect.errors import ConfigError, DataError
from fedselect.options import check_choice, check_count, check_number
from fedselect.randomness import generator

#: Clients (0 to N - 1), begins and ends of intervals, in seconds from the origin; each (M,).
Recorded = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]

_HOUR, _DAY = 3600.0, 86400.0


@runtime_checkable
class TimedAvailability(Protocol):
    """Availability on a clock: who is there at a moment, and when each of them leaves."""

    #: Length of a round where there is no clock.
    round_seconds: float

    def available_at(self, seconds: float) -> NDArray[np.bool_]:
        """Mask of the clients that are there, shape (N,), so many seconds after the start of the run."""
        ...

    def leaves(self, seconds: float) -> NDArray[np.float64]:
        """When each client leaves that is there at this moment, shape (N,); infinite where it stays, or is away."""
        ...


class Intervals:
    """Clients that are there in intervals [on, off) of seconds.

    A round sees the clients that are there at its start: at the moment that the clock says, or else at round ·
    ``round_seconds``. A client that leaves before its update has arrived (without a clock: before the round's end) is
    missing.

    Parameters
    ----------
    clients, on, off : (M,) array-like
        Client, begin and end of each interval, in seconds from the start of the run; what lies before 0 is over.
    n_clients : int
        Number of clients N.
    round_seconds : float
        Length of a round where there is no clock.
    period : float, optional
        The intervals repeat after so many seconds, 86400 for a day; by default no client is there after the last.

    Raises
    ------
    DataError
        When a client is not below ``n_clients``, an interval is empty or not finite, those of a client overlap, or one
        lies outside the period.
    ConfigError
        When one of the other arguments is not positive.
    """

    def __init__(
        self,
        clients: ArrayLike,
        on: ArrayLike,
        off: ArrayLike,
        n_clients: int,
        *,
        round_seconds: float = 60.0,
        period: float | None = None,
    ) -> None:
        who = np.asarray(clients, dtype=np.int64)
        begin, end = np.asarray(on, dtype=np.float64), np.asarray(off, dtype=np.float64)
        self.n_clients = check_count("n_clients", n_clients)
        self.round_seconds = check_number("round_seconds", round_seconds, open_low=True)
        self.period = period if period is None else check_number("period", period, open_low=True)
        if not who.shape == begin.shape == end.shape or who.ndim != 1:
            raise DataError(
                f"intervals need a client, a begin and an end each; got {who.size}, {begin.size}, {end.size}"
            )
        if who.size and not 0 <= who.min() <= who.max() < n_clients:
            raise DataError(f"intervals name clients {who.min()} to {who.max()}; there are {n_clients}")
        if (wrong := np.flatnonzero(~(np.isfinite(begin) & np.isfinite(end) & (begin < end)))).size:
            k = wrong[0]
            raise DataError(
                f"client {who[k]} has an interval from {begin[k]:g} to {end[k]:g} s; it must end after it begins"
            )
        order = np.lexsort((begin, who))
        who, begin, end = who[order], begin[order], end[order]
        if (late := np.flatnonzero((who[1:] == who[:-1]) & (begin[1:] < end[:-1]))).size:
            k = late[0]
            raise DataError(
                f"client {who[k]} has intervals that overlap: {begin[k]:g} to {end[k]:g} s and "
                f"{begin[k + 1]:g} to {end[k + 1]:g} s"
            )
        if self.period is not None and who.size and (begin.min() < 0 or end.max() > self.period):
            raise DataError(f"intervals from {begin.min():g} to {end.max():g} s do not lie in a period of {period:g} s")
        # Intervals that touch are one.
        starts = np.append(True, (who[1:] != who[:-1]) | (begin[1:] != end[:-1]))[: who.size]
        first = np.flatnonzero(starts)
        self.clients, self.on = who[first], begin[first]
        self.off = end[np.append(first[1:], who.size)[: first.size] - 1]
        self._first = np.searchsorted(self.clients, np.arange(n_clients + 1))
        #: How long each client stays from the start of a period.
        self._head = np.zeros(n_clients)
        at_start = self.on == 0.0
        self._head[self.clients[at_start]] = self.off[at_start]

    def available_at(self, seconds: float) -> NDArray[np.bool_]:
        """Mask of the clients that are there, shape (N,)."""
        place, moment, _ = self._places(seconds)
        return self._covers(place, moment)

    def leaves(self, seconds: float) -> NDArray[np.float64]:
        """When each client leaves that is there at this moment, shape (N,); infinite where it stays, or is away."""
        place, moment, base = self._places(seconds)
        found = np.full(self.n_clients, math.inf)
        there = np.flatnonzero(self._covers(place, moment))
        end = self.off[place[there]]
        found[there] = base + end
        if self.period is not None:  # where one period ends as the next begins, the client stays
            across = there[end == self.period]
            found[across] = np.where(self._head[across] == self.period, math.inf, found[across] + self._head[across])
        return found

    def _covers(self, place: NDArray[np.int64], moment: float) -> NDArray[np.bool_]:
        there = place >= self._first[:-1]
        there[there] = self.off[place[there]] > moment
        return there

    def available(self, round: int) -> NDArray[np.bool_]:
        """Mask of the clients that are there at the start of ``round``, where rounds last ``round_seconds``."""
        return self.available_at(round * self.round_seconds)

    def rates(self, round: int) -> NDArray[np.float64]:
        """Share of the time (of the period, or until the last interval ends) in which each client is there, (N,)."""
        length = self.period or float(self.off.max(initial=0.0)) or 1.0
        inside = np.maximum(self.off, 0.0) - np.maximum(self.on, 0.0)
        return np.bincount(self.clients, inside, minlength=self.n_clients) / length

    def _places(self, seconds: float) -> tuple[NDArray[np.int64], float, float]:
        """Find each client's last interval that has begun, by bisection for all at once; one before its first if none.

        Returns the moment in the period, and where that began, too.
        """
        base = 0.0 if self.period is None else math.floor(seconds / self.period) * self.period
        moment = seconds - base
        low, high = self._first[:-1] - 1, self._first[1:] - 1
        while (open_ := low < high).any():
            middle = (low + high + 1) // 2
            begun = open_ & (self.on[np.minimum(middle, self.on.size - 1)] <= moment)
            low = np.where(begun, middle, low)
            high = np.where(open_ & ~begun, middle - 1, high)
        return low, moment, base


def merged(clients: ArrayLike, on: ArrayLike, off: ArrayLike) -> Recorded:
    """Merge intervals that overlap or touch, each (M,); returns those that are left, by client and begin."""
    who, begin, end = (np.asarray(each) for each in (clients, on, off))
    order = np.lexsort((begin, who))
    who, begin, end = who[order].astype(np.int64), begin[order].astype(np.float64), end[order].astype(np.float64)
    if not who.size:
        return who, begin, end
    starts = np.ones(who.size, dtype=bool)
    reached, owner = end[0], who[0]
    for k in range(1, who.size):
        starts[k] = who[k] != owner or begin[k] > reached
        reached = end[k] if starts[k] else max(reached, end[k])
        owner = who[k]
    first = np.flatnonzero(starts)
    return who[first], begin[first], np.maximum.reduceat(end, first)


@AVAILABILITY.register("phones")
def phones(
    federation: Federation,
    seed: int = 0,
    *,
    night_share: float = 0.7,
    night_begin: float = 22.5,
    night_hours: float = 7.5,
    day_sessions: float = 2.5,
    day_hours: float = 1.0,
    zones: float = 0.0,
    round_seconds: float = 60.0,
) -> Intervals:
    """Give clients phones that charge on Wi-Fi: most at night, for an hour now and then by day; a week, repeated.

    A device takes part while it is idle, charging and on an unmetered network; the number of those that do differs
    fourfold between day and night (Bonawitz et al., MLSys 2019, of phones of one country). The rates here are set by
    hand to about that factor. The run starts at midnight.

    Parameters
    ----------
    night_share : float
        Probability that a phone charges on Wi-Fi in a night.
    night_begin, night_hours : float
        Mean hour at which it is plugged in, and for how long (0.5 to 12 hours); standard deviations of 1.5 and 1 hours.
    day_sessions, day_hours : float
        Mean number of further sessions that begin between 7:00 and 22:00 (Poisson, at most 1000), and their mean length
        (exponential).
    zones : float
        Clients' local times differ by up to so many hours (0 to 24), drawn uniformly.
    round_seconds : float
        Length of a round where there is no clock.
    """
    check_number("night_share", night_share, 0, 1)
    check_number("zones", zones, 0, 24)
    for name, value in (("night_begin", night_begin), ("night_hours", night_hours), ("day_hours", day_hours)):
        check_number(name, value, 0, 24, open_low=True)
    check_number("day_sessions", day_sessions, 0, 1000)
    n, days = len(federation), 7
    rng = generator(seed, "availability")
    shift = rng.random(n) * zones
    begin = night_begin + 1.5 * rng.standard_normal((n, days))
    length = np.clip(night_hours + rng.standard_normal((n, days)), 0.5, 12.0)
    plugged = rng.random((n, days)) < night_share
    sessions = rng.poisson(day_sessions, (n, days))
    who, day = np.nonzero(plugged)
    k = np.repeat(np.arange(n * days), sessions.ravel())
    on = 24.0 * day + begin[plugged] - shift[who]
    by_day = 24.0 * (k % days) + 7.0 + 15.0 * rng.random(k.size) - shift[k // days]
    on, off = np.append(on, by_day), np.append(on + length[plugged], by_day + rng.exponential(day_hours, k.size))
    clients = np.append(who, k // days)
    week = days * _DAY
    on, off = np.rint(on * _HOUR), np.rint(off * _HOUR) + 1.0  # whole seconds, at least one
    # What reaches over the end of the week goes on at its beginning.
    wraps = np.floor(on / week) * week
    on, off = on - wraps, off - wraps
    over = off > week
    clients = np.concatenate([clients, clients[over]])
    on, off = np.concatenate([on, np.zeros(int(over.sum()))]), np.concatenate([np.minimum(off, week), off[over] - week])
    return Intervals(*merged(clients, on, off), n, round_seconds=round_seconds, period=week)


#: Which clients of a file a federation gets, where these are more.
Pick = Literal["exact", "first", "random"]


def picked(intervals: Recorded, n_clients: int, pick: Pick, seed: int) -> Recorded:
    """Keep the intervals of as many clients as a federation has, numbered anew."""
    check_choice("pick", pick, "exact", "first", "random")
    who, on, off = intervals
    found = int(who.max(initial=-1)) + 1
    if found < n_clients or (pick == "exact" and found != n_clients):
        more = '; pick = "first" or "random" takes some of them'
        if found < n_clients:
            last = f"a row of client {n_clients - 1}, after the run if it is never there"
            more = f"; clients count from 0: give data.n_clients = {found}, or {last}"
        known = f"{found} client{'s' if found != 1 else ''}"
        raise ConfigError(f"the file has {known}, the federation {n_clients}{more}")
    kept = np.arange(n_clients)
    if pick == "random":
        kept = generator(seed, "profile", 2).choice(found, n_clients, replace=False)
    number = np.full(found, -1)
    number[kept] = np.arange(n_clients)
    chosen = number[who] >= 0
    return number[who[chosen]], on[chosen], off[chosen]
