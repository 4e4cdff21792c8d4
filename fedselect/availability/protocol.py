"""The protocol of an availability, the registry of all of them, and checks of their options."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedselect.errors import ConfigError
from fedselect.options import Registry

__all__ = ["AVAILABILITY", "Availability", "check_choice", "check_rates", "check_share"]

#: Builders ``(federation, seed, *, options) -> Availability`` by name.
AVAILABILITY: Registry = Registry("availability")


class Availability(Protocol):
    """Availability of clients, as a pure function of the seed, the round and the client."""

    def available(self, round: int) -> NDArray[np.bool_]:
        """Mask of the clients that are available in ``round``, shape (N,); none is an ordinary answer."""
        ...

    def rates(self, round: int) -> NDArray[np.float64]:
        """True probability of each client to be available in ``round``, shape (N,).

        Of that round alone, knowing nothing about the others, given what the seed fixed for the whole run (a client's
        log-normal rate, say). Only oracles may look at it.
        """
        ...


def check_rates(rates: NDArray[np.float64], what: str = "availability rates") -> NDArray[np.float64]:
    """Return probabilities as float64, or raise `ConfigError` naming the first client with one outside [0, 1]."""
    rates = np.asarray(rates, dtype=np.float64)
    if rates.ndim != 1:
        raise ConfigError(f"{what} must be one number per client; got shape {rates.shape}")
    good = (rates >= 0) & (rates <= 1)
    if not good.all():
        bad = int(np.flatnonzero(~good)[0])
        raise ConfigError(f"{what} must lie in [0, 1]; client {bad} has {rates[bad]}")
    return rates


def check_share(name: str, value: float, *, below_one: bool = False) -> float:
    """Return ``value`` when it lies in [0, 1] (in [0, 1) on request), else raise `ConfigError`."""
    if not (0 <= value < 1 if below_one else 0 <= value <= 1):
        raise ConfigError(f"{name} must lie in [0, 1{')' if below_one else ']'}; got {value}")
    return float(value)


def check_choice(name: str, value: str, *accepted: str) -> str:
    """Return ``value`` when it is one of those accepted, else raise `ConfigError`."""
    if value not in accepted:
        raise ConfigError(f"{name} must be {' or '.join(map(repr, accepted))}; got {value!r}")
    return value
