"""Selector ``unbiased``: everybody available, weighted by importance over known participation rate."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedselect.rounds.protocol import RoundContext
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.bases import Everyone
from fedselect.selectors.importance import check_importance, target_importance
from fedselect.selectors.oracle import Rates, participation_rates, positive_rates
from fedselect.selectors.registry import SELECTORS

__all__ = ["Unbiased"]


class Unbiased(Everyone):
    r"""Weigh whoever is available by :math:`a_k = \alpha_k / \pi_k`, the true rate π known.

    The benchmark *Unbiased* of CA-Fed (Rodio et al., INFOCOM 2023, §V): :math:`E[\sum_k a_k \Delta_k] = \sum_k
    \alpha_k \Delta_k`, at the price of large weights for clients that are seldom there. The weights are not
    normalised; they sum to 1 in expectation.

    Parameters
    ----------
    rates : (N,) array-like, or callable ``round -> (N,)``
        True probability π in (0, 1] that a client participates.
    importance : (N,) array-like
        Target importance α; sums to 1.

    Raises
    ------
    ConfigError
        When the importance is not as described, or (in the round) an available client's rate is not.
    """

    def __init__(self, rates: Rates, importance: ArrayLike) -> None:
        self.rates = rates
        self.importance = check_importance(importance)

    def weights(self, round: RoundContext, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Importance over rate."""
        return self.importance[clients] / positive_rates(self.rates, round.round, clients)


@SELECTORS.register("unbiased")
def unbiased(scenario: Scenario, *, importance: Literal["samples", "equal"] = "samples") -> Unbiased:
    """Weigh whoever is available by importance over true participation rate (CA-Fed's benchmark).

    An oracle: it takes the true rates of availability and of return from the scenario. CA-Fed knows no failures after
    selection; without them the rate is the availability π of its definition.
    """
    return Unbiased(participation_rates(scenario), target_importance(scenario, importance))
