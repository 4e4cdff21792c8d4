"""Protocols of availability and dropout, the registries of their models, and a check of rates."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.errors import ConfigError
from fedselect.options import Registry

#: Builders ``(federation, seed, *, options) -> Availability`` by name.
AVAILABILITY: Registry = Registry("availability")

#: Builders ``(n_clients, seed, *, options) -> Dropout`` by name.
DROPOUT: Registry = Registry("dropout")


class Availability(Protocol):
    """Availability of clients, as a pure function of the seed, the round and the client."""

    def available(self, round: int) -> NDArray[np.bool_]:
        """Mask of the clients that are available in ``round``, shape (N,); none is an ordinary answer."""
        ...

    def rates(self, round: int) -> NDArray[np.float64]:
        """True probability of each client to be available in ``round``, shape (N,).

        Of that round alone, knowing nothing about the others, given what the seed fixed for the whole run (a client's
        log-normal rate, say). Of selectors only oracles may look at it.
        """
        ...


class Dropout(Protocol):
    """Returns of selected clients, as a pure function of the seed, the round and the client."""

    def returned(self, round: int) -> NDArray[np.bool_]:
        """Mask of the clients that would return in ``round`` if they were selected, shape (N,)."""
        ...

    def rates(self, round: int) -> NDArray[np.float64]:
        """True probability of each client to return in ``round`` if it is selected, shape (N,); for oracles only."""
        ...


def check_rates(rates: ArrayLike, what: str = "availability rates", *, some: bool = False) -> NDArray[np.float64]:
    """Return probabilities as float64; raise `ConfigError` for one outside [0, 1] or, with ``some``, if all are 0."""
    try:
        rates = np.asarray(rates, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"{what} must be one number per client: {error}") from None
    if rates.ndim != 1:
        raise ConfigError(f"{what} must be one number per client; got shape {rates.shape}")
    good = (rates >= 0) & (rates <= 1)
    if not good.all():
        bad = int(np.flatnonzero(~good)[0])
        raise ConfigError(f"{what} must lie in [0, 1]; client {bad} has {rates[bad]}")
    if some and not (rates > 0).any():
        raise ConfigError("every client's availability rate is 0, so none would ever be there to select")
    return rates
