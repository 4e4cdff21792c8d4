"""Devices of the clients: seconds per sample and rates of the links; their registry, models and files."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.errors import ConfigError, DataError
from fedselect.options import Registry, check_number
from fedselect.pickles import is_pickle, keyed_by_text, read_pickle
from fedselect.randomness import generator
from fedselect.tables import read_table
from solvers.reading import Unreadable, parse_json, read_bytes

if TYPE_CHECKING:
    import pandas as pd

#: Builders ``(n_clients, seed, *, options) -> Devices`` by name.
CLOCKS: Registry = Registry("clock")

#: A device by default, chosen by hand as a phone of the middle: 5 ms per sample, 20 Mbit/s down, 5 Mbit/s up.
_SECONDS_PER_SAMPLE, _DOWN, _UP = 0.005, 20_000.0, 5_000.0


@dataclass(frozen=True, eq=False)
class Devices:
    """Devices of N clients.

    Attributes
    ----------
    seconds_per_sample : (N,) ndarray of float
        Seconds in which a client trains on one sample once.
    down_kbps, up_kbps : (N,) ndarray of float
        Rates of its links from and to the server, in 1000 bits per second.

    Raises
    ------
    ConfigError
        When a number is not positive and finite, or their numbers differ.
    """

    seconds_per_sample: NDArray[np.float64]
    down_kbps: NDArray[np.float64]
    up_kbps: NDArray[np.float64]

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            try:
                values = np.array(getattr(self, name), dtype=np.float64)
            except (TypeError, ValueError, OverflowError) as error:
                raise ConfigError(f"devices: {name} must be one number for each client: {error}") from None
            if values.ndim != 1 or values.size == 0 or values.size != len(self.seconds_per_sample):
                raise ConfigError(f"devices: {name} must be one number for each client; got shape {values.shape}")
            wrong = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
            if wrong.size:
                raise ConfigError(f"devices: {name} must be positive; client {wrong[0]} has {values[wrong[0]]:g}")
            values.setflags(write=False)
            object.__setattr__(self, name, values)

    def __len__(self) -> int:
        return self.seconds_per_sample.size


@CLOCKS.register("constant")
def constant(
    n_clients: int,
    seed: int = 0,
    *,
    seconds_per_sample: float = _SECONDS_PER_SAMPLE,
    down_kbps: float = _DOWN,
    up_kbps: float = _UP,
) -> Devices:
    """Give all clients the same device."""
    values = (
        check_number("clock: seconds_per_sample", seconds_per_sample, open_low=True),
        check_number("clock: down_kbps", down_kbps, open_low=True),
        check_number("clock: up_kbps", up_kbps, open_low=True),
    )
    return Devices(*(np.full(n_clients, value) for value in values))


@CLOCKS.register("lognormal")
def lognormal(
    n_clients: int,
    seed: int = 0,
    *,
    seconds_per_sample: float = _SECONDS_PER_SAMPLE,
    down_kbps: float = _DOWN,
    up_kbps: float = _UP,
    spread: float = 0.7,
    link_spread: float = 1.0,
    correlation: float = 0.0,
) -> Devices:
    r"""Draw speeds and links from log-normal distributions with the given medians.

    Seconds per sample and links of client k are the medians times :math:`e^{-\sigma z_k}` and :math:`e^{\sigma' z'_k}`;
    both links of a client share :math:`z'`. A ``link_spread`` of 1 has a factor of :math:`e^{4.65} \approx 100` between
    the 1st and the 99th percentile.

    Parameters
    ----------
    spread, link_spread : float
        Standard deviations σ and σ' of the logarithms, ≥ 0.
    correlation : float
        Correlation of z and z' in [-1, 1]: at 1 the fastest device has the fastest link.
    """
    check_number("clock: correlation", correlation, -1, 1)
    sigmas = check_number("clock: spread", spread), check_number("clock: link_spread", link_spread)
    same = constant(n_clients, seed, seconds_per_sample=seconds_per_sample, down_kbps=down_kbps, up_kbps=up_kbps)
    speed, other = generator(seed, "devices").standard_normal((2, n_clients))
    link = correlation * speed + np.sqrt(1.0 - correlation**2) * other
    with np.errstate(over="ignore", under="ignore"):
        slower, faster = np.exp(-sigmas[0] * speed), np.exp(sigmas[1] * link)
        return Devices(same.seconds_per_sample * slower, same.down_kbps * faster, same.up_kbps * faster)


@CLOCKS.register("tiers")
def tiers(
    n_clients: int,
    seed: int = 0,
    *,
    seconds_per_sample: list[float] | None = None,
    down_kbps: list[float] | None = None,
    up_kbps: list[float] | None = None,
    shares: list[float] | None = None,
    shuffle: bool = True,
) -> Devices:
    """Deal clients into classes of devices, fast to slow; three by default, chosen by hand for phones of three prices.

    Parameters
    ----------
    seconds_per_sample, down_kbps, up_kbps : list of float, optional
        Of each class; three by default: 2, 5, 20 ms per sample, 60/20/5 Mbit/s down and 15/5/1 Mbit/s up.
    shares : list of float, optional
        Share of the clients in each class, positive; equal shares by default.
    shuffle : bool
        False makes the first clients the first class, and so on; true deals the classes out at random.
    """
    columns: dict[str, list[float]] = {
        "seconds_per_sample": seconds_per_sample or [0.002, 0.005, 0.02],
        "down_kbps": down_kbps or [60_000.0, 20_000.0, 5_000.0],
        "up_kbps": up_kbps or [15_000.0, 5_000.0, 1_000.0],
    }
    classes = len(columns["seconds_per_sample"])
    weights = np.ones(classes) if shares is None else np.asarray(shares, dtype=np.float64)
    for name, values in [*columns.items(), ("shares", weights.tolist())]:
        if len(values) != classes:
            raise ConfigError(
                f"clock: {name} needs one number for each of the {classes} classes that seconds_per_sample names; "
                f"got {len(values)}"
            )
    if not (np.isfinite(weights) & (weights > 0)).all():
        raise ConfigError(f"clock: shares must be positive numbers; got {shares}")
    if classes > n_clients:
        raise ConfigError(f"clock: {n_clients} clients cannot be of {classes} classes")
    edges = np.round(np.cumsum(weights) / weights.sum() * n_clients).astype(np.int64)
    own = np.searchsorted(edges, np.arange(n_clients), side="right")
    if shuffle:
        own = generator(seed, "devices").permutation(own)
    return Devices(*(np.asarray(values, dtype=np.float64)[own] for values in columns.values()))


@CLOCKS.register("flash")
def flash(n_clients: int, seed: int = 0, *, seconds_per_sample: float = _SECONDS_PER_SAMPLE) -> Devices:
    """Give each client the links of one of 19 phones that FLASH measured, at random; all have the same speed.

    Their mean rates are read as 1000 bits per second; FLASH's file names no unit. How a transfer differs from the mean
    is left to the clock's jitter. (Source: Yang et al., Characterizing Impacts of Heterogeneity in Federated Learning
    upon Large-Scale Smartphone Data, WWW 2021; its repository, ``models/speed_distri.json``.)

    Parameters
    ----------
    seconds_per_sample : float
        Seconds in which a client trains on one sample once.
    """
    check_number("clock: seconds_per_sample", seconds_per_sample, open_low=True)
    phones = list(json.loads(Path(__file__).with_name("flash_links.json").read_text(encoding="utf-8")).values())
    own = generator(seed, "devices").integers(len(phones), size=n_clients)
    down, up = (np.array([phone[name] for phone in phones])[own] for name in ("down_u", "up_u"))
    return Devices(np.full(n_clients, seconds_per_sample), down, up)


@CLOCKS.register("table")
def table(n_clients: int, seed: int = 0, *, path: str) -> Devices:
    """Read measured devices from a CSV or Parquet file (see `read_devices`)."""
    return read_devices(path, n_clients)


#: Columns of a table of devices, and those of FedScale's ``client_device_capacity`` with the factor to ours.
_COLUMNS = ("seconds_per_sample", "down_kbps", "up_kbps")
_FEDSCALE = {"computation": ("seconds_per_sample", 1e-3), "communication": ("down_kbps", 1.0)}


def read_devices(path: str | Path, n_clients: int | None = None) -> Devices:
    """Read a table of devices from a CSV or Parquet file, or what FedScale publishes.

    Parameters
    ----------
    path : path-like
        Ends in ``.csv``, ``.csv.gz`` or ``.parquet``. Columns ``client`` (0 to N - 1, each once),
        ``seconds_per_sample``, ``down_kbps`` and, where it differs from it, ``up_kbps``. FedScale's names are
        understood: ``computation`` in milliseconds per sample, ``communication`` in kbit/s for both directions.
        Or FedScale's ``client_device_capacity``, as it is published (a pickle of containers and numbers) or as
        ``.json``: an object of clients, which are numbered in their order.
    n_clients : int, optional
        Number of clients N that the table must be of.

    Raises
    ------
    DataError
        When the file is no such table, its ending is unknown, or clients are missing (the sentence names the first).
    MissingExtraError
        When it is Parquet and pyarrow is missing.
    """
    has_clients = str(path).lower().endswith(".json") or is_pickle(path)
    read = _capacities(path) if has_clients else read_table(path, "table of devices", numbers=True)
    for theirs, (ours, factor) in _FEDSCALE.items():
        if theirs in read.columns and ours not in read.columns:
            read = read.rename(columns={theirs: ours})
            if read[ours].dtype.kind in "iuf":
                read[ours] = read[ours] * factor
    if "up_kbps" not in read.columns and "down_kbps" in read.columns:
        read["up_kbps"] = read["down_kbps"]
    known = ("client", *_COLUMNS)
    if lacking := [name for name in known if name not in read.columns]:
        found = ", ".join(map(str, read.columns))
        raise DataError(f"{path}: a table of devices has columns {', '.join(known)}; {lacking[0]} is missing ({found})")
    if unknown := [str(name) for name in read.columns if name not in known]:
        raise DataError(f"{path}: a table of devices has columns {', '.join(known)}; found {unknown[0]!r} too")
    for name in known:
        if read[name].dtype.kind not in ("iu" if name == "client" else "iuf"):
            kind = "whole numbers from 0" if name == "client" else "numbers"
            raise DataError(f"{path}: column {name!r} of a table of devices holds {kind}")
    ids = read["client"].to_numpy(dtype=np.int64)
    if np.unique(ids).size != ids.size:
        raise DataError(f"{path}: client {int(np.sort(ids)[:-1][np.diff(np.sort(ids)) == 0][0])} is listed twice")
    n = ids.size if n_clients is None else n_clients
    missing = np.setdiff1d(np.arange(n), ids)
    if missing.size:
        more = f" and {missing.size - 1} more" if missing.size > 1 else ""
        raise DataError(f"{path}: {n} clients need a device each; client {missing[0]}{more} is not listed")
    if ids.size > n or (ids < 0).any():
        strange = ids[(ids < 0) | (ids >= n)][0]
        raise DataError(f"{path}: this table lists client {strange}; the federation has clients 0 to {n - 1}")
    order = np.argsort(ids)
    try:
        return Devices(*(_column(read[name].to_numpy(), order) for name in _COLUMNS))
    except ConfigError as error:
        raise DataError(f"{path}: {error}") from error


def device_ids(path: str | Path) -> list[str]:
    """Return the ids of the clients of a file that `read_devices` reads, in the order of their numbers."""
    if str(path).lower().endswith(".json") or is_pickle(path):
        return list(_published(path))
    return [str(client) for client in range(len(read_devices(path)))]


def _published(path: str | Path) -> dict[str, Any]:
    """Read FedScale's object of clients, in the order of their ids."""
    try:
        data = keyed_by_text(read_pickle(path)) if is_pickle(path) else parse_json(read_bytes(path))
    except (OSError, Unreadable) as error:
        raise DataError(f"cannot read {path}: {error}") from error
    if not isinstance(data, dict) or not data:
        raise DataError(f"{path}: devices are an object of clients, each with {' and '.join(_FEDSCALE)}")
    return {client: data[client] for client in sorted(data, key=lambda each: (not each.isdecimal(), len(each), each))}


def _capacities(path: str | Path) -> pd.DataFrame:
    """Read FedScale's object of clients with ``computation`` and ``communication``; their ids are numbered in order."""
    import pandas as pd

    rows = []
    for number, (client, facts) in enumerate(_published(path).items()):
        if not isinstance(facts, dict) or not all(isinstance(facts.get(name), int | float) for name in _FEDSCALE):
            raise DataError(f"{path}: client {client} needs numbers {' and '.join(_FEDSCALE)}; found {facts!r:.60}")
        rows.append({"client": number} | {name: float(facts[name]) for name in _FEDSCALE})
    return pd.DataFrame(rows)


def _column(values: ArrayLike, order: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(values, dtype=np.float64)[order]
