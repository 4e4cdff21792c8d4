"""Selector ``md-sample``: draws with replacement in proportion to data."""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedselect.rounds.protocol import RoundContext, Selection
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.aggregation import nobody
from fedselect.selectors.bases import Stateless
from fedselect.selectors.checks import check_choice, check_size
from fedselect.selectors.registry import SELECTORS

__all__ = ["MDSample"]


class MDSample(Stateless):
    r"""Draw m times with replacement from the available clients, in proportion to their samples.

    Multinomial sampling (Li et al., MLSys 2020; FedGS's ``MDSample``). A client drawn c times trains once and weighs
    :math:`a_k = c / m`, so that :math:`E[a_k] = n_k / \sum_{i \in A} n_i`: unbiased over those that are present, not
    over all. Fewer than m different clients train. As in the authors' code, there are m draws even when fewer clients
    than that are available.

    Parameters
    ----------
    size : int
        Number of draws m.
    on_failure : {"keep", "renormalise"}
        ``"keep"``: a client that does not return keeps the global model in its place, which leaves the expected
        direction as it is when failures strike all alike. ``"renormalise"``: the mean of the models received, as in
        FedGS's framework (which has no failures).

    Raises
    ------
    ConfigError
        When an argument is not as described.
    """

    def __init__(self, size: int, *, on_failure: Literal["keep", "renormalise"] = "keep") -> None:
        self.size = check_size(size)
        self.on_failure: Literal["keep", "renormalise"] = on_failure
        check_choice("on_failure", on_failure, ("keep", "renormalise"))

    def select(self, round: RoundContext) -> Selection:
        """Draw this round's clients."""
        present = np.flatnonzero(round.available)
        if present.size == 0:
            return nobody()
        share = round.sizes[present] / round.sizes[present].sum()
        counts = round.rng.multinomial(self.size, share)
        drawn = counts > 0
        inclusion = np.zeros(round.available.size)
        inclusion[present] = -np.expm1(self.size * np.log1p(-np.minimum(share, 1.0 - 1e-16)))
        return Selection(present[drawn], counts[drawn] / self.size, inclusion, on_failure=self.on_failure)


@SELECTORS.register("md-sample", "MDSample")
def md_sample(scenario: Scenario, *, on_failure: Literal["keep", "renormalise"] = "keep") -> MDSample:
    """Draw m times with replacement from the available clients, in proportion to their samples."""
    return MDSample(scenario.size, on_failure=on_failure)
