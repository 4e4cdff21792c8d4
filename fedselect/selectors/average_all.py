"""Selector ``average-all``: the mean over all clients, absent ones counting as no change."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedselect.rounds.protocol import RoundContext
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.bases import Everyone
from fedselect.selectors.registry import SELECTORS

__all__ = ["AverageAll"]


class AverageAll(Everyone):
    r"""Average over all N clients, with a zero update for those that do not participate: :math:`a_n = 1 / N`.

    A baseline of FedAU (Wang & Ji, ICLR 2024), and what FedAU itself is with cutoff K = 1. It minimises
    :math:`\sum_n p_n F_n`, biased towards clients that participate often, by small steps: FedAU's authors run it with
    a server learning rate of 10, where it equals a constant weight of 10.
    """

    def weights(self, round: RoundContext, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """1/N for everybody."""
        return np.full(clients.size, 1.0 / round.available.size)


@SELECTORS.register("average-all")
def average_all(scenario: Scenario) -> AverageAll:
    """Average over all clients, absent ones counting as no change (FedAU's baseline)."""
    return AverageAll()
