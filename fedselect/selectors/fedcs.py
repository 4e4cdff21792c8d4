"""Selector ``fedcs``: those known to succeed most often."""

from __future__ import annotations

import numpy as np

from fedselect.rounds.protocol import RoundContext, Selection
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.base import SELECTORS, Aggregation, Stateless, aggregate, check_choice, check_size, nobody
from fedselect.selectors.oracle import Rates, rates_at, success_rates

__all__ = ["FedCS"]


class FedCS(Stateless):
    """Select the m available clients with the largest true success rates, ties always broken the same way.

    FedCS as E3CS adapts it to volatile clients (Huang et al., IEEE IoT-J 2022, Appendix A): an oracle that maximises
    the expected number of returns and has no regard for fairness. Of equal rates the lower id wins in every round, as
    E3CS's Fig. 3 shows. (The original of Nishio and Yonetani 2019 packs clients under a deadline by their latencies,
    which are not modelled here.)

    Parameters
    ----------
    size : int
        Clients to select, m; all of the available if they are fewer.
    rates : (N,) array-like, or callable ``round -> (N,)``
        True success rates ρ.
    aggregation : {"deadline", "samples", "mean"}
        See `fedselect.selectors.base.aggregate`; ``"deadline"`` in E3CS's comparison.

    Raises
    ------
    ConfigError
        When an argument is not as described.
    """

    def __init__(self, size: int, *, rates: Rates, aggregation: Aggregation = "deadline") -> None:
        self.rates, self.size = rates, check_size(size)
        self.aggregation: Aggregation = aggregation
        check_choice("aggregation", aggregation, ("deadline", "samples", "mean"))

    def select(self, round: RoundContext) -> Selection:
        """Select the largest rates."""
        present = np.flatnonzero(round.available)
        if present.size == 0:
            return nobody()
        order = np.argsort(-rates_at(self.rates, round.round)[present], kind="stable")
        return aggregate(np.sort(present[order[: self.size]]), round.sizes, self.aggregation)


@SELECTORS.register("fedcs")
def fedcs(scenario: Scenario, *, aggregation: Aggregation = "deadline") -> FedCS:
    """Select the clients with the largest true success rates (an oracle; E3CS's baseline)."""
    return FedCS(scenario.size, rates=success_rates(scenario), aggregation=aggregation)
