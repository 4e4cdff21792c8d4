"""A control of CA-Fed's, ``ca-fed-random``: leave out as many clients as it would, but draw which.

It says whether CA-Fed leaves out the right ones. Importing this module makes it known by its name.
"""

from __future__ import annotations

import numpy as np

from fedselect.rounds.protocol import Selection
from fedselect.selectors import SELECTORS
from fedselect.selectors.base import SelectorBase
from fedselect.selectors.ca_fed import ca_fed


class RandomExclusions(SelectorBase):
    """Keep as many of the available clients as CA-Fed keeps, any as likely as another, with CA-Fed's weights."""

    state_names = ("inner",)

    def __init__(self, inner):
        self.inner = inner

    def select(self, round):
        """Let CA-Fed decide how many, and draw these."""
        decided = self.inner.select(round)
        present = np.flatnonzero(round.available)
        clients = np.sort(round.rng.choice(present, size=decided.clients.size, replace=False))
        all_weights = self.inner.importance / self.inner.chains.availability
        weights = all_weights[clients]
        if self.inner.step == "full" and (total := weights.sum()) > 0:
            weights = weights * (all_weights[present].sum() / total)
        return Selection(clients, weights)


@SELECTORS.register("ca-fed-random")
def random_exclusions(scenario, *, bias_weight: float = 1.0, step: str = "published", time_limit: float | None = None):
    """Leave out as many clients as CA-Fed's exact exclusion does, drawn at random."""
    exact = ca_fed(scenario, method="auto", bias_weight=bias_weight, step=step, time_limit=time_limit)
    return RandomExclusions(exact)
