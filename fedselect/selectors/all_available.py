"""Selector ``all-available``: everybody who is there."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedselect.rounds.protocol import RoundContext
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.aggregation import data_weights
from fedselect.selectors.bases import Everyone
from fedselect.selectors.registry import SELECTORS

__all__ = ["AllAvailable"]


class AllAvailable(Everyone):
    r"""Select everybody who is available, weighted by data, :math:`n_k / \sum_{i \in A} n_i`.

    FedAvg with full participation of those present. It is what FedVARP (Jhunjhunwala et al., UAI 2022) and MIFA (Gu
    et al., NeurIPS 2021) run on, whose server rules apply stored updates beside the weights.
    """

    on_failure: Literal["keep", "renormalise"] = "renormalise"

    def weights(self, round: RoundContext, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Shares of the samples of those present."""
        return data_weights(round.sizes, clients)


@SELECTORS.register("all-available")
def all_available(scenario: Scenario) -> AllAvailable:
    """Select everybody who is available, weighted by data."""
    return AllAvailable()
