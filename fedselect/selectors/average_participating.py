"""Selector ``average-participating``: the plain mean of whoever participates."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedselect.rounds.protocol import RoundContext
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.bases import Everyone
from fedselect.selectors.registry import SELECTORS

__all__ = ["AverageParticipating"]


class AverageParticipating(Everyone):
    r"""Take the mean update of those that participate, :math:`a_n = 1 / |S|`.

    A baseline of FedAU (Wang & Ji, ICLR 2024): biased towards clients that participate often. S are the available
    clients whose updates arrive; the mean is taken over these.
    """

    on_failure: Literal["keep", "renormalise"] = "renormalise"

    def weights(self, round: RoundContext, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """The same for all, summing to 1."""
        return np.full(clients.size, 1.0 / max(clients.size, 1))


@SELECTORS.register("average-participating")
def average_participating(scenario: Scenario) -> AverageParticipating:
    """Take the mean update of those that participate (FedAU's baseline)."""
    return AverageParticipating()
