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

    among : {"available", "all"}
        Whom the draws are from: those who are there, or everybody, of whom the absent are dropped and the mean is
        taken over the draws of those present. The second is what FedAvg and FedProx do by default in FedGS's code; it
        selects fewer clients where fewer are there, and nobody where none of the drawn is.
    duplicates : {"counted", "once"}
        ``"counted"``: a client drawn c times weighs c / m. ``"once"``: all drawn clients weigh the same, however often
        they were drawn, which is what FedGS's Table 2 looks like; large clients then count for less.

    Raises
    ------
    ConfigError
        When an argument is not as described.
    """

    def __init__(
        self,
        size: int,
        *,
        on_failure: Literal["keep", "renormalise"] = "keep",
        among: Literal["available", "all"] = "available",
        duplicates: Literal["counted", "once"] = "counted",
    ) -> None:
        self.among: Literal["available", "all"] = among
        check_choice("among", among, ("available", "all"))
        self.duplicates: Literal["counted", "once"] = duplicates
        check_choice("duplicates", duplicates, ("counted", "once"))
        self.size = check_size(size)
        self.on_failure: Literal["keep", "renormalise"] = on_failure
        check_choice("on_failure", on_failure, ("keep", "renormalise"))

    def select(self, round: RoundContext) -> Selection:
        """Draw this round's clients."""
        asked = round.available if self.among == "available" else np.ones_like(round.available)
        share = np.where(asked, round.sizes, 0) / max(1, round.sizes[asked].sum())
        if not round.available.any():
            return nobody()
        counts = np.zeros(share.size, dtype=np.int64)
        counts[asked] = round.rng.multinomial(self.size, share[asked])
        drawn = np.flatnonzero((counts > 0) & round.available)
        if drawn.size == 0:
            return nobody()
        inclusion = np.where(round.available, -np.expm1(self.size * np.log1p(-np.minimum(share, 1.0 - 1e-16))), 0.0)
        times = counts[drawn] if self.duplicates == "counted" else np.ones(drawn.size)
        return Selection(drawn, times / times.sum(), inclusion, on_failure=self.on_failure)


@SELECTORS.register("md-sample", "MDSample")
def md_sample(
    scenario: Scenario,
    *,
    on_failure: Literal["keep", "renormalise"] = "keep",
    among: Literal["available", "all"] = "available",
    duplicates: Literal["counted", "once"] = "counted",
) -> MDSample:
    """Draw m times with replacement from the available clients, in proportion to their samples.

    ``among="all"`` draws from everybody and drops the absent, as FedProx does in FedGS's code; ``duplicates="once"``
    lets a client that was drawn several times weigh as much as the others.
    """
    return MDSample(scenario.size, on_failure=on_failure, among=among, duplicates=duplicates)
