"""Selector ``adafed``: inverse availabilities, normalised every round."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedselect.rounds.protocol import RoundContext
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.importance import target_importance
from fedselect.selectors.oracle import participation_rates
from fedselect.selectors.registry import SELECTORS
from fedselect.selectors.unbiased import Unbiased

__all__ = ["AdaFed"]


class AdaFed(Unbiased):
    r"""Weigh whoever is available by :math:`\alpha_k / \pi_k`, scaled to sum to 1 each round.

    AdaFed as CA-Fed's authors code it for their comparison (Rodio et al., INFOCOM 2023, §V); the original (Tan et al.,
    IEEE TNSE 2022) also adapts who participates, which that code leaves out, and could not be consulted. Its server
    learning rate is 1. Normalising a ratio makes it biased: with 12 clients available at rate 0.9 and 12 at 0.1, of
    equal importance, the two groups weigh 0.60 and 0.40 in the long run.

    Parameters
    ----------
    rates : (N,) array-like, or callable ``round -> (N,)``
        True probability π in (0, 1] that a client participates.
    importance : (N,) array-like
        Target importance α; sums to 1.
    """

    on_failure: Literal["keep", "renormalise"] = "renormalise"

    def weights(self, round: RoundContext, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """Importance over rate, as shares."""
        raw = super().weights(round, clients)
        return raw / raw.sum() if raw.size else raw


@SELECTORS.register("adafed")
def adafed(scenario: Scenario, *, importance: Literal["samples", "equal"] = "samples") -> AdaFed:
    """Weigh whoever is available by importance over true participation rate, normalised every round.

    An oracle: it takes the true rates of availability and of return from the scenario.
    """
    return AdaFed(participation_rates(scenario), target_importance(scenario, importance))
