"""Selector ``fedau``: weights for those that participate, without knowing their rates (Wang & Ji, ICLR 2024)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedselect.errors import ConfigError
from fedselect.rounds.protocol import Outcome, RoundContext, RoundFeedback, Selection
from fedselect.selectors.base import (
    SELECTORS,
    SelectorBase,
    check_importance,
    equal_importance,
)
from solvers import InvalidProblem
from solvers.participation import ParticipationWeights


@SELECTORS.register("fedau")
class FedAU(SelectorBase):
    r"""Weigh participating clients by their mean participation intervals, online estimates of one over their rates.

    The weights are :math:`a_n = \omega_t^n / N` (Algorithms 1-2). FedAU decides weights, not clients. *Selected* means
    here: asked to train because it is available, which every available client is; *participated* means that its update
    arrived. So ω, which tends to one over the rate of participation, makes up for unavailability and for failures after
    selection alike. ω depends on earlier rounds alone. A client that has never participated has ω = 1 (K, once an
    interval of it was cut), so that without a cutoff its very first update counts little.

    The server learning rate η is a setting of the training, ``server_learning_rate``.

    Parameters
    ----------
    n_clients : int
        Number of clients N.
    cutoff : int, optional
        K ≥ 1: an interval is cut when it reaches K rounds, which bounds ω by K and makes it too small, most for rates
        far below 1/K. ``None`` for no cutoff (K = ∞); the paper's experiments have K = 50 and ∞.
    importance : (N,) array-like, optional
        Target importance α; :math:`a_n = \alpha_n \omega_t^n`. FedAU's objective has 1/N, the default.
    """

    def __init__(self, n_clients: int, *, cutoff: int | None = None, importance: ArrayLike | None = None) -> None:
        self.importance = check_importance(equal_importance(n_clients) if importance is None else importance)
        self.n_clients = n_clients
        if self.importance.size != n_clients:
            raise ConfigError(f"the importance must have one entry per client, {n_clients}; got {self.importance.size}")
        try:
            self.intervals = ParticipationWeights(n_clients, cutoff)
        except InvalidProblem as error:
            raise ConfigError(f"selector 'fedau': {error}") from error

    def _select(self, round: RoundContext) -> Selection:
        """Select every available client, weighted by importance times mean interval so far."""
        clients = np.flatnonzero(round.available)
        return Selection(clients, self.importance[clients] * self.intervals.weights[clients])

    def update(self, feedback: RoundFeedback) -> None:
        """Record which updates arrived."""
        self.intervals.update(feedback.outcomes == Outcome.RETURNED)

    def state_dict(self) -> dict[str, Any]:
        """Return the intervals of every client."""
        return self.intervals.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the intervals."""
        self.intervals.load_state_dict(state)
