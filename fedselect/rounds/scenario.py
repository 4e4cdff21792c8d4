"""World that rounds are played in, and the scenario of a run in it."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedselect.availability import Availability, Dropout, TimedAvailability, no_dropout
from fedselect.clock import Clock
from fedselect.data import Federation
from fedselect.errors import ConfigError
from fedselect.options import array_of
from solvers.checks import seconds_or_none


@dataclass(frozen=True, eq=False)
class World:
    """Clients, their availability and dropout: what an engine has to know to play a round.

    Attributes
    ----------
    sizes : (N,) ndarray of int
        Training samples of each client; given as anything that makes such an array.
    availability : Availability
        Which clients are available.
    dropout : Dropout
        Which clients come back; all if left out.
    seed : int
        Seed of the selector's draws (and of a training's); availability and dropout are built with the same one.
    time_limit : float or None
        Seconds a selector may take for a decision.
    clock : Clock, optional
        How long rounds last; without it they have no length.

    Raises
    ------
    ConfigError
        When ``sizes`` is not a positive number of samples for each client, the time limit is not positive, or the
        clock is of other clients.
    """

    sizes: NDArray[np.int64]
    availability: Availability
    dropout: Dropout = None  # type: ignore[assignment]  # filled in below, where N is known
    seed: int = 0
    time_limit: float | None = None
    clock: Clock | None = None

    def __post_init__(self) -> None:
        given = array_of(self.sizes)
        is_whole = given.dtype.kind in "iuf" and bool((given == np.floor(given)).all()) and (given < 2**63).all()
        if given.ndim != 1 or given.size == 0 or not is_whole or (given < 1).any():
            raise ConfigError("sizes must be one positive number of samples a client, and there must be a client")
        sizes = given.astype(np.int64)
        seconds_or_none(self.time_limit, error=ConfigError)
        if self.clock is not None and len(self.clock.devices) != sizes.size:
            raise ConfigError(f"the clock has {len(self.clock.devices)} devices, and there are {sizes.size} clients")
        object.__setattr__(self, "sizes", sizes)
        if self.dropout is None:
            object.__setattr__(self, "dropout", no_dropout(sizes.size, self.seed))

    def __repr__(self) -> str:
        there, back = type(self.availability).__name__, type(self.dropout).__name__
        return f"<{type(self).__name__.lower()}: {self.n_clients} clients, {there}, {back}, seed {self.seed}>"

    @property
    def n_clients(self) -> int:
        """Number of clients N."""
        return self.sizes.size

    @cached_property
    def timed(self) -> TimedAvailability | None:
        """The availability where it knows seconds; None where it knows rounds alone."""
        return self.availability if isinstance(self.availability, TimedAvailability) else None


@dataclass(frozen=True, eq=False, repr=False)
class Scenario(World):
    """A world, its clients' data, and how many are to be selected for how long: what a selector is built for.

    A selector's builder takes from it what its paper lets the server know. An *oracle* takes more (true availability or
    success rates, say), and its description says so.

    Attributes
    ----------
    size : int
        Clients to select a round, m.
    rounds : int
        Rounds planned, T.
    data : Federation, optional
        The clients' data; a scenario of sizes alone serves every selector that does not look at them.
    """

    _: KW_ONLY
    size: int
    rounds: int
    data: Federation | None = None

    @property
    def federation(self) -> Federation:
        """The clients' data; raises `ConfigError` where the scenario has none."""
        if self.data is None:
            raise ConfigError("this scenario has sizes and no data, and something asked for its clients' data")
        return self.data
