"""Selectors ``uniform`` and ``md-sample``: draws without and with replacement."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedselect.clock import asked
from fedselect.errors import ConfigError
from fedselect.options import check_choice, check_number
from fedselect.rounds.protocol import RoundContext, Selection
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.base import (
    SELECTORS,
    Aggregation,
    SelectorBase,
    aggregate,
    check_aggregation,
    check_size,
    no_clients,
)


class Uniform(SelectorBase):
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
        See `fedselect.selectors.base.aggregate`: ``"samples"`` in FedGS and FedSS, ``"deadline"`` in E3CS.
    over : float
        Draw ``over`` times ``size`` clients, rounded up, and take the ``size`` updates that arrive first:
        over-selection (Bonawitz et al., MLSys 2019, ask 1.3 times the number). At least 1; above 1 it needs a clock.
    """

    def __init__(self, size: int, *, aggregation: Aggregation = "samples", over: float = 1.0) -> None:
        self.size, self.over = check_size(size), check_number("over", over, 1.0)
        self.aggregation = check_aggregation(aggregation)

    def _choose(self, round: RoundContext, present: NDArray[np.int64]) -> Selection:
        if self.over > 1 and round.clock is None:
            raise ConfigError("over-selection takes the updates that arrive first, and this round has no clock")
        m = min(asked(self.size, self.over), present.size)
        clients = np.sort(round.rng.choice(present, size=m, replace=False))
        inclusion = np.where(round.available, m / present.size, 0.0)
        selection = aggregate(clients, round.sizes, self.aggregation, inclusion)
        return selection if self.over == 1.0 else replace(selection, enough=self.size)


@SELECTORS.register("uniform")
def uniform(scenario: Scenario, *, aggregation: Aggregation = "samples", over: float = 1.0) -> Uniform:
    """Draw m of the available clients uniformly, without replacement; with ``over``, more, and take the first m."""
    if over > 1 and scenario.clock is None:
        raise ConfigError(
            "selector 'uniform': over asks more clients than are wanted, and takes the first: give the run a [clock]"
        )
    return Uniform(scenario.size, aggregation=aggregation, over=over)


@SELECTORS.register("md-sample", "MDSample")
class MDSample(SelectorBase):
    r"""Draw m times with replacement from the available clients, in proportion to their samples.

    Multinomial sampling (Li et al., MLSys 2020; FedGS's ``MDSample``). By default a client drawn c times trains once
    and weighs :math:`a_k = c / m`, so that :math:`E[a_k] = n_k / \sum_{i \in A} n_i`: unbiased over those that are
    present, not over all. At most m different clients train. As in the authors' code, there are m draws even when
    fewer clients than that are available.

    Parameters
    ----------
    size : int
        Number of draws m.
    on_failure : {"keep", "renormalise"}
        ``"keep"``: a client that does not return keeps the global model in its place, which leaves the expected
        direction as it is when failures strike all alike. ``"renormalise"``: the weights are rescaled over the models
        received, as in FedGS's framework (which has no failures).
    among : {"available", "all"}
        Clients that the draws are from: the available ones, or all, of which the absent are dropped and the mean is
        taken over the draws of those present. The second is what FedAvg does by default in FedGS's code, whose FedProx
        draws among the available; it selects fewer clients where fewer are there, and none where none of the drawn is.
    duplicates : {"counted", "once"}
        ``"counted"``: a client drawn c times weighs c over the draws of those present (m, or fewer with
        ``among="all"``). ``"once"``: all drawn clients weigh the same, however often they were drawn, which is what
        FedGS's Table 2 looks like; large clients then count for less.
    """

    def __init__(
        self,
        size: int,
        *,
        on_failure: Literal["keep", "renormalise"] = "keep",
        among: Literal["available", "all"] = "available",
        duplicates: Literal["counted", "once"] = "counted",
    ) -> None:
        self.size = check_size(size)
        self.among = check_choice("among", among, "available", "all")
        self.duplicates = check_choice("duplicates", duplicates, "counted", "once")
        self.on_failure: Literal["keep", "renormalise"] = on_failure
        check_choice("on_failure", on_failure, "keep", "renormalise")

    def _choose(self, round: RoundContext, present: NDArray[np.int64]) -> Selection:
        asked = round.available if self.among == "available" else np.ones_like(round.available)
        share = np.where(asked, round.sizes, 0) / max(1, round.sizes[asked].sum())
        counts = np.zeros(share.size, dtype=np.int64)
        counts[asked] = round.rng.multinomial(self.size, share[asked])
        drawn = np.flatnonzero((counts > 0) & round.available)
        if drawn.size == 0:
            return no_clients()
        inclusion = np.where(round.available, -np.expm1(self.size * np.log1p(-np.minimum(share, 1.0 - 1e-16))), 0.0)
        times = counts[drawn] if self.duplicates == "counted" else np.ones(drawn.size)
        return Selection(drawn, times / times.sum(), inclusion, on_failure=self.on_failure)
