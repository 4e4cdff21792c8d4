"""Selector ``uniform``: a uniform draw from the available clients."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedselect.protocol import RoundContext, RoundFeedback, Selection
from fedselect.scenario import Scenario
from fedselect.selectors.registry import SELECTORS, check_size, data_weights

__all__ = ["Uniform"]


class Uniform:
    r"""Draw m of the available clients uniformly, without replacement.

    The weights are :math:`n_k / \sum_{i \in S} n_i` as in FedGS's ``UniformSample`` (McMahan et al. 2017 draw from all
    clients; with availability only those present can be drawn).

    Parameters
    ----------
    size : int
        Clients to select; all of the available if they are fewer.
    """

    def __init__(self, size: int) -> None:
        self.size = check_size(size)

    def select(self, round: RoundContext) -> Selection:
        """Draw this round's clients."""
        present = np.flatnonzero(round.available)
        m = min(self.size, present.size)
        clients = np.sort(round.rng.choice(present, size=m, replace=False))
        inclusion = np.where(round.available, m / max(present.size, 1), 0.0)
        return Selection(clients, data_weights(round.sizes, clients), inclusion, on_failure="renormalise")

    def update(self, feedback: RoundFeedback) -> None:
        """Learn nothing: every round is drawn afresh."""

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: there is no state."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore nothing: there is no state."""


@SELECTORS.register("uniform")
def uniform(scenario: Scenario) -> Uniform:
    """Draw m of the available clients uniformly, without replacement."""
    return Uniform(scenario.size)
