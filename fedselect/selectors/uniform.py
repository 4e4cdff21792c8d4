"""Selector ``uniform``: a uniform draw from the available clients."""

from __future__ import annotations

import numpy as np

from fedselect.rounds.protocol import RoundContext, Selection
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.aggregation import Aggregation, aggregate, nobody
from fedselect.selectors.bases import Stateless
from fedselect.selectors.checks import check_choice, check_size
from fedselect.selectors.registry import SELECTORS

__all__ = ["Uniform"]


class Uniform(Stateless):
    r"""Draw m of the available clients uniformly, without replacement.

    FedGS's ``UniformSample``, E3CS's Random and FedSS's FedAvg (McMahan et al. 2017 draw from all clients; with
    availability only those present can be drawn). Its average over the present clients is biased towards groups that
    happen to be there: by FedSS Eq. 7, :math:`\sum_k (A_k / A - N_k / N)\, \bar\omega^k` for groups of N_k clients
    of which A_k are available.

    Parameters
    ----------
    size : int
        Clients to select; all of the available if they are fewer.
    aggregation : {"samples", "mean", "deadline"}
        See `fedselect.selectors.aggregation.aggregate`: ``"samples"`` in FedGS and FedSS, ``"deadline"`` in E3CS.

    Raises
    ------
    ConfigError
        When an argument is not as described.
    """

    def __init__(self, size: int, *, aggregation: Aggregation = "samples") -> None:
        self.size = check_size(size)
        self.aggregation: Aggregation = aggregation
        check_choice("aggregation", aggregation, ("samples", "mean", "deadline"))

    def select(self, round: RoundContext) -> Selection:
        """Draw this round's clients."""
        present = np.flatnonzero(round.available)
        m = min(self.size, present.size)
        if m == 0:
            return nobody()
        clients = np.sort(round.rng.choice(present, size=m, replace=False))
        inclusion = np.where(round.available, m / present.size, 0.0)
        return aggregate(clients, round.sizes, self.aggregation, inclusion)


@SELECTORS.register("uniform")
def uniform(scenario: Scenario, *, aggregation: Aggregation = "samples") -> Uniform:
    """Draw m of the available clients uniformly, without replacement."""
    return Uniform(scenario.size, aggregation=aggregation)
