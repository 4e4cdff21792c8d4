"""The setting of a run that a selector is built for."""

from __future__ import annotations

from dataclasses import dataclass

from fedselect.availability import Availability, Dropout
from fedselect.data import Federation

__all__ = ["Scenario"]


@dataclass(frozen=True, eq=False)
class Scenario:
    """Who the clients are, when they are there and come back, how many are selected, for how long.

    A selector's builder takes from it what its paper lets the server know. Whatever an *oracle* variant takes beyond
    that (true availability or success rates, say) is an option that says so.

    Attributes
    ----------
    federation : Federation
        Clients and their data.
    availability : Availability
        Who is there.
    dropout : Dropout
        Who comes back.
    size : int
        Clients to select a round, m.
    rounds : int
        Rounds planned, T.
    seed : int
        Seed of the run.
    """

    federation: Federation
    availability: Availability
    dropout: Dropout
    size: int
    rounds: int
    seed: int

    @property
    def clients(self) -> int:
        """Number of clients N."""
        return len(self.federation)
