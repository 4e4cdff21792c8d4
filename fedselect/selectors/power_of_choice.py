"""Selector ``power-of-choice``: the largest losses of a few candidates (Cho et al. 2020)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedselect.errors import ConfigError
from fedselect.rounds.protocol import RoundContext, Selection
from fedselect.rounds.scenario import Scenario
from fedselect.selectors.base import (
    SELECTORS,
    Aggregation,
    Part,
    Stateless,
    aggregate,
    check_choice,
    check_size,
    nobody,
)
from fedselect.selectors.base import losses as probed

__all__ = ["PowerOfChoice"]


class PowerOfChoice(Stateless):
    r"""Draw d candidates in proportion to their data, and select the m with the largest losses.

    pow-d of Cho, Wang and Joshi (2020): the candidates come without replacement with probability proportional to
    :math:`n_k`; each reports the loss of the current global model; the mean of the m selected models follows. Towards
    the clients with large losses it is biased on purpose. d = m is a random draw, d = N is greedy. Of equal losses,
    the lower id is selected.

    Every candidate's probe is one more message, and does not fail.

    Parameters
    ----------
    size : int
        Clients to select, m; all of the available if they are fewer.
    candidates : int, optional
        d ≥ m; 2m by default (the paper tries several, E3CS does not give its own). Beyond the number of available
        clients all of them are candidates.
    aggregation : {"mean", "samples", "deadline"}
        See `fedselect.selectors.base.aggregate`: the plain ``"mean"`` in the paper and in FedGS's code,
        ``"deadline"`` in E3CS's comparison.

    losses : {"training", "validation"}
        Which samples a client measures the loss on: those it trains on, as in the paper, or those it has held out, as
        in FedGS's code.

    Raises
    ------
    ConfigError
        When an argument is not as described, or (in the round) no losses can be had.
    """

    def __init__(
        self, size: int, *, candidates: int | None = None, aggregation: Aggregation = "mean", losses: Part = "training"
    ) -> None:
        self.size = check_size(size)
        self.candidates = check_size(2 * self.size if candidates is None else candidates, "the number of candidates")
        if self.candidates < self.size:
            raise ConfigError(
                f"there must be at least as many candidates as clients to select, {size}; got {candidates}"
            )
        self.aggregation: Aggregation = aggregation
        self.losses: Part = losses
        check_choice("losses", losses, ("training", "validation"))
        check_choice("aggregation", aggregation, ("mean", "samples", "deadline"))

    def select(self, round: RoundContext) -> Selection:
        """Draw the candidates and keep those with the largest losses."""
        present = np.flatnonzero(round.available)
        if present.size == 0:
            return nobody()
        if self.candidates < present.size:
            share = round.sizes[present] / round.sizes[present].sum()
            present = np.sort(round.rng.choice(present, size=self.candidates, replace=False, p=share))
        order = np.argsort(-probed(round, present, "power-of-choice", self.losses), kind="stable")
        return aggregate(np.sort(present[order[: self.size]]), round.sizes, self.aggregation)


@SELECTORS.register("power-of-choice", "pow-d")
def power_of_choice(
    scenario: Scenario,
    *,
    candidates: int | None = None,
    convention: Literal["paper", "fedgs"] = "paper",
    aggregation: Aggregation = "mean",
    losses: Part | None = None,
) -> PowerOfChoice:
    """Select the largest losses among d candidates drawn in proportion to data.

    ``convention="fedgs"`` is what FedGS's authors run: everybody available is a candidate, and ``losses`` are those of
    ``"validation"`` samples where there are any (and of ``"training"`` samples in the paper's).
    """
    if convention == "fedgs":
        if candidates is not None:
            raise ConfigError(
                "selector 'power-of-choice': convention 'fedgs' has everybody as candidate; leave candidates"
            )
        candidates = max(scenario.n_clients, scenario.size)
    if losses is None:
        held_out = convention == "fedgs" and scenario.data is not None and bool(scenario.data.validation)
        losses = "validation" if held_out else "training"
    return PowerOfChoice(scenario.size, candidates=candidates, aggregation=aggregation, losses=losses)
