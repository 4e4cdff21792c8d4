"""Selector ``known-participation``: FedAU's ideal, weights from the true participation rates."""

from __future__ import annotations

from numpy.typing import ArrayLike

from fedselect.rounds.scenario import Scenario
from fedselect.selectors.importance import equal_importance
from fedselect.selectors.oracle import Rates, participation_rates
from fedselect.selectors.registry import SELECTORS
from fedselect.selectors.unbiased import Unbiased

__all__ = ["KnownParticipation"]


class KnownParticipation(Unbiased):
    r"""Weigh whoever participates by :math:`a_n = 1 / (N p_n)`, the participation rate p known.

    The baseline *known participation statistics* of FedAU (Wang & Ji, ICLR 2024), which FedAU estimates online;
    the same formula as CA-Fed's *Unbiased* with every client equally important.

    Parameters
    ----------
    rates : (N,) array-like, or callable ``round -> (N,)``
        True participation rate p in (0, 1]. The authors' code uses the stationary rate it configured, also for
        Markovian and cyclic patterns.
    clients : int
        Number of clients N.
    importance : (N,) array-like, optional
        Another target than 1/N.
    """

    def __init__(self, rates: Rates, clients: int, importance: ArrayLike | None = None) -> None:
        super().__init__(rates, equal_importance(clients) if importance is None else importance)


@SELECTORS.register("known-participation")
def known_participation(scenario: Scenario) -> KnownParticipation:
    """Weigh whoever participates by one over its true participation rate (FedAU's baseline).

    An oracle: it takes the true rates of availability and of return from the scenario.
    """
    return KnownParticipation(participation_rates(scenario), scenario.clients)
