"""Clock of a run: durations of downloads, training and uploads, and the end of a round by its policy."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.clock.devices import CLOCKS, Devices
from fedselect.errors import ConfigError
from fedselect.options import check_choice, check_count, check_number
from fedselect.randomness import generator
from solvers.options import describe_type, did_you_mean, matches

#: Durations are whole multiples of 2^-20 s (a microsecond): their sums are exact in any order up to 2^32 s, so that
#: what ends in time by `solvers.deadline` ends in time here, and no order of summation changes a bit.
_TICKS = 2.0**20
_LONGEST = 2.0**32

#: Rounds that are drawn together, and durations that this may hold: between two rounds of training a generator is made
#: in three times what it takes right after another one (30 us for 10, of rounds of 5 ms). Larger exponents overflow.
_ROUNDS_AHEAD, _HELD = 16, 100_000
_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True)
class ClockSettings:
    """How a server ends its rounds, and what is sent.

    Attributes
    ----------
    policy : {"all", "deadline", "over-selection"}
        ``"all"`` waits for every selected client; one that drops out is noticed when its update was due, one that
        leaves then. ``"deadline"`` waits until ``deadline`` where not all have arrived before. ``"over-selection"``
        asks ``ask`` times as many clients as a round chooses, and ends with as many updates as it chooses. A client
        that is late is missing.
    deadline : float, optional
        Seconds from the start of a round after which it ends; needed by ``"deadline"``, allowed for
        ``"over-selection"``.
    ask : float
        Clients asked per update wanted under ``"over-selection"``, at least 1.
    links : {"parallel", "shared-uplink"}
        Whether clients upload side by side, or one after the other over one uplink, the earliest ready first (FedCS).
    jitter, link_jitter : float
        Standard deviations of the logarithm of each client's seconds per sample, and of its rates, between rounds.
    model_bytes : int, optional
        Size of the model that is sent to clients; the real one's if left out, which a simulation does not have.
    compression : float
        Size of an update that is sent back, as a share of the model's.
    idle_seconds : float
        Length of a round in which no client is selected.
    server_seconds : float
        Seconds of every round that pass at the server, for the decision and the aggregation.
    """

    policy: Literal["all", "deadline", "over-selection"] = "all"
    deadline: float | None = None
    ask: float = 1.3
    links: Literal["parallel", "shared-uplink"] = "parallel"
    jitter: float = 0.0
    link_jitter: float = 0.0
    model_bytes: int | None = None
    compression: float = 1.0
    idle_seconds: float = 60.0
    server_seconds: float = 0.0

    def __post_init__(self) -> None:
        check_choice("clock: policy", self.policy, "all", "deadline", "over-selection")
        check_choice("clock: links", self.links, "parallel", "shared-uplink")
        if self.deadline is not None:
            check_number("clock: deadline", self.deadline, open_low=True)
            if self.policy == "all":
                raise ConfigError("clock: policy 'all' waits for everybody; with a deadline the policy is 'deadline'")
        elif self.policy == "deadline":
            raise ConfigError("clock: policy 'deadline' needs a deadline, in seconds from the start of a round")
        check_number("clock: ask", self.ask, 1.0)
        for name in ("jitter", "link_jitter", "server_seconds"):
            check_number(f"clock: {name}", getattr(self, name))
        for name in ("compression", "idle_seconds"):
            check_number(f"clock: {name}", getattr(self, name), open_low=True)
        for name in ("deadline", "idle_seconds", "server_seconds"):
            if (getattr(self, name) or 0.0) > _LONGEST:
                raise ConfigError(
                    f"clock: {name} of {getattr(self, name):g} s is too long; accepted is at most {_LONGEST:.3g} s"
                )
        if self.model_bytes is not None:
            check_count("clock: model_bytes", self.model_bytes)


@dataclass(frozen=True, eq=False)
class RoundTimes:
    """Times of one round, in seconds from its start but for ``start``; clients in the order of the selection.

    Attributes
    ----------
    start : float
        Start of the round, from the start of the run.
    seconds : float
        Length of the round.
    download, compute, upload : (m,) ndarray of float
        Duration of each selected client's three parts, as long as they would take.
    begins, ends : (m,) ndarray of float
        Begin and end of its upload; infinite where it does not begin, or does not end.
    stops : (m,) ndarray of float
        When a client leaves or drops out before its upload has ended; infinite where it does not.
    arrived : (m,) ndarray of bool
        Whose update arrived before the round ended.
    model_bytes, update_bytes : float
        Bytes of a whole download, and of a whole upload.
    """

    start: float
    seconds: float
    download: NDArray[np.float64]
    compute: NDArray[np.float64]
    upload: NDArray[np.float64]
    begins: NDArray[np.float64]
    ends: NDArray[np.float64]
    stops: NDArray[np.float64]
    arrived: NDArray[np.bool_]
    model_bytes: float
    update_bytes: float

    @property
    def end(self) -> float:
        """End of the round, from the start of the run."""
        return self.start + self.seconds

    @property
    def late(self) -> NDArray[np.bool_]:
        """Stragglers, shape (m,): clients that would have sent an update, and were not waited for."""
        return ~self.arrived & np.isinf(self.stops)

    @property
    def busy(self) -> NDArray[np.float64]:
        """Seconds that each client spent on download, training and upload before the round ended, shape (m,)."""
        if self.arrived.all():  # the same bits: durations are whole ticks
            return self.download + self.compute + self.upload
        return np.minimum(self.download + self.compute, self._until) + self._uploading

    @property
    def sent(self) -> NDArray[np.float64]:
        """Bytes that were sent to and by each client before the round ended, shape (m,)."""
        if self.arrived.all():
            return np.full(self.download.size, self.model_bytes + self.update_bytes)
        down = _share(np.minimum(self._until, self.download), self.download)
        return self.model_bytes * down + self.update_bytes * _share(self._uploading, self.upload)

    @cached_property
    def _until(self) -> NDArray[np.float64]:
        return np.minimum(self.stops, self.seconds)

    @cached_property
    def _uploading(self) -> NDArray[np.float64]:
        begun = np.minimum(self.begins, self._until)
        return np.minimum(self._until - begun, self.upload)


def _share(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return part / whole; 1 where the whole takes no time."""
    return np.divide(part, whole, out=np.ones_like(whole), where=whole > 0)


@dataclass(frozen=True, eq=False)
class Clock:
    """Durations and ends of rounds on N devices, as a pure function of seed, round and selection.

    Parameters
    ----------
    devices : Devices
        Speed and links of the clients.
    samples : (N,) array-like
        Samples that each client passes through its model in a round: its own times the epochs.
    settings : ClockSettings
        Round policy, links, sizes.
    seed : int
        Seed of the run.
    enough : int, optional
        Updates with which a round ends, where the policy is over-selection: the clients that a round chooses.

    Raises
    ------
    ConfigError
        When ``samples`` are not one number of at least 0 for each client, ``enough`` does not fit the policy, or a
        duration is too long.
    """

    devices: Devices
    samples: NDArray[np.float64]
    settings: ClockSettings = dataclasses.field(default_factory=ClockSettings)
    seed: int = 0
    enough: int | None = None

    def __post_init__(self) -> None:
        try:
            samples = np.array(self.samples, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            samples = np.array(np.nan)
        if samples.shape != (len(self.devices),) or not (np.isfinite(samples) & (samples >= 0)).all():
            raise ConfigError(f"clock: samples must be one number for each of {len(self.devices)} clients")
        if (self.settings.policy == "over-selection") != (self.enough is not None):
            raise ConfigError(
                "clock: enough is the number of updates wanted under policy 'over-selection', and there alone"
            )
        object.__setattr__(self, "samples", samples)
        if self.settings.model_bytes is not None:
            _ = self.expected  # durations that are too long are said now

    def __repr__(self) -> str:
        return f"<clock: {len(self.devices)} devices, policy {self.settings.policy!r}, {self.settings.links}>"

    def sized(self, model_bytes: int) -> Clock:
        """Return the clock of a model of this size; itself where the settings state a size."""
        if self.settings.model_bytes is not None:
            return self
        return dataclasses.replace(self, settings=dataclasses.replace(self.settings, model_bytes=model_bytes))

    @property
    def model_bytes(self) -> int:
        """Bytes of the model; raises `ConfigError` where nothing says how large it is."""
        if self.settings.model_bytes is None:
            raise ConfigError("a simulation has no model whose size is known: give the clock model_bytes")
        return self.settings.model_bytes

    @cached_property
    def download(self) -> NDArray[np.float64]:
        """Expected seconds of each client's download, shape (N,), as every round has them without link_jitter."""
        return _whole("download", 8.0 * self.model_bytes / (1000.0 * self.devices.down_kbps))

    @cached_property
    def compute(self) -> NDArray[np.float64]:
        """Expected seconds of each client's training, shape (N,)."""
        return _whole("training", self.samples * self.devices.seconds_per_sample)

    @cached_property
    def upload(self) -> NDArray[np.float64]:
        """Expected seconds of each client's upload, shape (N,)."""
        size = 8.0 * self.model_bytes * self.settings.compression
        return _whole("upload", size / (1000.0 * self.devices.up_kbps))

    @property
    def expected(self) -> NDArray[np.float64]:
        """Expected seconds from the start of a round to the end of the upload, where no uplink is shared, (N,)."""
        return self.download + self.compute + self.upload

    def parts(self, round: int, clients: NDArray[np.int64]) -> tuple[NDArray[np.float64], ...]:
        """Seconds of download, training and upload of these clients in a round, three of shape (m,).

        Client k takes the k-th draw of the generators of (seed, ``"computation"`` or ``"links"``, round).
        """
        if not self.settings.jitter and not self.settings.link_jitter:
            return tuple(self._expected.take(clients, axis=1))
        if (ahead := _HELD // len(self.devices)) < 2:
            durations = self._jittered(range(round, round + 1), clients)[0]
        else:
            if (known := self._ahead.get(round)) is None:
                rounds = range(round, round + min(ahead, _ROUNDS_AHEAD))
                self._ahead.clear()
                self._ahead.update(zip(rounds, self._jittered(rounds, slice(None)), strict=True))
                known = self._ahead[round]
            durations = known.take(clients, axis=1)
        if not durations.max(initial=0.0) <= _LONGEST:
            for what, seconds in zip(("download", "training", "upload"), durations, strict=True):
                _whole(what, seconds)
        return tuple(durations)

    @cached_property
    def _expected(self) -> NDArray[np.float64]:
        return np.stack([self.download, self.compute, self.upload])

    @cached_property
    def _ahead(self) -> dict[int, NDArray[np.float64]]:
        """Durations of all clients, (3, N), in the rounds that were drawn together."""
        return {}

    def _jittered(self, rounds: range, clients: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        """Draw the durations of clients in some rounds, (rounds, 3, m)."""
        n, settings, expected = len(self.devices), self.settings, self._expected[:, clients]
        exponents = np.zeros((len(rounds), *expected.shape))
        for place, round in enumerate(rounds):
            if settings.jitter:
                draws = generator(self.seed, "computation", round).standard_normal(n)
                exponents[place, 1] = settings.jitter * draws[clients]
            if settings.link_jitter:
                draws = generator(self.seed, "links", round).standard_normal(n)
                exponents[place, ::2] = settings.link_jitter * draws[clients]
        return np.rint(expected * np.exp(np.minimum(exponents, _LARGEST_EXPONENT)) * _TICKS) / _TICKS

    def play(
        self,
        round: int,
        clients: NDArray[np.int64],
        returned: NDArray[np.bool_] | None = None,
        *,
        start: float = 0.0,
        leaves: NDArray[np.float64] | None = None,
        enough: int | None = None,
    ) -> RoundTimes:
        """Compute the times of a round in which these clients were selected.

        Parameters
        ----------
        round : int
            Round index, from 0.
        clients : (m,) ndarray of int
            Selected clients, sorted.
        returned : (m,) ndarray of bool, optional
            Which of them return at all; the others drop out before they upload. All by default.
        start : float
            Start of the round, in seconds from the start of the run.
        leaves : (m,) ndarray of float, optional
            When each client leaves, on the same scale; infinite where it stays.
        enough : int, optional
            Updates with which the round ends, where the selection says so.

        Returns
        -------
        RoundTimes
        """
        settings = self.settings
        down, work, up = self.parts(round, clients)
        ready = down + work
        back = np.ones(clients.size, dtype=bool) if returned is None else returned
        stops = gone = np.full(clients.size, math.inf)
        size, is_shared, all_stay = self.model_bytes, settings.links == "shared-uplink", leaves is None and back.all()
        # Most rounds: everybody is waited for, which is all of what follows where nobody leaves.
        if all_stay and not is_shared and settings.deadline is None and self.enough is enough is None and clients.size:
            ends = ready + up
            return RoundTimes(
                start, float(ends.max()) + settings.server_seconds, down, work, up, ready, ends, stops, back,
                float(size), size * settings.compression,
            )  # fmt: skip
        if not all_stay:
            gone = gone if leaves is None else np.maximum(leaves - start, 0.0)
            stops = np.where(back, gone, np.minimum(gone, ready))
        if is_shared:
            begins, ends = _shared(ready, up, stops)
        else:
            begins, ends = _parallel(ready, up, stops)
        if not all_stay:  # a client that leaves counts as leaving only where it does before its upload has ended
            stops = np.where(np.isfinite(ends), math.inf, stops)
        limit = math.inf if settings.deadline is None else settings.deadline
        arrived = np.isfinite(ends) & (ends <= limit)
        wanted = min((each for each in (enough, self.enough) if each is not None), default=math.inf)
        if arrived.sum() >= wanted:
            first = np.lexsort((clients, ends))[: int(wanted)]
            arrived = np.zeros(clients.size, dtype=bool)
            arrived[first] = True
            length = float(ends[first].max(initial=0.0))
        elif arrived.all():
            length = float(ends.max(initial=0.0))
        elif math.isfinite(limit):
            length = limit
        else:  # a loss is noticed when the update was due, or when the client leaves
            noticed = np.where(back, gone, np.minimum(gone, ready + up))
            length = float(np.where(np.isfinite(ends), ends, noticed).max())
        if not clients.size:
            length = settings.idle_seconds
        return RoundTimes(
            start, length + settings.server_seconds, down, work, up, begins, ends, stops, arrived,
            float(size), size * settings.compression,
        )  # fmt: skip


def _whole(what: str, seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round durations to ticks; raise `ConfigError` where one is longer than a clock can add exactly."""
    if not seconds.max(initial=0.0) <= _LONGEST:
        worst = int(np.argmax(np.where(np.isfinite(seconds), seconds, math.inf)))
        raise ConfigError(
            f"clock: a {what} of {seconds[worst]:.3g} s is too long; accepted is at most {_LONGEST:.3g} s"
        )
    return np.rint(seconds * _TICKS) / _TICKS


#: When uploads begin, and when they end.
_Uploads = tuple[NDArray[np.float64], NDArray[np.float64]]


def _parallel(ready: NDArray[np.float64], upload: NDArray[np.float64], stops: NDArray[np.float64]) -> _Uploads:
    """Upload side by side; a client that stops before the end sends nothing of use."""
    ends = ready + upload
    return np.where(ready < stops, ready, math.inf), np.where(ends <= stops, ends, math.inf)


def _shared(ready: NDArray[np.float64], upload: NDArray[np.float64], stops: NDArray[np.float64]) -> _Uploads:
    """Upload one after the other, the earliest ready first; who stops in the middle frees the uplink then."""
    begins, ends = np.full(ready.size, math.inf), np.full(ready.size, math.inf)
    free = 0.0
    order = np.argsort(ready, kind="stable")
    columns = (order, ready[order], upload[order], stops[order])
    for place, at, length, stop in zip(*(each.tolist() for each in columns), strict=True):
        begin = max(free, at)
        if begin >= stop:
            continue
        begins[place], free = begin, min(begin + length, stop)
        if begin + length <= stop:
            ends[place] = free
    return begins, ends


# -- by name -------------------------------------------------------------------------------------------------------


def _split(name: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tell the settings of a clock from the options of its devices; raise `ConfigError` for an unknown key."""
    settings = [field.name for field in dataclasses.fields(ClockSettings)]
    known = [*CLOCKS.options(name), *settings]
    if unknown := [key for key in options if key not in known]:
        hint = did_you_mean(unknown[0], known)
        raise ConfigError(f"clock {name!r} has no key {unknown[0]!r}{hint} (accepted: {', '.join(known)})")
    hints = get_type_hints(ClockSettings)
    for key in settings:
        if key in options and not matches(options[key], hints[key]):
            raise ConfigError(f"clock: {key} must be {describe_type(hints[key])}; got {options[key]!r}")
    given = {key: value for key, value in options.items() if key in settings}
    return given, {key: value for key, value in options.items() if key not in settings}


def asked(size: int, over: float) -> int:
    """Return how many clients to ask for ``size`` updates, ⌈over · size⌉; 1.1 · 10 is 11 in spite of rounding."""
    return math.ceil(round(over * size, 9))


def check_clock(name: str, options: Mapping[str, Any]) -> ClockSettings:
    """Return the settings among the options of a clock; raise `ConfigError` where one is unknown or not accepted."""
    settings, devices = _split(name, options)
    CLOCKS.check(name, devices)
    return ClockSettings(**settings)


def build_clock(
    name: str, samples: ArrayLike, size: int, seed: int = 0, options: Mapping[str, Any] | None = None
) -> tuple[Clock, int]:
    """Build a clock by name, and count the clients that a selector is to ask.

    Parameters
    ----------
    name : str
        Devices in `CLOCKS`.
    samples : (N,) array-like
        Samples that each client trains on in a round.
    size : int
        Updates that a round wants, m.
    seed : int
        Seed of the run.
    options : mapping, optional
        Options of the devices, and of `ClockSettings`.

    Returns
    -------
    clock : Clock
    ask : int
        ``size``; under over-selection more, but no more than there are clients.

    Raises
    ------
    ConfigError, DataError
        When a key is unknown, a value is not accepted, or a table of devices cannot be used.
    """
    settings, size = check_clock(name, options or {}), check_count("clock: size", size)
    work = np.asarray(samples)
    devices = CLOCKS.build(name, work.size, seed, **_split(name, options or {})[1])
    if not isinstance(devices, Devices) or len(devices) != work.size:
        raise ConfigError(f"clock {name!r} must give a Devices of {work.size} clients; got {devices!r:.80}")
    over = settings.policy == "over-selection"
    ask = min(work.size, asked(size, settings.ask)) if over else size
    return Clock(devices, work, settings, seed, enough=size if over else None), ask
